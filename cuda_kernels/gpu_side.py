"""A stream of a GPU beside its own, for what takes long and need not be done in turn: rows that cross the bus."""
from typing import Any

_NON_BLOCKING = 1  # a stream that does not wait for the legacy default stream


class SideStream:
    """See the module's text. Inside `backend.use(side)` kernels are launched there; they may count nothing.

    Args:
        gpu: the `gpu.Gpu`. launcher: its `gpu_launch.Launcher`.
    """

    def __init__(self, gpu: Any, launcher: Any) -> None:
        self._gpu, self._cuda = gpu, gpu.driver
        with gpu.active():
            self._stream = self._cuda.made("cuStreamCreate", _NON_BLOCKING)
            self._event = self._cuda.event()
            self._launcher = launcher.beside(self._stream)

    def launch(self, signature: Any, arguments: Any) -> None:
        """As `Gpu.launch`, in this stream."""
        self._gpu.launch(signature, arguments, self._launcher)

    def follow(self) -> None:
        """What is launched here from now on waits for what the GPU's own stream has now."""
        self._order(self._gpu.stream, self._stream)

    def lead(self) -> None:
        """What is enqueued in the GPU's own stream from now on waits for what this one has now."""
        self._order(self._stream, self._gpu.stream)

    def _order(self, leader: int, follower: int) -> None:
        cuda = self._cuda
        cuda.check(cuda.cuEventRecord(self._event, leader), "cuEventRecord")
        cuda.check(cuda.cuStreamWaitEvent(follower, self._event, 0), "cuStreamWaitEvent")
