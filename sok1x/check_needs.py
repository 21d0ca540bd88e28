"""What `python -m sok1x.check` and `python -m sok1x.build` look at first: what must be installed, and how to get it."""
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from typing import Tuple

from sok1x.check_outcomes import Failure, Note

KERAS = "pip install 'tf_keras==2.21.*', and set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported"
_APT_MPI = "apt-get install openmpi-bin libopenmpi-dev (Debian, Ubuntu; else the system's Open MPI with its headers)"


def tensorflow_for(version: Tuple[int, int]) -> str:
    """What to type to get a TensorFlow that sok1x works with.

    Args:
        version: Python's, as (3, 7).

    Returns:
        The advice, in a line or two.

    Example:
        >>> from sok1x import check_needs
        >>> check_needs.tensorflow_for((3, 10))
        "pip install 'tensorflow==2.15.1' 'numpy<2' (in a checkout: SOK1X_TENSORFLOW=tensorflow==2.15.1 make env)"
    """
    if version <= (3, 7):
        return ("pip install 'tensorflow==1.15.5' 'numpy<1.19' 'protobuf<3.21' 'h5py<3', in Python 3.7 (in a checkout: "
                "'make env')")
    if version == (3, 8):
        return ("install NVIDIA's TensorFlow 1.15 (nvidia-tensorflow==1.15.5+nv23.03), or use Python 3.7 for "
                "tensorflow==1.15.5, 3.9 to 3.11 for tensorflow==2.15.1")
    if version <= (3, 11):
        return ("pip install 'tensorflow==2.15.1' 'numpy<2' (in a checkout: SOK1X_TENSORFLOW=tensorflow==2.15.1 make "
                "env)")
    return ("pip install 'tensorflow==2.21.*' 'tf_keras==2.21.*', and set TF_USE_LEGACY_KERAS=1; or use Python 3.9 to "
            "3.11 for tensorflow==2.15.1, 3.7 for tensorflow==1.15.5")


def tensorflow() -> str:
    """TensorFlow's version.

    Returns:
        The version, and what is to be said of it.

    Raises:
        Failure: it is missing, does not import, is a release for which sok1x is not made, or has Keras 3.

    Example:
        >>> from sok1x import check_needs
        >>> check_needs.tensorflow() != ""
        True
    """
    remedy = tensorflow_for(sys.version_info[:2])
    try:
        tf = importlib.import_module("tensorflow")
    except ImportError as error:
        raise Failure("does not import: {}".format(error), remedy) from None
    except Exception as error:  # an unfit protobuf or numpy shows in many ways
        raise Failure("does not import: {}: {}".format(type(error).__name__, error), remedy) from None
    version = str(tf.__version__)
    release = version.split(".")[:2]
    if release in (["1", "15"], ["2", "15"]):
        return version
    if release != ["2", "21"]:
        raise Failure("{} is installed, and sok1x is made for 1.15, 2.15 and 2.21".format(version), remedy)
    if importlib.util.find_spec("tf_keras") is None:
        raise Failure("{} comes with Keras 3, and sok1x works with Keras 2".format(version), KERAS)
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() not in ("1", "true"):
        raise Failure("{} uses Keras 3 unless it is told not to, and sok1x works with Keras 2".format(version),
                      "set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported")
    return "{} with tf_keras: smoke-tested, 1.15 and 2.15 are tested throughout".format(version)


def compiler() -> str:
    """The C++ compiler, which an installation needs once, to compile the op and the host kernels.

    Returns:
        Its command.

    Raises:
        Failure: there is none.

    Example:
        >>> from sok1x import check_needs
        >>> try:
        ...     found = check_needs.compiler()
        ... except check_needs.Failure as failure:
        ...     found = failure.remedy
    """
    from sok1x.cuda_kernels import native
    try:
        return " ".join(native.compiler())
    except RuntimeError as error:
        raise Failure(str(error), "apt-get install g++ (Debian, Ubuntu), or name a compiler in CXX") from None


def mpi(ranks: int = 1) -> str:
    """Looks for what several ranks need: `mpiexec`, and mpi4py that loads its MPI.

    Args:
        ranks: of the job that asks: with one rank, nothing of it is needed.

    Returns:
        What was found.

    Raises:
        Failure: something is missing, and the job has several ranks, or what is installed does not load.
        Note: something is missing that one rank does without.

    Example:
        >>> from sok1x import check_needs
        >>> try:
        ...     found = check_needs.mpi()
        ... except (check_needs.Failure, check_needs.Note):
        ...     found = "one rank alone"
    """
    install = "pip install mpi4py"
    if shutil.which("mpiexec") is None:
        install = "{}, then {}".format(_APT_MPI, install)
    try:
        version = str(importlib.import_module("mpi4py").__version__)
    except ImportError as error:
        if ranks > 1:
            raise Failure("does not import, and this job has several ranks: {}".format(error),
                          "'{}' ('make env' in a checkout does all of it)".format(install)) from None
        raise Note("not installed: more than one rank needs it: {}".format(install)) from None
    # In a process of its own: loading MPI here might start it.
    child = subprocess.run([sys.executable, "-c", "import mpi4py; mpi4py.rc.initialize = False; import mpi4py.MPI"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                           env={name: value for name, value in os.environ.items()
                                if not name.startswith(("OMPI_", "PMI"))})
    if child.returncode:
        lines = child.stdout.strip().splitlines() or ["exit code {}".format(child.returncode)]
        raise Failure("{} does not load its MPI: {}".format(version, lines[-1]), "{}; where another MPI was meant: pip "
                      "install --no-binary mpi4py --force-reinstall --no-cache-dir mpi4py".format(_APT_MPI))
    if shutil.which("mpiexec") is None:
        raise Note("{}, but there is no mpiexec on PATH to start ranks with: {}".format(version, _APT_MPI))
    return version
