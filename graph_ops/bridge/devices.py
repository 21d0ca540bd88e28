"""Which device a request runs on, and the executor's thread made ready for it."""
import contextlib

import numpy as np

from sok1x import launch
from sok1x.cuda_kernels import backend
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, CallError

_by_stream = {}  # TensorFlow's stream -> Gpu


def find(request):
    """The `Gpu` that a request runs on, by TensorFlow's stream; None for the CPU.

    Raises:
      CallError: FAILED_PRECONDITION where the GPU cannot be used: no PyCUDA, no nvcc.
    """
    stream = request.stream
    if not stream:
        return None
    if stream not in _by_stream:
        from sok1x.cuda_kernels import gpu, nvcc  # which hosts without GPUs do without
        try:
            _by_stream[stream] = gpu.of_stream(stream)
        except (gpu.GpuMissing, nvcc.Missing) as error:
            raise CallError(FAILED_PRECONDITION, "op '{}' is on a GPU: {}".format(request.name, error)) from error
    return _by_stream[stream]


class _Use:
    """See `use`. A class, for a generator in its place costs 4 us each time."""

    __slots__ = ("_request", "_active", "_kernels")

    def __init__(self, request):
        self._request = request

    def __enter__(self):
        request, gpu = self._request, self._request.gpu
        request.begin()
        self._active, self._kernels = gpu.active(), backend.use(gpu)
        self._active.__enter__()
        self._kernels.__enter__()
        gpu.allocate = request.memory

    def __exit__(self, *error):
        self._request.gpu.allocate = None
        self._kernels.__exit__(*error)
        self._active.__exit__(*error)


_ON_HOST = contextlib.nullcontext()


def use(request):
    """Inside, kernels run on the request's device, with temporaries of the request."""
    return _ON_HOST if request.gpu is None else _Use(request)


def forget_counts(request):
    """After a request that failed half-way: no count of it is left for the next. Never raises."""
    try:
        with use(request):
            backend.counts().forget()
    except Exception:  # a GPU in error: the request's own error says so, and must reach the user
        pass


def mark(request, header):
    """The header with the kind of device before it, which must be the same on all ranks."""
    marked = np.empty(1 + len(header), np.int64)
    marked[0], marked[1:] = request.gpu is not None, header
    return marked


def check_marks(request, headers):
    """The headers without `mark`'s part.

    Raises:
      CallError: INVALID_ARGUMENT, on all ranks alike, where some run on a GPU and others on the CPU.
    """
    marks = (headers[:, 0] & 1).tolist()  # the other bits: timeline.py
    if len(set(marks)) > 1:
        on_gpu, on_cpu = [[rank for rank, marked in enumerate(marks) if marked == kind] for kind in (1, 0)]
        raise CallError(INVALID_ARGUMENT, (
            "op '{}' is on a GPU on ranks {} and on the CPU on ranks {}; place it on one kind of device on all ranks"
        ).format(request.name, on_gpu, on_cpu), agreed=True)
    return headers[:, 1:]


def communicator(request, world):
    """The communicator for the memory of the request's device. All ranks call it for the same op."""
    if request.gpu is None:
        return world.communicator
    if world.gpu_communicator is None:
        with request.gpu.active():
            launch.connect_gpu(world, request.gpu)
    return world.gpu_communicator
