"""A group's requests through the bridge's calls for many (bridge/bulk.py); numbers that kernels leave for Python."""
import contextlib
import functools

import numpy as np

from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, MAX_RANK, Array
from sok1x.graph_ops.bridge.bulk import RequestGroup
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.groups.columns import Columns


class Batch:
    """The requests of members (list of `together.Taken`) that run at once, T of them.

    Attributes:
      inputs: `bulk.TENSOR` [T, i]: the inputs, those in host memory last.
      columns: facts of the members' configs, `Columns`.
      ready: bool [T]: whose variables have been initialized; known once they have been locked.
      left: the members that have to be run by themselves.
    """

    def __init__(self, members):
        self.members = members
        self.left = []
        self.ready = np.ones(len(members), bool)
        requests = [taken.request for taken in members]
        self.gpu = requests[0].gpu
        self._device_outputs = requests[0].device_output_count
        self._group = RequestGroup(requests[0].library, requests)
        self._group.begin()
        self.columns = Columns(members)
        self.inputs = self._group.inputs()
        self._made = []

    @property
    def memory(self):
        """What keeps the batch's temporaries, once the members have gone over to another batch."""
        return self._group

    @contextlib.contextmanager
    def variables(self, exclusive):
        """`bulk.TENSOR` [T, v]: the members' variables, locked for reading, or `exclusive`."""
        self.ready = self._group.lock(exclusive) == 0
        try:
            yield self._group.variables
        finally:
            self._group.unlock()

    def outputs(self, places, shapes, ranks=None, only=None):
        """Allocates outputs of every member: pointers int64 [T, p].

        Args:
          places: [p], numbers of outputs; those in host memory come after the others.
          shapes: int64 [T, p, r]. ranks: [T, p], how many numbers of each shape count; default: one.
          only: bool [T], of which members; default: all. Pointers of the others are 0.
        """
        size, count = shapes.shape[:2]
        if ranks is None:
            ranks = np.ones((size, count), np.int32)
        dims = np.zeros((size, count, MAX_RANK), np.int64)
        dims[:, :, :shapes.shape[2]] = shapes
        if only is None or only.all():
            numbers = np.arange(size)
            members, indices = _every(size, tuple(places))
            wanted, lengths = dims, ranks
        else:
            numbers = np.flatnonzero(only)
            members, indices = np.repeat(numbers, count), np.tile(np.asarray(places), len(numbers))
            wanted, lengths = dims[numbers], ranks[numbers]
        made, codes = self._group.outputs(members, indices, wanted.reshape(len(members), MAX_RANK), lengths.reshape(-1))
        if codes.any():
            bad = int(np.flatnonzero(codes)[0])
            member, column = numbers[bad // count], bad % count
            raise CallError(RESOURCE_EXHAUSTED, (
                "TensorFlow's allocator could not give output {} of op '{}', of shape {}; use a smaller batch, or "
                "leave it more memory").format(places[column], self.members[member].request.name,
                                               dims[member, column, :ranks[member, column]].tolist()))
        pointers = np.zeros((size, count), np.int64)
        pointers[numbers] = made.reshape(len(numbers), count)
        self._made.append((places, ranks, dims, pointers, numbers))
        return pointers

    def temporary(self, dtype, count):
        """A pointer to scratch memory of `count` numbers, until all members have finished."""
        return self._group.temporary(max(1, count) * ITEM_BYTES[dtype])

    @staticmethod
    def host_array(pointer, dtype, count):
        """The memory of an output in host memory, as a NumPy array [count]."""
        return Array(int(pointer), dtype, (count,), count).numpy()

    def counters(self, count=None):
        """`Counters`, one of each member, or `count` of them."""
        return Counters(self, len(self.members) if count is None else count)

    def keep_outputs(self, numbers):
        """Lets these members' requests know which outputs they have: for whoever goes on with them."""
        for number in numbers:
            request = self.members[number].request
            for places, ranks, dims, pointers, made in self._made:
                for column, place in enumerate(places if (made == number).any() else ()):
                    shape = tuple(dims[number, column, :ranks[number, column]].tolist())
                    request.keep_output(place, int(pointers[number, column]), shape)

    def leave(self, mask):
        """Leaves the members of the mask, bool [T], to their operation's own `run`."""
        numbers = np.flatnonzero(mask)
        self.keep_outputs(numbers)
        self.left += [self.members[number] for number in numbers]
        return self

    def finish(self):
        """Answers all members that are not left."""
        if not self.left:
            self._group.finish()
            return
        for taken in self.members:
            if taken not in self.left:
                taken.request.finish()


@functools.lru_cache(maxsize=1000)
def _every(size, places):
    """(member, output) of each of these outputs of `size` members, int32 each."""
    return (np.repeat(np.arange(size, dtype=np.int32), len(places)),
            np.tile(np.asarray(places, np.int32), size))


class Counters:
    """int64 numbers that kernels leave for Python. pointer: to [n], where a kernel can write."""

    def __init__(self, batch, count):
        self._gpu = batch.gpu
        self._values = np.zeros(count, np.int64)
        self.pointer = self._values.ctypes.data if self._gpu is None else batch.temporary("int64", count)

    def read(self):
        """The numbers [n]. On a GPU it waits for the stream."""
        if self._gpu is not None:
            self._gpu.to_host(self._values.ctypes.data, self.pointer, self._values.nbytes)
        return self._values
