"""The communicator over NCCL, on device memory: every exchange is enqueued on the GPU's stream, none is waited for.

So a rank that does not join, or is dead, shows as a stream that stands still, and nobody gets an error. What was
enqueued last is remembered together with a mark in the stream; `busy` tells from it, on any thread, whether the GPU
still waits for other ranks, and `abort` lets it go (exchange_watch calls both).
"""
import functools
import threading
import time

from . import direct
from .by_hosts import ALL
from .communicator import check_dtype, check_root
from .errors import INTERNAL, LaunchError
from .gpu_communicator import GpuCommunicator
from .hosts import named
from .lines import print_line

_CLOSE_SECONDS = 5.0
_ITEM_BYTES = {"float16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8}


def _exchange(method):
    """Refuses after an abort, leaves word of what is enqueued, and gives NCCL's errors the op's name."""
    what = method.__name__

    @functools.wraps(method)
    def guarded(self, *arguments):
        if self.failure is not None:
            raise self.failure  # without waiting for NCCL to end the communicator
        with self._calls:
            if self.failure is not None:
                raise self.failure
            word = self._inside = (what, self.op, time.monotonic())
            try:
                with self._gpu.timed("nccl " + what):
                    method(self, *arguments)
                self._remember(word)
            except LaunchError as error:
                if error.code != INTERNAL:
                    raise
                raise LaunchError(INTERNAL, "{} of op '{}' failed on {}: {}".format(
                    what, self.op, named(self.rank), error), rank=self.rank)
            finally:
                self._inside = None
    return guarded


class NcclCommunicator(GpuCommunicator):
    """Exchanges over a communicator of NCCL that nobody else uses; see Communicator, on device pointers.

    float16 is summed by NCCL as float16: partial sums are rounded at each rank that adds to them.

    Args:
        library: The nccl_library.NcclLibrary.
        comm: NCCL's handle, from its `init_rank`; `close` or `abort` ends it.
        gpu: The GPU: `stream` (a CUstream as an int), `record()` gives a mark of the stream's end, `reached(mark)`
            whether the stream has come by (any thread); `timed(name)` is entered around what is enqueued. Marks are
            dropped on the thread that exchanges.
        host: The MpiCommunicator of the same ranks, for counts and agreements.
    """

    def __init__(self, library, comm, gpu, host):
        super().__init__(host, gpu)
        self._library, self._comm = library, comm
        # NCCL multiplies by 1 / N, which is to divide by it where N is a power of two, and where not is not exact.
        self.averages = library.averages and not self.size & (self.size - 1)
        self.direct = direct.of_nccl(library.functions, comm, self.rank, self.size, gpu.stream, self.averages)
        self._bytes_sent, self._busy_direct = 0, None
        self._calls = threading.Lock()      # held while inside NCCL
        self._marks = threading.Lock()      # held for a moment only
        self._inside = None
        self._oldest = self._newest = None  # (word, mark) of exchanges that may be under way

    @property
    def bytes_sent(self):
        """See Communicator.bytes_sent."""
        return self._bytes_sent + self.direct.bytes_sent

    @bytes_sent.setter
    def bytes_sent(self, count):
        self._bytes_sent = count - self.direct.bytes_sent

    def ended(self):
        """What C++ has enqueued is in the stream: it is remembered as if it had been enqueued here."""
        word = self.direct.busy(self._busy_direct)
        if word is not None:
            with self._calls:
                self._remember(word)
            self.direct.since = 0

    def _remember(self, word):
        new = word, self._gpu.record()
        with self._marks:
            if self._oldest is None or self._gpu.reached(self._oldest[1]):
                self._oldest = new
            self._newest = new

    @property
    def busy(self):
        """See Communicator.busy."""
        if self.failure is not None:
            return None
        self._busy_direct = self.direct.busy(self._busy_direct)
        if self._busy_direct is not None:
            return self._busy_direct
        with self._marks:
            try:
                if self._oldest is not None and not self._gpu.reached(self._oldest[1]):
                    return self._oldest[0]
                if self._newest is not None and not self._gpu.reached(self._newest[1]):
                    return self._newest[0]
            except Exception:  # a GPU that has failed answers nothing; the thread that uses it will say so
                return None
        return self._inside

    def trouble(self):
        """See Communicator.trouble."""
        if self.failure is not None or not self._calls.acquire(False):
            return None  # inside a call of NCCL, which gives its own errors
        try:
            if self._comm is None:
                return None
            text = self._library.async_error(self._comm)
        except LaunchError as error:
            text = error.message
        finally:
            self._calls.release()
        if text is None:
            return None
        busy = self.busy
        return "NCCL reports an error{}: {}".format(" in {} of op '{}'".format(*busy[:2]) if busy else "", text)

    def abort(self, error):
        """See Communicator.abort."""
        with self._marks:
            if self.failure is not None:
                return
            self.failure = error
        # NCCL frees what a call that is inside works with, and may itself take long: a thread that nobody waits for.
        threading.Thread(target=self._end, args=(self._library.abort,), name="sok1x-abort", daemon=True).start()

    def close(self):
        """See Communicator.close. Waits some seconds at most, and not at all after an abort."""
        if self.failure is None:
            ending = threading.Thread(target=self._end, args=(self._library.destroy,), name="sok1x-close", daemon=True)
            ending.start()
            ending.join(_CLOSE_SECONDS)

    def _end(self, how):
        with self._calls:
            comm, self._comm, self.direct.comm = self._comm, None, 0
            if comm is None:
                return
            while self.direct.inside:  # C++, in a call
                time.sleep(0.001)
            try:
                how(comm)
            except LaunchError as error:
                print_line("sok1x: {}: {}".format(named(self.rank), error))

    @_exchange
    def all_to_all(self, send, send_counts, recv, recv_counts, item_bytes, among=ALL):
        """See Communicator.all_to_all."""
        gives = [count * item_bytes for count in send_counts.tolist()]
        takes = [count * item_bytes for count in recv_counts.tolist()]
        self.bytes_sent += sum(gives) - gives[self.rank]
        self._library.exchange(send, gives, recv, takes, self._comm, self._gpu.stream)

    @_exchange
    def reduce_scatter(self, send, recv, counts, dim):
        """See Communicator.reduce_scatter."""
        library, comm, stream = self._library, self._comm, self._gpu.stream
        floats = [count * dim for count in counts.tolist()]
        self.bytes_sent += 4 * (sum(floats) - floats[self.rank])
        if min(floats) == max(floats):
            if floats[0]:
                library.reduce_scatter(send, recv, floats[0], "float32", comm, stream)
            return
        with library.group():
            for root, n in enumerate(floats):
                if n:
                    library.reduce(send, recv, n, "float32", root, comm, stream)
                send += 4 * n

    @_exchange
    def all_gather(self, send, recv, counts, item_bytes):
        """See Communicator.all_gather."""
        library, comm, stream = self._library, self._comm, self._gpu.stream
        sizes = [count * item_bytes for count in counts.tolist()]
        self.bytes_sent += (self.size - 1) * sizes[self.rank]
        if min(sizes) == max(sizes):
            if sizes[0]:
                library.all_gather(send, recv, sizes[0], comm, stream)
            return
        with library.group():
            for root, nbytes in enumerate(sizes):
                if nbytes:
                    # Only the root's `send` is read.
                    library.broadcast(send if root == self.rank else recv, recv, nbytes, root, comm, stream)
                recv += nbytes

    @_exchange
    def all_reduce(self, pointer, n, dtype):
        """See Communicator.all_reduce."""
        check_dtype(dtype)
        self.bytes_sent += 2 * (self.size - 1) * n * _ITEM_BYTES[dtype] // self.size
        if n:
            self._library.all_reduce(pointer, pointer, n, dtype, self._comm, self._gpu.stream)

    sums_apart = True

    @_exchange
    def all_reduce_each(self, arrays, dtype, average=False):
        """Sums arrays over ranks, all of them in one go.

        Args:
            arrays: (pointer, out, n) of each: n elements to sum, equally many on all ranks, and where the sums go.
            dtype: As for `all_reduce`. average: Whether sums are divided by N: where `averages` says that it can.

        Raises:
            LaunchError: As `all_reduce`.
        """
        check_dtype(dtype)
        self.bytes_sent += 2 * (self.size - 1) * sum(n for _, _, n in arrays) * _ITEM_BYTES[dtype] // self.size
        arrays = [array for array in arrays if array[2]]
        if not arrays:
            return  # a group with nothing in it leaves memory behind
        with self._library.group():
            for pointer, out, n in arrays:
                self._library.all_reduce(pointer, out, n, dtype, self._comm, self._gpu.stream, average)

    @_exchange
    def broadcast(self, pointer, nbytes, root):
        """See Communicator.broadcast."""
        check_root(root, self.size)
        if root == self.rank:
            self.bytes_sent += (self.size - 1) * nbytes
        if nbytes:
            self._library.broadcast(pointer, pointer, nbytes, root, self._comm, self._gpu.stream)
