"""Small arrays on their way to a GPU, through a ring of pinned memory that nobody waits for."""
import ctypes
from typing import Any, List


class UploadRing:
    """Pinned memory of one GPU: what is written there is copied in stream order, and its place is used again later.

    It is used by halves. A half is written anew when the stream has come by what was copied from it, which is long
    done when the other half is full.
    """

    BYTES = 4 << 20

    def __init__(self, gpu, nbytes=BYTES):
        self._gpu, self._half = gpu, nbytes // 2
        self._memory = gpu.pinned(nbytes)
        self._address = self._memory.ctypes.data
        self._now, self._used = 0, 0  # the half that is being written, and its bytes in use
        self._copied: List[Any] = [None, None]  # a token for the stream's place after each half's last copy

    def send(self, target, pieces, nbytes):
        """Copies pieces of host memory to device memory, in stream order; they may change at once.

        Args:
            target: a device pointer.
            pieces: (offset in the target, host pointer, bytes) of each.
            nbytes: bytes of the target, gaps between pieces included.
        """
        if nbytes > self._half:
            for offset, pointer, size in pieces:
                self._gpu.to_device(target + offset, pointer, size)
            return
        begin = self._take(nbytes)
        for offset, pointer, size in pieces:
            ctypes.memmove(self._address + begin + offset, pointer, size)
        self._gpu.send(target, self._memory[begin:begin + nbytes])

    def _take(self, nbytes):
        """The offset of `nbytes` bytes of the ring that may be written."""
        if self._used + nbytes > self._half:
            self._copied[self._now] = self._gpu.record()
            self._now, self._used = 1 - self._now, 0
            if self._copied[self._now] is not None:
                self._copied[self._now].synchronize()
        begin = self._now * self._half + self._used
        self._used += nbytes
        return begin
