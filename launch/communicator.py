"""What every communicator can do: the exchanges that embeddings and dense gradients need, on raw pointers.

Pointers are Python ints: to host memory, or, for a GPU's communicator (world.gpu_communicator), to device memory.
Memory belongs to the caller and must stay until the exchange is over. On host memory that is when the call returns; on
a GPU a call only enqueues the exchange on the GPU's stream. Every rank makes the same calls in the same order (the
coordinator's order). Counts are int64 NumPy arrays [N] of items, always in host memory; item sizes are bytes.
"""
import abc

from .by_hosts import ALL
from .errors import INVALID_ARGUMENT, LaunchError

DTYPES = ("float16", "float32", "float64", "int32", "int64")


class Communicator(abc.ABC):
    """Exchanges between N ranks.

    Attributes:
        rank: This rank, int.
        size: Number of ranks N, int.
        op: Name of the op that exchanges now (set by whoever runs ops; for warnings).
        bytes_sent: Payload bytes that this rank had to give to *other* ranks since the start, int, counted without
            regard to how the library routes them: all_to_all and reduce_scatter what is meant for others, all_gather
            and broadcast once for each other rank, all_reduce as a ring moves it, 2 (N-1)/N of the array,
            exchange_counts 8 for each other rank. What a GPU's communicator sends by way of the host's counts in both.
        busy: None, or (method, op, time.monotonic() at its begin) of an exchange that is under way, the same tuple
            for as long as it is. Any thread may ask.
        sums_apart: Whether it has `all_reduce_each`: whether many arrays cost about what one does.
        averages: Whether that can also divide by N, as exactly as a division does.
        failure: None, or the LaunchError given to `abort`. Exchanges that were under way then have ended without
            their data: whoever waits for the GPU looks here before using what came.
    """

    rank = 0
    size = 1
    op = ""
    bytes_sent = 0
    busy = None
    failure = None
    sums_apart = averages = False

    @abc.abstractmethod
    def all_to_all(self, send, send_counts, recv, recv_counts, item_bytes, among=ALL):
        """Gives `send_counts[r]` items to each rank r, and takes `recv_counts[r]` from it.

        Args:
            send: Pointer to sum(send_counts) items, grouped by rank.
            send_counts: int64 [N], items for each rank.
            recv: Pointer to room for sum(recv_counts) items; they come grouped by rank.
            recv_counts: int64 [N], items from each rank (what that rank sends here).
            item_bytes: Bytes of an item, int > 0.
            among: by_hosts.INSIDE or ACROSS where only these ranks have anything for each other, after `split`: nothing
                is sent to others, not even that there is nothing.

        Raises:
            LaunchError: INTERNAL where the exchange fails.
        """

    def split(self, grouped):
        """Readies exchanges among some ranks: see `all_to_all` (all ranks). grouped: a by_hosts.ByHosts."""

    @abc.abstractmethod
    def reduce_scatter(self, send, recv, counts, dim):
        """Sums float32 rows over ranks; rank r gets its `counts[r]` rows of the sum.

        Args:
            send: Pointer to float32 [sum(counts), dim]: first the rows of rank 0, then of rank 1, ...
            recv: Pointer to float32 [counts[rank], dim], written. May not overlap `send`.
            counts: int64 [N], equal on all ranks; zeros are fine.
            dim: Floats of a row, int > 0.

        Raises:
            LaunchError: INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def all_gather(self, send, recv, counts, item_bytes):
        """Gives every rank the items of all ranks.

        Args:
            send: Pointer to counts[rank] items.
            recv: Pointer to room for sum(counts) items, in rank order. May not overlap `send`.
            counts: int64 [N], equal on all ranks; zeros are fine.
            item_bytes: Bytes of an item, int > 0.

        Raises:
            LaunchError: INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def all_reduce(self, pointer, n, dtype):
        """Sums an array over ranks in place.

        Args:
            pointer: Pointer to n elements of dtype.
            n: Elements, int >= 0, equal on all ranks.
            dtype: 'float32', 'float64', 'int32', 'int64', or 'float16', of which partial sums may be rounded at each
                rank that adds to them: who needs sums that are rounded once widens to float32 before.

        Raises:
            LaunchError: INVALID_ARGUMENT for another dtype, INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def broadcast(self, pointer, nbytes, root):
        """Copies `nbytes` bytes at `pointer` from rank `root` to all others.

        Raises:
            LaunchError: INVALID_ARGUMENT for a root that is no rank, INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def exchange_counts(self, send_counts):
        """Tells each rank how many items it will get from this one. On host memory, whatever the communicator.

        Args:
            send_counts: int64 [N], a number for each rank.

        Returns:
            int64 [N], the number from each rank.

        Raises:
            LaunchError: INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def agree(self, code, message):
        """Tells all ranks whether one of them failed, before they exchange what a failed rank would not send.

        Args:
            code: 0 if this rank is fine, else a code of `errors`.
            message: What to tell; may be empty where code is 0.

        Returns:
            None if all are fine, else a LaunchError, equal on all ranks, of the lowest rank that failed.

        Raises:
            LaunchError: INTERNAL where the exchange fails.
        """

    @abc.abstractmethod
    def any_rank(self, flags):
        """Begins to find out which flags are set on any rank; other exchanges may be made before its end is waited for.

        Args:
            flags: bytes [n], each 0 or 1, n equal on all ranks.

        Returns:
            Function that waits for the end and returns bytes [n]. It must be called, on each rank once, before any_rank
            is called again. Raises LaunchError, as any_rank does: INTERNAL where the exchange fails.
        """

    def trouble(self):
        """What the library found wrong with exchanges under way (str), or None. Any thread, now and then."""
        return None

    def abort(self, error):
        """Gives up the exchanges that are under way, and those to come, with `error`. Any thread; returns at once."""

    def close(self):
        """Frees what the communicator holds; it is not used afterwards."""


def check_dtype(dtype):
    """Raises LaunchError INVALID_ARGUMENT unless all_reduce can sum `dtype`."""
    if dtype not in DTYPES:
        raise LaunchError(INVALID_ARGUMENT, "all_reduce: cannot sum {!r}; expected one of {}".format(
            dtype, ", ".join(DTYPES)))


def check_root(root, size):
    """Raises LaunchError INVALID_ARGUMENT unless `root` is one of `size` ranks."""
    if not 0 <= root < size:
        raise LaunchError(INVALID_ARGUMENT, "broadcast: root_rank is {}, but the job's ranks are 0 to {}".format(
            root, size - 1))
