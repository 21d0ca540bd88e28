"""Where a native library lies, and how an installation that has sources alone compiles it, once.

A checkout, and `pip install .`, have both libraries beside their sources: setup.py builds them. A wheel of `make wheel`
has the sources alone, for any TensorFlow and any Python: `python -m sok1x.build` compiles them there, and so does the
first process that needs one while others wait for it. What is made then lies beside the sources, and is one of the
files that pip removes with the package; where that folder cannot be written it lies in the folder of compiled GPU
kernels (kernel_cache.py), under a name that changes with the sources.
"""
import contextlib
import fcntl
import glob
import hashlib
import os
import shlex
import shutil
import sys
import time
from typing import Callable, List, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))


def is_checkout() -> bool:
    """Whether this is a source tree, where `make build` builds."""
    return os.path.exists(os.path.join(os.path.dirname(os.path.realpath(HERE)), "setup.py"))


def compiler() -> List[str]:
    """The C++ compiler's command: the environment's CXX, or g++.

    Raises:
        RuntimeError: there is none; the message says how to get one.
    """
    command = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    if shutil.which(command[0]) is None:
        raise RuntimeError("sok1x's native libraries need a C++ compiler, and '{}' was not found: install g++ (Debian, "
                           "Ubuntu: apt-get install g++) or name another in CXX.".format(command[0]))
    return command


def place(folder: str, name: str, sources: Callable[[], Sequence[str]]) -> str:
    """The path of a library, whether it is there or not.

    Args:
        folder: where its sources lie.
        name: its file's name.
        sources: gives all files that it is made from.
    """
    beside = os.path.join(folder, name)
    if os.path.exists(beside) or is_checkout() or os.access(folder, os.W_OK):
        return beside
    from sok1x.cuda_kernels import kernel_cache
    kept = kernel_cache.KernelCache().folder
    if kept is None:  # nothing can be written anywhere: what is missing is said with the place where it should be
        return beside
    digest = hashlib.sha256()
    for source in sources():
        with open(source, "rb") as file:
            content = file.read()
        digest.update("{} {}\n".format(os.path.relpath(source, folder), len(content)).encode() + content)
    return os.path.join(kept, "native-" + digest.hexdigest()[:32], name)


def ensure(path: str, what: str, make: Callable[[str], None], force: bool = False) -> bool:
    """Compiles a library of an installation if it is not there; of several processes one does, and the others wait.

    Args:
        path: what `place` has said.
        what: it in words, for the one line on stderr.
        make: compiles it into the path that it is given.
        force: also if it is there.

    Returns:
        Whether it was compiled by this call. In a checkout nothing is.

    Raises:
        RuntimeError: there is no compiler, or it fails; the message has its output.
        OSError: the library cannot be written.
    """
    if is_checkout() or (os.path.exists(path) and not force):
        return False
    compiler()
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    lock_path, partial = path + ".lock", path[:-len(".so")] + ".partial.so"
    with open(lock_path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path) and not force:
            return False
        sys.stderr.write("sok1x: compiling {}, once (a minute or two) ...\n".format(what))
        sys.stderr.flush()
        started = time.time()
        try:
            make(partial)
            # A program that has the old library loaded keeps it: the file is replaced, never written over.
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.remove(partial)
        _note_for_pip([path, lock_path])
        sys.stderr.write("sok1x: compiled in {:.0f} s: {}\n".format(time.time() - started, path))
    return True


def _note_for_pip(paths: Sequence[str]) -> None:
    """Enters files in the installation's RECORD, so that `pip uninstall`, and an upgrade, removes them."""
    package = os.path.dirname(HERE)
    inside = [path for path in (os.path.relpath(path, os.path.dirname(package)) for path in paths)
              if not path.startswith("..")]
    if not inside:
        return
    for record in glob.glob(os.path.join(glob.escape(os.path.dirname(package)), "sok1x-*.dist-info", "RECORD")):
        # One that cannot be written is no reason to fail.
        with contextlib.suppress(OSError), open(record, "r+", encoding="utf-8", newline="") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may have compiled the other library
            known = file.read()
            for path in inside:
                line = path.replace(os.sep, "/") + ",,"
                if line not in known.splitlines():
                    file.write(("" if known.endswith("\n") or not known else "\n") + line + "\n")
                    known += line + "\n"
