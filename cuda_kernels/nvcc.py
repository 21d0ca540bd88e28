"""nvcc, which compiles the kernels for a GPU: where it is, and what it says of itself."""
import os
import re
import shutil
import subprocess
from typing import Dict, List, Tuple

ARCHITECTURE = re.compile(r"\bsm_\d+[a-z]?\b")

_versions: Dict[Tuple[str, int], str] = {}  # (path, mtime) of an nvcc: what it says of its version


class Missing(RuntimeError):
    """There is no nvcc."""


def find() -> str:
    """The path of nvcc: $SOK1X_NVCC, or the first there is of $CUDA_HOME, $CUDA_PATH, PATH and /usr/local/cuda.

    Raises:
        Missing: there is none.
    """
    named = os.environ.get("SOK1X_NVCC")
    if named:
        candidates = [os.path.expanduser(named)]
    else:
        roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
        candidates = [os.path.join(root, "bin", "nvcc") for root in roots if root]
        candidates += ["nvcc", "/usr/local/cuda/bin/nvcc"]
    for candidate in candidates:
        path = shutil.which(candidate)
        if path:
            return os.path.abspath(path)
    raise Missing(
        "sok1x compiles its GPU kernels at first use and needs nvcc: {} Install NVIDIA's CUDA toolkit, 10.0 or newer "
        "(https://developer.nvidia.com/cuda-downloads), or say in SOK1X_NVCC where nvcc is.".format(
            "SOK1X_NVCC is {!r}, which is no program.".format(named) if named else
            "it is not in bin/ of CUDA_HOME ({}) or CUDA_PATH ({}), not on PATH, and not in /usr/local/cuda/bin."
            .format(*(root or "not set" for root in roots))))


def version(path: str) -> str:
    """What the nvcc of this path says of its version; asked once a process. Raises RuntimeError if it does not run."""
    key = path, os.stat(path).st_mtime_ns
    if key not in _versions:
        code, output = _run([path, "--version"])
        if code:
            raise RuntimeError("{} --version\nfailed with exit code {}:\n{}".format(path, code, output))
        _versions[key] = output
    return _versions[key]


def architectures(path: str) -> List[str]:
    """The architectures that the nvcc of this path compiles for: a list of 'sm_90' and the like."""
    code, output = _run([path, "--list-gpu-code"])
    if code:  # CUDA 10 has no such option; its help lists them.
        output = _run([path, "--help"])[1]
    return sorted(set(ARCHITECTURE.findall(output)), key=lambda one: (len(one), one))


def _run(command: List[str]) -> Tuple[int, str]:
    """(exit code, stdout and stderr) of a command; -1 and why where it cannot be started."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return -1, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")
