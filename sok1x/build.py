"""`python -m sok1x.build`: compiles what an installation from `make wheel` lacks, for the TensorFlow that is here.

A wheel of sources fits any TensorFlow and any Python, and so has no machine code: no op, which is compiled against the
installed TensorFlow, and no kernels for the host. This compiles both, where that is not done yet, and says what is
missing for it. Without it the first process that needs them compiles them, and others wait.
"""
import argparse
import sys
from typing import List, Optional

from sok1x import check_needs
from sok1x.check_outcomes import Failure, Note


def main(arguments: Optional[List[str]] = None) -> int:
    """Compiles what is missing.

    Args:
        arguments: of the command line; default: this process's.

    Returns:
        The exit code: 0, or 1 if something is missing, which is said on stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m sok1x.build", description=(
        "Compile sok1x's op and host kernels for the TensorFlow of this environment, where that is not done yet."))
    parser.add_argument("--force", action="store_true", help="compile also what is there")
    parser.add_argument("--one-rank", action="store_true", help="do without MPI, which more than one rank needs")
    options = parser.parse_args(arguments)
    from sok1x.cuda_kernels import native
    if native.is_checkout():
        sys.stderr.write("sok1x.build: this is a checkout, where 'make build' builds\n")
        return 1
    checks = [("TensorFlow", check_needs.tensorflow), ("C++ compiler", check_needs.compiler)]
    if not options.one_rank:
        checks.append(("MPI (mpi4py)", check_needs.mpi))
    missing = False
    for title, check in checks:
        try:
            print("{}: {}".format(title, check()))
        except (Failure, Note) as trouble:
            missing = True
            remedy = "\n    what to do: {}".format(trouble.remedy) if isinstance(trouble, Failure) else ""
            sys.stderr.write("sok1x.build: {}: {}{}\n".format(title, trouble, remedy))
    if missing:
        sys.stderr.write("sok1x.build: nothing was compiled{}\n".format(
            "" if options.one_rank else "; without MPI, for one rank alone: python -m sok1x.build --one-rank"))
        return 1
    from sok1x.cuda_kernels import host
    from sok1x.graph_ops.bridge import bridge, op_file
    try:
        for path, compile_missing in ((bridge.PATH, op_file.compile_missing), (host.LIBRARY, host.compile_missing)):
            compile_missing(path, options.force)
            print("ready: {}".format(path))
    except (RuntimeError, OSError) as error:
        sys.stderr.write("sok1x.build: {}\n".format(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
