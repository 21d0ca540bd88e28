"""Compiles the kernels for the host: every .cu of this folder as C++ into one shared library.

setup.py loads this file by its path; by hand: ``python cuda_kernels/build_host.py [OUTPUT]``.
"""
import glob
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import List, Optional, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "_host_kernels.so")

# No -march: the library must run on any machine of the architecture. No contraction into fused multiply-adds and
# no fast-math: results must not depend on the compiler's choices.
FLAGS = ["-O3", "-std=c++14", "-fPIC", "-pthread", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
         "-Wall", "-Werror=return-type"]


def build(output_path: str = LIBRARY, cxx: Optional[str] = None) -> str:
    """Compiles all kernels into one library, one compiler process per core; replaces the old one in one step.

    Args:
        output_path: the library to write.
        cxx: the C++ compiler's command; default: the environment's CXX, or g++.

    Returns:
        The absolute path of the library.

    Raises:
        RuntimeError: the compiler is missing or fails; the message has its output.
    """
    command = shlex.split(cxx or os.environ.get("CXX") or "g++")
    if shutil.which(command[0]) is None:
        raise RuntimeError("The kernels' host build needs a C++ compiler, and '{}' was not found: install g++ "
                           "or name another in CXX.".format(command[0]))
    output_path = os.path.abspath(output_path)
    sources = sorted(glob.glob(os.path.join(HERE, "*.cu")))
    # Beside the output: a rename is one step only within a file system.
    with tempfile.TemporaryDirectory(prefix=".build_", dir=os.path.dirname(output_path)) as folder:
        objects = [os.path.join(folder, os.path.basename(source) + ".o") for source in sources]
        _run_all([command + FLAGS + ["-x", "c++", "-c", source, "-o", target]
                  for source, target in zip(sources, objects)])
        library = os.path.join(folder, "library.so")
        _run_all([command + ["-shared", "-pthread"] + objects + ["-o", library]])
        os.replace(library, output_path)
    return output_path


def _run_all(commands: Sequence[List[str]]) -> None:
    """Runs commands, as many at once as there are cores; the first that fails ends it."""
    waiting = list(commands)
    running: List[Tuple[List[str], "subprocess.Popen[str]"]] = []
    try:
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                command = waiting.pop(0)
                running.append((command, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                          universal_newlines=True)))
            command, process = running.pop(0)
            output = process.communicate()[0]
            if process.returncode:
                raise RuntimeError("{}\nfailed with exit code {}:\n{}".format(
                    " ".join(command), process.returncode, output))
            if output.strip():
                print(output)
    finally:
        for _, process in running:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    print(build(*sys.argv[1:2]))
