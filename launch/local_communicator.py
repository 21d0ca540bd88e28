"""The communicator of a job with one rank: copies, and no MPI or NCCL."""
import ctypes

from .by_hosts import ALL
from .communicator import Communicator, check_dtype, check_root
from .errors import LaunchError


class LocalCommunicator(Communicator):
    """N = 1: what a rank sends, it receives.

    Args:
        move: Function (target, source, nbytes) that copies; for pointers to device memory, the GPU's.
    """

    def __init__(self, move=ctypes.memmove):
        self._move = move

    def _copy(self, source, target, nbytes):
        if nbytes and source != target:
            self._move(target, source, nbytes)

    def all_to_all(self, send, send_counts, recv, recv_counts, item_bytes, among=ALL):
        """See Communicator.all_to_all."""
        self._copy(send, recv, int(send_counts[0]) * item_bytes)

    def reduce_scatter(self, send, recv, counts, dim):
        """See Communicator.reduce_scatter."""
        self._copy(send, recv, int(counts[0]) * dim * 4)

    def all_gather(self, send, recv, counts, item_bytes):
        """See Communicator.all_gather."""
        self._copy(send, recv, int(counts[0]) * item_bytes)

    def all_reduce(self, pointer, n, dtype):
        """See Communicator.all_reduce."""
        check_dtype(dtype)

    def broadcast(self, pointer, nbytes, root):
        """See Communicator.broadcast."""
        check_root(root, 1)

    def exchange_counts(self, send_counts):
        """See Communicator.exchange_counts."""
        return send_counts.copy()

    def any_rank(self, flags):
        """See Communicator.any_rank."""
        return lambda: flags

    def agree(self, code, message):
        """See Communicator.agree."""
        return LaunchError(code, message, rank=0) if code else None
