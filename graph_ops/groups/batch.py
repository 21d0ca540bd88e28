"""A group's requests through the bridge's calls for many (bridge/bulk.py), and numbers that kernels leave for Python."""
import contextlib

import numpy as np

from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, MAX_RANK
from sok1x.graph_ops.bridge.bulk import RequestGroup
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError


class Batch:
    """The requests of members (list of `together.Taken`) that run at once, T of them.

    Attributes:
      inputs: `bulk.TENSOR` [T, i]: the inputs, those in host memory last.
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
        if self.gpu is not None:
            self._group.place(self.gpu)
        self.inputs = self._group.inputs()
        self._made = []

    @contextlib.contextmanager
    def variables(self, exclusive):
        """`bulk.TENSOR` [T, v]: the members' variables, locked for reading, or `exclusive`."""
        self.ready = self._group.lock(exclusive) == 0
        try:
            yield self._group.variables
        finally:
            self._group.unlock()

    def outputs(self, places, shapes, ranks=None):
        """Allocates outputs of every member: pointers int64 [T, p].

        Args:
          places: [p], numbers of outputs; those in host memory come after the others.
          shapes: int64 [T, p, r]. ranks: [T, p], how many numbers of each shape count; default: one.
        """
        size, count = shapes.shape[:2]
        if ranks is None:
            ranks = np.ones((size, count), np.int32)
        dims = np.zeros((size, count, MAX_RANK), np.int64)
        dims[:, :, :shapes.shape[2]] = shapes
        pointers, codes = self._group.outputs(np.repeat(np.arange(size, dtype=np.int32), count),
                                              np.tile(np.asarray(places, np.int32), size),
                                              dims.reshape(size * count, MAX_RANK), ranks.reshape(-1))
        if codes.any():
            bad = int(np.flatnonzero(codes)[0])
            raise CallError(RESOURCE_EXHAUSTED, (
                "TensorFlow's allocator could not give output {} of op '{}', of shape {}; use a smaller batch, or "
                "leave it more memory").format(
                    places[bad % count], self.members[bad // count].request.name,
                    dims.reshape(size * count, MAX_RANK)[bad][:ranks.reshape(-1)[bad]].tolist()))
        pointers = pointers.reshape(size, count)
        self._made.append((places, ranks, dims, pointers))
        return pointers

    def temporary(self, dtype, count):
        """A pointer to scratch memory of `count` numbers, until all members have finished."""
        return self._group.temporary(max(1, count) * ITEM_BYTES[dtype])

    def counters(self, count=None):
        """`Counters`, one of each member, or `count` of them."""
        return Counters(self, len(self.members) if count is None else count)

    def leave(self, mask):
        """Leaves the members of the mask, bool [T], to their operation's own `run`."""
        for number in np.flatnonzero(mask):
            taken = self.members[number]
            for places, ranks, dims, pointers in self._made:
                for column, place in enumerate(places):
                    shape = tuple(dims[number, column, :ranks[number, column]].tolist())
                    taken.request.keep_output(place, int(pointers[number, column]), shape)
            self.left.append(taken)
        return self

    def finish(self):
        """Answers all members that are not left."""
        if not self.left:
            self._group.finish()
            return
        for taken in self.members:
            if taken not in self.left:
                taken.request.finish()


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
