"""What `python -m sok1x.check` looks at where TensorFlow sees a GPU: kernels compile and run there, NCCL is found."""
import ctypes
import importlib
import sys
from typing import Any, List

from sok1x.check_outcomes import Failure, Note


def gpus_of_tensorflow() -> List[str]:
    """The GPUs that TensorFlow sees; it takes no memory of theirs.

    Returns:
        Their names in TensorFlow, an empty list without one.

    Raises:
        ImportError: there is no TensorFlow.

    Example:
        >>> from sok1x import gpu_checks
        >>> isinstance(gpu_checks.gpus_of_tensorflow(), list)
        True
    """
    tf = importlib.import_module("tensorflow")
    return [device.name for device in tf.config.experimental.list_physical_devices("GPU")]


def _driver() -> bool:
    """Whether there is a CUDA driver that finds a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def devices() -> str:
    """What TensorFlow sees of GPUs.

    Returns:
        Their names, or that there are none; and if there is a driver all the same, what lets TensorFlow see them.

    Raises:
        ImportError: there is no TensorFlow.

    Example:
        >>> from sok1x import gpu_checks
        >>> gpu_checks.devices() != ""
        True
    """
    found = gpus_of_tensorflow()
    if found:
        return ", ".join(found)
    if not _driver():
        return "none seen by TensorFlow"
    return "none seen by TensorFlow, though NVIDIA's driver finds some: it needs {}".format(
        "tensorflow-gpu==1.15.5 with CUDA 10.0's libraries and cuDNN 7" if sys.version_info < (3, 9) else
        "pip install 'tensorflow[and-cuda]==2.15.1' (not tried with sok1x)")


def pycuda() -> str:
    """PyCUDA's version.

    Returns:
        The version.

    Raises:
        Note: it is not installed; says how it is.

    Example:
        >>> from sok1x import gpu_checks
        >>> try:
        ...     found = gpu_checks.pycuda()
        ... except gpu_checks.Note:
        ...     found = "none"
    """
    try:
        return str(importlib.import_module("pycuda").VERSION_TEXT)
    except ImportError:
        raise Note("not installed: training on the CPU does not need it; on GPUs, with the CUDA toolkit: {}".format(
            "pip install pycuda==2022.1 (tools/build_pycuda.sh builds it where the toolkit is CUDA 12 or later)"
            if sys.version_info < (3, 9) else "pip install pycuda")) from None


def kernels(local_rank: int) -> str:
    """Compiles all kernels for this rank's GPU, or takes them from the cache, and runs one.

    Args:
        local_rank: this rank among the ranks of this host.

    Returns:
        What was found: GPU, architecture, compiler, cache.

    Raises:
        Note: TensorFlow sees no GPU.
        Failure: PyCUDA, nvcc or the kernels do not work.

    Example:
        >>> from sok1x import gpu_checks
        >>> try:
        ...     found = gpu_checks.kernels(0)
        ... except gpu_checks.Note:
        ...     found = "no GPU"
    """
    if not gpus_of_tensorflow():
        raise Note("no GPU seen: kernels run on the host")
    from sok1x.cuda_kernels import backend, fill, gpu, nvcc
    try:
        device = gpu.get(local_rank % max(1, gpu.count()))
        with device.active(), backend.use(device):
            fill.fill_int64(backend.counts().take(), 12345)
            found = backend.counts().read()
    except (gpu.GpuMissing, nvcc.Missing, RuntimeError) as error:
        raise Failure(str(error), "mend what the message names; to train without a GPU, set CUDA_VISIBLE_DEVICES to "
                      "nothing") from None
    if found != [12345]:
        raise Failure("a kernel was to write 12345 and wrote {}".format(found), "update NVIDIA's driver, or use the "
                      "nvcc of the CUDA that the driver is made for (SOK1X_NVCC)")
    return "{} ({}), kernels compiled by {}".format(device.name, device.architecture, nvcc.find())


def nccl(ranks: int) -> str:
    """Looks for NCCL.

    Args:
        ranks: of the job.

    Returns:
        Its version and where it is.

    Raises:
        Note: it is not found, or not needed.

    Example:
        >>> from sok1x import gpu_checks
        >>> try:
        ...     found = gpu_checks.nccl(1)
        ... except gpu_checks.Note:
        ...     found = "no GPU"
    """
    if not gpus_of_tensorflow():
        raise Note("no GPU seen")
    from sok1x.launch import LaunchError, nccl_library
    try:
        library: Any = nccl_library.load()
    except LaunchError as error:
        raise Note("{}; GPUs exchange through host memory{}".format(
            error.message, "" if ranks > 1 else ", of which one rank has no need")) from None
    return str(library.version)
