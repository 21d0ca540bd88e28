"""The communicator over MPI, on host memory.

MPI counts and displacements are C ints. Rows travel as one contiguous datatype each, so bytes do not overflow; where
the number of items itself passes `limit`, an exchange is cut into pieces by a rule that every rank concerned can
follow from what it knows, without asking the others.
"""
import contextlib
import ctypes
import functools
import itertools
import time

import numpy as np

from . import direct, rank_sums
from .by_hosts import ACROSS, ALL, INSIDE
from .communicator import Communicator, check_dtype, check_root
from .errors import INTERNAL, LaunchError
from .hosts import named
from .packed_side import Side

_TAG = 1
_PIECE_BYTES = 1 << 30


def _exchange(method):
    """Runs a method inside the gate, leaves word of what it waits for, and gives MPI's errors a message."""
    what = method.__name__

    @functools.wraps(method)
    def guarded(self, *arguments):
        with self._gate:
            self._busy = (what, self.op, time.monotonic())
            try:
                return method(self, *arguments)
            except self._MPI.Exception as error:
                raise LaunchError(INTERNAL, "{} of op '{}' failed on {}: {}".format(
                    what, self.op, named(self.rank), error), rank=self.rank)
            finally:
                self._busy = None
    return guarded


class MpiCommunicator(Communicator):
    """Exchanges over a communicator of MPI that nobody else uses.

    Args:
        MPI: The module mpi4py.MPI.
        comm: An mpi4py communicator of our own; `close` frees it.
        gate: mpi_library.Gate around every call.
        limit: Largest count or displacement to hand to MPI (tests make it small).

    Attributes:
        direct: The same as C++ has it (direct.py), which calls it inside the gate.
    """

    def __init__(self, MPI, comm, gate, limit=2 ** 31 - 1):
        self._MPI, self._comm, self._gate = MPI, comm, gate
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.limit = limit
        self._status = MPI.Status()
        self.direct = direct.of_mpi(MPI, comm, self.rank, self.size, limit, self._status)
        self._busy = self._busy_direct = None
        self._bytes_sent = 0
        self._memory = getattr(MPI, "buffer", None) or MPI.memory
        self._items = {}
        self._scratch = np.empty(1, np.uint8)
        self._types = {"float32": MPI.FLOAT, "float64": MPI.DOUBLE, "int32": MPI.INT32_T, "int64": MPI.INT64_T}
        self._verdict = np.zeros(1, np.int32)
        self._circles = {}
        self._asked = None  # by any_rank: (what is being found, MPI's request)

    def split(self, grouped):
        """Makes communicators of those that exchange inside a host, and across (collective). grouped: a ByHosts."""
        colors = {INSIDE: grouped.first, ACROSS: self.rank % grouped.local}
        for among, color in colors.items():
            comm = self._comm.Split(color, self.rank)
            comm.Set_errhandler(self._MPI.ERRORS_RETURN)
            self._circles[among] = comm, grouped.ranks(among)
        handles = [self._MPI._handleof(self._circles[among][0]) for among in (INSIDE, ACROSS)]
        self.direct.local, (self.direct.inside_comm, self.direct.across_comm) = grouped.local, handles

    @property
    def busy(self):
        """See Communicator.busy."""
        if self._busy is None:
            self._busy_direct = self.direct.busy(self._busy_direct)
            return self._busy_direct
        return self._busy

    @property
    def bytes_sent(self):
        """See Communicator.bytes_sent."""
        return self._bytes_sent + self.direct.bytes_sent

    @bytes_sent.setter
    def bytes_sent(self, count):
        self._bytes_sent = count - self.direct.bytes_sent

    def _bytes(self, pointer, nbytes):
        return self._memory.fromaddress(pointer, nbytes)

    def _item(self, nbytes):
        if nbytes not in self._items:
            self._items[nbytes] = self._MPI.BYTE.Create_contiguous(nbytes).Commit()
        return self._items[nbytes]

    @_exchange
    def all_to_all(self, send, send_counts, recv, recv_counts, item_bytes, among=ALL):
        """See Communicator.all_to_all."""
        # Plain lists: with few ranks they are several times as fast as small arrays, here and inside mpi4py.
        send_counts, recv_counts = send_counts.tolist(), recv_counts.tolist()
        self.bytes_sent += (sum(send_counts) - send_counts[self.rank]) * item_bytes
        item, comm = self._item(item_bytes), self._comm
        if among != ALL:
            comm, ranks = self._circles[among]
            send_counts, recv_counts = ([counts[rank] for rank in ranks] for counts in (send_counts, recv_counts))
        # Both ends of a pair know its count, and nobody knows another pair's: so the pair decides. Pairs above the
        # share go from rank to rank; the others together stay below the limit.
        share = self.limit // len(send_counts)
        if max(send_counts) <= share and max(recv_counts) <= share:
            comm.Alltoallv(self._parts(send, send_counts, item_bytes, item),
                           self._parts(recv, recv_counts, item_bytes, item))
            return
        outbox, inbox = Side(send, send_counts, item_bytes, share), Side(recv, recv_counts, item_bytes, share)
        requests = self._pieces(inbox.large, item_bytes, comm.Irecv) + self._pieces(
            outbox.large, item_bytes, comm.Isend)
        outbox.gather()
        comm.Alltoallv(self._parts(outbox.packed.ctypes.data, outbox.counts, item_bytes, item),
                       self._parts(inbox.packed.ctypes.data, inbox.counts, item_bytes, item))
        inbox.scatter()
        self._MPI.Request.Waitall(requests)

    def _parts(self, pointer, counts, item_bytes, item):
        ends = list(itertools.accumulate(counts))
        return [self._bytes(pointer, ends[-1] * item_bytes), counts, [0] + ends[:-1], item]

    def _pieces(self, triples, item_bytes, start):
        requests = []
        for rank, pointer, count in triples:
            step = min(self.limit, max(1, _PIECE_BYTES // item_bytes))
            for begin in range(0, count, step):
                n = min(step, count - begin)
                memory = self._bytes(pointer + begin * item_bytes, n * item_bytes)
                requests.append(start([memory, n, self._item(item_bytes)], rank, _TAG))
        return requests

    @_exchange
    def reduce_scatter(self, send, recv, counts, dim):
        """See Communicator.reduce_scatter."""
        # Everyone gives each rank its part, and each adds up, in rank order. MPI's own algorithms wait for each other
        # once a round, and on CPUs shared with other threads every such wait can cost a time slice; here is one.
        floats = [count * dim for count in counts.tolist()]
        me, mine, others = self.rank, floats[self.rank], self.size - 1
        self.bytes_sent += 4 * (sum(floats) - mine)
        starts = [0] + list(itertools.accumulate(floats))
        gives = [0 if rank == me else count for rank, count in enumerate(floats)]
        takes = [0 if rank == me else mine for rank in range(self.size)]
        places = [0] + list(itertools.accumulate(takes))
        scratch = self._scratch_of(4 * others * mine)
        if starts[-1] <= self.limit and others * max(floats) <= self.limit:
            kind = self._types["float32"]
            self._comm.Alltoallv([self._bytes(send, 4 * starts[-1]), gives, starts[:-1], kind],
                                 [self._bytes(scratch, 4 * others * mine), takes, places[:-1], kind])
        else:
            self._MPI.Request.Waitall(
                self._pieces([(rank, scratch + 4 * places[rank], takes[rank]) for rank in range(self.size)], 4,
                             self._comm.Irecv)
                + self._pieces([(rank, send + 4 * starts[rank], gives[rank]) for rank in range(self.size)], 4,
                               self._comm.Isend))
        if not mine:
            return
        parts = [self._floats(scratch + 4 * place, mine) for place in places[:-1]]
        parts[me] = self._floats(send + 4 * starts[me], mine)
        rank_sums.add_up(parts, self._floats(recv, mine))

    def _floats(self, pointer, n):
        return np.frombuffer(self._bytes(pointer, 4 * n), np.float32)

    def _scratch_of(self, nbytes):
        """A pointer to `nbytes` bytes, kept between calls: fresh pages would cost more than the sums."""
        if nbytes > self._scratch.nbytes:
            self._scratch = np.empty(nbytes, np.uint8)
        return self._scratch.ctypes.data

    @_exchange
    def all_gather(self, send, recv, counts, item_bytes):
        """See Communicator.all_gather."""
        counts = counts.tolist()
        self.bytes_sent += (self.size - 1) * counts[self.rank] * item_bytes
        if sum(counts) <= self.limit:
            item = self._item(item_bytes)
            self._comm.Allgatherv([self._bytes(send, counts[self.rank] * item_bytes), counts[self.rank], item],
                                  self._parts(recv, counts, item_bytes, item))
            return
        for root, count in enumerate(counts):
            if root == self.rank:
                ctypes.memmove(recv, send, count * item_bytes)
            self._broadcast(recv, count * item_bytes, root)
            recv += count * item_bytes

    @_exchange
    def all_reduce(self, pointer, n, dtype):
        """See Communicator.all_reduce. float16 is summed in float32 and rounded once."""
        check_dtype(dtype)
        itemsize = np.dtype(dtype).itemsize
        self.bytes_sent += 2 * (self.size - 1) * n * itemsize // self.size
        if n == 0:
            return
        if dtype == "float16":
            # MPI has no 16 bit float; float32 in between also keeps partial sums exact enough.
            halves = np.frombuffer(self._bytes(pointer, 2 * n), np.float16)
            singles = halves.astype(np.float32)
            self._sum(singles.ctypes.data, n, "float32")
            with np.errstate(over="ignore"):
                halves[:] = singles
        else:
            self._sum(pointer, n, dtype)

    def _sum(self, pointer, n, dtype):
        itemsize, kind = np.dtype(dtype).itemsize, self._types[dtype]
        for begin in range(0, n, self.limit):
            memory = self._bytes(pointer + begin * itemsize, min(self.limit, n - begin) * itemsize)
            self._comm.Allreduce(self._MPI.IN_PLACE, [memory, kind], self._MPI.SUM)

    @_exchange
    def broadcast(self, pointer, nbytes, root):
        """See Communicator.broadcast."""
        check_root(root, self.size)
        if root == self.rank:
            self.bytes_sent += (self.size - 1) * nbytes
        self._broadcast(pointer, nbytes, root)

    def _broadcast(self, pointer, nbytes, root):
        step = min(self.limit, _PIECE_BYTES)
        for begin in range(0, nbytes, step):
            self._comm.Bcast([self._bytes(pointer + begin, min(step, nbytes - begin)), self._MPI.BYTE], root)

    @_exchange
    def exchange_counts(self, send_counts):
        """See Communicator.exchange_counts."""
        kind = self._types["int64"]
        recv_counts = np.empty(self.size, np.int64)
        self.bytes_sent += 8 * (self.size - 1)
        self._comm.Alltoall([np.ascontiguousarray(send_counts, np.int64), kind], [recv_counts, kind])
        return recv_counts

    @_exchange
    def any_rank(self, flags):
        """See Communicator.any_rank."""
        found = bytearray(flags)
        self._asked = found, self._comm.Iallreduce(self._MPI.IN_PLACE, [found, self._MPI.UINT8_T], self._MPI.MAX)
        return self._any_rank_answer

    @_exchange
    def _any_rank_answer(self):
        (found, request), self._asked = self._asked, None
        request.Wait()
        return bytes(found)

    @_exchange
    def agree(self, code, message):
        """See Communicator.agree."""
        verdict = self._verdict
        verdict[0] = self.rank if code else self.size
        self._comm.Allreduce(self._MPI.IN_PLACE, [verdict, self._MPI.INT32_T], self._MPI.MIN)
        failed = int(verdict[0])
        if failed == self.size:
            return None
        text = message.encode("utf-8", "backslashreplace")
        head = np.array([code, len(text)], np.int64)
        self._comm.Bcast([head, self._MPI.INT64_T], failed)
        body = np.frombuffer(text, np.uint8).copy() if failed == self.rank else np.zeros(int(head[1]), np.uint8)
        self._comm.Bcast([body, self._MPI.BYTE], failed)
        return LaunchError(int(head[0]), body.tobytes().decode("utf-8"), rank=failed)

    @contextlib.contextmanager
    def waiting(self, what):
        """Inside, this thread waits for other ranks in something other than MPI: leaves word of it in `busy`."""
        self._busy = (what, self.op, time.monotonic())
        try:
            yield
        finally:
            self._busy = None

    def close(self):
        """Frees the datatypes and the communicator, where MPI is still there."""
        if self._gate.open:
            with self._gate:
                for item in self._items.values():
                    item.Free()
                self._items.clear()
                for comm, _ in self._circles.values():
                    comm.Free()
                self._comm.Free()
