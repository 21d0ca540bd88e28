"""A `tf.SparseTensor` or `tf.RaggedTensor` of keys as bags: the slots of its samples, one after the other."""
from typing import Any, Callable

import numpy as np

from sok1x.cuda_kernels import backend, bags, combine, group_bags, groups, row_numbers, unique
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError

# In place of a batch's row splits or rows where they are not those of its weights: no such number is either. So a batch
# is refused as any other that is not what it must be, on all ranks, and nothing of a GPU's is waited for besides.
OTHERWISE = -2 ** 62

_MOST_NUMBERS = 2 ** 56  # whose bytes 64 bits can count: what a tensor has beyond, TensorFlow ends the process for


class SparseBatch:
    """A rank's sparse batch, brought into the order of its bags.

    Made in two parts, so that a GPU counts everything before Python waits once: the constructor takes three counts
    (`backend.counts`), `check` is given them.

    Args:
      config: with `table`, `slots` and `max_nnz`. new_offsets: makes `offsets`, given the number of bags.

    Attributes:
      count: number of bags. keys: `Array` [K]. offsets: int64 [count + 1].
      order: int32 [K], which of the given keys each one is; None where they are in order, or before `check`.
    """

    order: Any = None

    def __init__(self, request: Any, config: Any, world: Any, new_offsets: Callable[[int], Any]) -> None:
        table = config.table
        self._request, self._config = request, config
        self._indices: Any = request.inputs[0]
        self.keys: Any = request.inputs[1]
        slots = config.slots
        self._where = where = "embedding table '{}' on {}".format(table.name, world.name)
        self._shape = shape = request.host_inputs[0].numpy().tolist()
        if self._indices.shape != (self.keys.size, 2) or len(self.keys.shape) != 1:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got a SparseTensor with indices of shape {} and values of shape {}, expected [K, 2] and "
                "[K]").format(where, list(self._indices.shape), list(self.keys.shape)))
        if len(self._request.host_inputs[0].shape) != 1 or len(shape) != 2 or shape[0] < 0 or shape[0] % slots:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got a SparseTensor of dense_shape {}, expected [B * slot_num, max_nnz] with slot_num={}: one row "
                "for every slot of every sample").format(where, shape, slots))
        if shape[0] * table.dim > _MOST_NUMBERS:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got a SparseTensor of dense_shape {}: {} rows of {} numbers are more than memory can have").format(
                    where, shape, shape[0], table.dim))
        self.count = shape[0]
        self.offsets = new_offsets(self.count)
        counts = backend.counts()
        combine.start_bag_offsets(self._indices, self.offsets, counts.take(), counts.take())
        bags.start_longest(self.offsets, counts.take())

    def check(self, outside: int, unsorted: int, longest: int) -> bool:
        """Raises where the batch is not as it must be. Returns whether keys and offsets had to be made anew."""
        state = combine.state_of_offsets(self.keys.size, outside, unsorted)
        if state >= 2 and int(self._indices.read()[state - 2, 0]) == OTHERWISE:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got sp_weights whose indices are not those of sp_ids, first at position {} of {}, expected a "
                "weight for each id in the same place: tf.SparseTensor(ids.indices, weights, ids.dense_shape)").format(
                    self._where, state - 2, self.keys.size))
        if state >= 2:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got row {} in the SparseTensor's indices at position {}, expected rows in [0, {}) as its "
                "dense_shape {} says").format(
                    self._where, int(self._indices.read()[state - 2, 0]), state - 2, self._shape[0], self._shape))
        if state == 1:
            self._sort(self._request, self._indices, self.keys)
            longest, bag = bags.longest(self.offsets)
        else:
            longest, bag = bags.decode_longest(longest)
        slots, most = self._config.slots, self._config.max_nnz
        if longest > most:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got {} keys in slot {} of sample {}, expected at most max_nnz={}; raise max_nnz or cut the "
                "slot's keys").format(self._where, longest, bag % slots, bag // slots, most))
        return state == 1

    def bag_of(self, position: int) -> int:
        """The bag of a position, for messages: a GPU's offsets are waited for."""
        return int(np.searchsorted(self.offsets.read(), position, side="right")) - 1

    def _sort(self, request: Any, indices: Any, values: Any) -> None:
        """A SparseTensor out of row-major order: keys are brought into the order of their rows, stably."""
        order = self.order = request.temporary("int32", values.size)
        combine.sort_order(indices, self.offsets, order)
        wide = request.temporary("int64", values.size)
        unique.widen(values, wide)
        self.keys = request.temporary("int64", values.size)
        row_numbers.look_up_int64(wide, order, self.keys)


class RaggedBatch:
    """A rank's ragged batch, whose bags are in order as they are given: see `SparseBatch`."""

    order: Any = None

    def __init__(self, request: Any, config: Any, world: Any, new_offsets: Callable[[int], Any]) -> None:
        self._splits, self.keys = request.inputs[:2]
        self._where = "embedding table '{}' on {}".format(config.table.name, world.name)
        if len(self.keys.shape) != 1 or len(self._splits.shape) != 1 or not self._splits.size:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got a RaggedTensor with row splits of shape {} and values of shape {}, expected [B + 1] and "
                "[K]").format(self._where, list(self._splits.shape), list(self.keys.shape)))
        self.count = self._splits.size - 1
        self.offsets = new_offsets(self.count)
        self._counts = request.temporary("int64", 3)
        members = groups.members(group_bags.BAGS, 1)
        for field, value in (("splits", self._splits.pointer), ("n", self.keys.size), ("n_bags", self.count),
                             ("most", self.keys.size), ("offsets", self.offsets.pointer)):
            members[field] = value
        group_bags.offsets(members, self._counts)

    def check(self) -> bool:
        """See `SparseBatch.check`."""
        if self._counts.read()[0]:
            splits = self._splits.read()
            strange = np.flatnonzero(splits == OTHERWISE)
            if strange.size:
                raise CallError(INVALID_ARGUMENT, (
                    "{}: got sp_weights whose row splits are not those of sp_ids, first at split {} of {}, expected a "
                    "weight for each id in the same place: ids.with_values(weights)").format(
                        self._where, strange[0], splits.size))
            raise CallError(INVALID_ARGUMENT, (
                "{}: got a RaggedTensor with row splits {} for {} values, expected them to begin at 0, to ascend, and "
                "to end at {}").format(self._where, np.array2string(splits, threshold=20), self.keys.size,
                                       self.keys.size))
        return False

    def bag_of(self, position: int) -> int:
        """See `SparseBatch.bag_of`."""
        return int(np.searchsorted(self.offsets.read(), position, side="right")) - 1
