"""Compiles the kernels for the host: every .cu of this folder as C++ into one shared library.

setup.py loads this file by its path, and compiles the TensorFlow op's sources with its `compile_objects` too; by hand:
``python cuda_kernels/build_host.py [OUTPUT]``.
"""
import glob
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import Callable, Dict, List, Optional, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "_host_kernels.so")

# No -march: the library must run on any machine of the architecture. No contraction into fused multiply-adds and
# no fast-math: results must not depend on the compiler's choices.
FLAGS = ["-O3", "-std=c++14", "-fPIC", "-pthread", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
         "-Wall", "-Werror=return-type"]


def sources() -> List[str]:
    """Every file that the library is made from."""
    return sorted(name for pattern in ("*.cu", "*.cuh", "*.h", "*.cc", "build_host.py")
                  for name in glob.glob(os.path.join(HERE, pattern)))


def build(output_path: str = LIBRARY, cxx: Optional[str] = None, objects: Optional[str] = None) -> str:
    """Compiles all kernels into one library, one compiler process per core; replaces the old one in one step.

    Args:
        output_path: the library to write.
        cxx: the C++ compiler's command; default: the environment's CXX, or g++.
        objects: a folder in which objects stay for the next build; default: none stay.

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
    # Beside the output: a rename is one step only within a file system.
    with tempfile.TemporaryDirectory(prefix=".build_", dir=os.path.dirname(output_path)) as folder:
        made = compile_objects(command + FLAGS + ["-x", "c++"], [name for name in sources() if name.endswith(".cu")],
                               objects or folder)
        library = os.path.join(folder, "library.so")
        run_all([command + ["-shared", "-pthread"] + made + ["-o", library]])
        os.replace(library, output_path)
    return output_path


def compile_objects(command: Sequence[str], sources: Sequence[str], folder: str, about: str = "") -> List[str]:
    """Compiles each source that has no object in the folder made from the same command and the same files.

    Which files those are, the compiler says (-MD); headers of installed libraries and of the system are left out:
    `about` speaks for them.

    Args:
        command: the compiler and its options, without source and output.
        sources: files, of different names.
        folder: where objects lie and stay.
        about: changes if those have changed: a version, say.

    Returns:
        The objects' paths, in the order of the sources.

    Raises:
        RuntimeError: the compiler fails; the message has its output. Objects of sources that compile are kept.
    """
    os.makedirs(folder, exist_ok=True)
    objects: List[str] = []
    commands: Dict[str, List[str]] = {}
    for source in sources:
        made = os.path.join(folder, os.path.basename(source) + ".o")
        objects.append(made)
        try:
            with open(made + ".digest") as file:
                if os.path.exists(made) and file.read() == _digest(command, source, made, about):
                    continue
        except OSError:
            pass
        # Whatever stops the compiler half-way must not leave an object that seems to be whole.
        if os.path.exists(made + ".digest"):
            os.remove(made + ".digest")
        commands[source] = list(command) + ["-MD", "-MF", made + ".d", "-c", source, "-o", made]

    def remember(number: int) -> None:
        source = list(commands)[number]
        made = objects[list(sources).index(source)]
        with open(made + ".digest", "w") as file:
            file.write(_digest(command, source, made, about))

    run_all(list(commands.values()), remember)
    return objects


def _digest(command: Sequence[str], source: str, made: str, about: str) -> str:
    """Of the command, and of the contents of the project's files that the object was made from."""
    root = os.path.dirname(HERE) + os.sep
    with open(made + ".d") as file:
        read = file.read().replace("\\\n", " ").split(": ", 1)[1].split()
    digest = hashlib.sha256("\0".join(list(command) + [os.path.relpath(source, root), about]).encode())
    for name in sorted({os.path.realpath(name) for name in read}):
        if name.startswith(root) and os.sep + "site-packages" + os.sep not in name:
            with open(name, "rb") as content:
                digest.update("{}\0".format(os.path.relpath(name, root)).encode() + content.read())
    return digest.hexdigest()


def run_all(commands: Sequence[List[str]], after: Optional[Callable[[int], None]] = None) -> None:
    """Runs commands, as many at once as there are cores, and calls `after` with the number of each that succeeded; the
    first that fails ends it."""
    waiting = list(enumerate(commands))
    running: List[Tuple[int, "subprocess.Popen[str]"]] = []
    try:
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                number, command = waiting.pop(0)
                running.append((number, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                                         universal_newlines=True)))
            number, process = running.pop(0)
            output = process.communicate()[0]
            if process.returncode:
                raise RuntimeError("{}\nfailed with exit code {}:\n{}".format(
                    " ".join(commands[number]), process.returncode, output))
            if output.strip():
                print(output)
            if after is not None:
                after(number)
    finally:
        for _, process in running:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    print(build(*sys.argv[1:2]))
