"""Numbers that kernels leave for Python, on a GPU. On the host: `backend.HostCounts`."""
import ctypes
from typing import Any, List

from . import backend
from .arrays import Array

_declare = backend.family(__name__)
_declare("publish_counts", None, backend.POINTER, threads=lambda a: 16, block=32)


class GpuCounts:
    """Int64 counters on a GPU, and the few bytes that are copied of them.

    Args:
        gpu: the `gpu.Gpu`. launcher: its `gpu_launch.Launcher`.
    """

    _PLACES = 16  # as in counts.cu

    def __init__(self, gpu: Any, launcher: Any) -> None:
        self._cuda, self._check, self._stream = gpu.driver, gpu.driver.check, gpu.stream
        address = launcher.global_address("counts", "sok1x_counts")
        self._places = backend.places(address, self._PLACES, gpu)
        self._memory, self._seen_by_gpu = gpu.mapped(self._PLACES)
        self._values = (ctypes.c_int64 * self._PLACES).from_address(self._memory.ctypes.data)
        self._asked = gpu.driver.event()
        self._taken, self._waiting = 0, False

    def take(self) -> Array:
        """An `Array` int64 [] that is 0, for a kernel to count in."""
        assert not self._waiting, "counts that have been asked for must be read first"
        place = self._taken
        self._taken += 1
        return self._places[place]

    def ask(self) -> None:
        """Counting is over: has the counts sent while the stream goes on with what is enqueued later."""
        backend.kernels.publish_counts(self._seen_by_gpu)
        self._check(self._cuda.cuEventRecord(self._asked, self._stream), "cuEventRecord")
        self._waiting = True

    def read(self) -> List[int]:
        """The counts taken since the last read, in order. Waits for the stream, up to `ask` if that was called."""
        if not self._waiting:
            self.ask()
        self._check(self._cuda.cuEventSynchronize(self._asked), "cuEventSynchronize")
        taken, self._taken, self._waiting = self._taken, 0, False
        return self._values[:taken]

    def forget(self) -> None:
        """After a request that failed half-way: all counters are 0 again."""
        if self._taken or self._waiting:
            self.read()
