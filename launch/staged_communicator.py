"""The communicator for device memory where NCCL cannot be: through pinned host memory, over MPI.

For several ranks on one GPU, which NCCL does not allow, and for jobs without NCCL.
"""
import numpy as np

from .by_hosts import ALL
from .communicator import check_dtype, check_root
from .gpu_communicator import GpuCommunicator

_LEAST_BYTES = 1 << 16


class StagedCommunicator(GpuCommunicator):
    """Exchanges of device memory by way of a communicator on host memory; see Communicator, on device pointers.

    Args:
        host: The MpiCommunicator of the same ranks. It leaves word of what it waits for: `busy` here is None.
        gpu: The GPU: `to_host`, `to_device` (pinned memory, in stream order), `synchronize`, `pinned`.
    """

    def __init__(self, host, gpu):
        super().__init__(host, gpu)
        self._buffers = {}

    def _buffer(self, name, nbytes):
        """A pointer to pinned memory, kept between calls. The stream must have come by all that was enqueued."""
        kept = self._buffers.get(name)
        if kept is None or kept.nbytes < nbytes:
            # A quarter more: sizes of exchanges differ a little from step to step, and pinning is slow.
            self._buffers.pop(name, None)
            kept = self._buffers[name] = self._gpu.pinned(max(_LEAST_BYTES, nbytes + nbytes // 4))
        return kept.ctypes.data

    def _fetch(self, pointer, nbytes):
        """Copies device memory to a buffer: its pointer. Waits for the stream, so that all buffers are free again."""
        self._gpu.synchronize()
        buffer = self._buffer("send", nbytes)
        if nbytes:
            self._gpu.to_host(buffer, pointer, nbytes)
        return buffer

    def _put(self, pointer, buffer, nbytes):
        if nbytes:
            self._gpu.to_device(pointer, buffer, nbytes)

    def all_to_all(self, send, send_counts, recv, recv_counts, item_bytes, among=ALL):
        """See Communicator.all_to_all."""
        outgoing = self._fetch(send, int(send_counts.sum()) * item_bytes)
        nbytes = int(recv_counts.sum()) * item_bytes
        incoming = self._buffer("recv", nbytes)
        self._through_host("all_to_all", outgoing, send_counts, incoming, recv_counts, item_bytes, among)
        self._put(recv, incoming, nbytes)

    def reduce_scatter(self, send, recv, counts, dim):
        """See Communicator.reduce_scatter."""
        outgoing = self._fetch(send, int(counts.sum()) * dim * 4)
        nbytes = int(counts[self.rank]) * dim * 4
        incoming = self._buffer("recv", nbytes)
        self._through_host("reduce_scatter", outgoing, incoming, counts, dim)
        self._put(recv, incoming, nbytes)

    def all_gather(self, send, recv, counts, item_bytes):
        """See Communicator.all_gather."""
        outgoing = self._fetch(send, int(counts[self.rank]) * item_bytes)
        nbytes = int(counts.sum()) * item_bytes
        incoming = self._buffer("recv", nbytes)
        self._through_host("all_gather", outgoing, incoming, counts, item_bytes)
        self._put(recv, incoming, nbytes)

    def all_reduce(self, pointer, n, dtype):
        """See Communicator.all_reduce."""
        check_dtype(dtype)
        nbytes = n * np.dtype(dtype).itemsize
        buffer = self._fetch(pointer, nbytes)
        self._through_host("all_reduce", buffer, n, dtype)
        self._put(pointer, buffer, nbytes)

    def broadcast(self, pointer, nbytes, root):
        """See Communicator.broadcast."""
        check_root(root, self.size)
        giving = root == self.rank
        buffer = self._fetch(pointer, nbytes if giving else 0)
        if not giving:
            buffer = self._buffer("recv", nbytes)
        self._through_host("broadcast", buffer, nbytes, root)
        if not giving:
            self._put(pointer, buffer, nbytes)
