"""What a lookup makes of its keys' rows, and back: a row for each position, or one for each bag of positions."""
import abc
from typing import Any, Optional

from sok1x.cuda_kernels import combine, gather, group_combine, group_sum, groups, row_numbers, segment_sum
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.stores.base_store import Found, Store

# How bags are divided, by combiner: not; by their number of keys or the sum of their weights; with weights alone by the
# root of the sum of their squares.
_COMBINERS = {"sum": 0, "mean": 1, "sqrtn": 2}
_OR_NOTHING = 4  # as in cuda_kernels/bag_divisor.cuh


def divided_by(combiner: str, weighted: bool) -> int:
    """How kernels are told to divide bags: `mean` of cuda_kernels/group_combine.py.

    Weights may add up to zero. What then comes out is as tf.nn.embedding_lookup_sparse of this TensorFlow has it: of
    2.x zeros, as are gradients; 1.15 divides by zero.
    """
    how = _COMBINERS[combiner]
    return how | _OR_NOTHING if how and weighted and V2 else how


class Layout(abc.ABC):
    """See the module's text. `places`, int32 [K], says for each position which of some rows it has; -1: none, zeros.

    Attributes:
      dim: D. count: embeddings, the positions or the bags.
    """

    dim: int
    count: int

    @abc.abstractmethod
    def spread(self, values: Array, places: Array, out: Array) -> None:
        """out [count, D] from values [n, D], each float32 or float16."""

    @abc.abstractmethod
    def read(self, store: Store, keys: Array, found: Found, places: Array, out: Array) -> None:
        """As `spread`, from the table itself: `found` are the rows of distinct keys int64 [u]."""

    @abc.abstractmethod
    def sum(self, gradient: Array, places: Array, count: int, sums: Array) -> None:
        """sums float32 [count, D], for each of `count` rows, of gradient [self.count, D], float32 or float16."""


class Positions(Layout):
    """A row for each position."""

    def __init__(self, dim: int, count: int) -> None:
        self.dim, self.count = dim, count

    def spread(self, values: Array, places: Array, out: Array) -> None:
        """See `Layout.spread`."""
        gather.gather(values, places, out)

    def read(self, store: Store, keys: Array, found: Found, places: Array, out: Array) -> None:
        """See `Layout.read`."""
        store.gather(found, places, out)
        store.fill_unseen(keys, found, places, out)

    def sum(self, gradient: Array, places: Array, count: int, sums: Array) -> None:
        """See `Layout.sum`."""
        segment_sum.segment_sum(gradient, places, sums)


class Bags(Layout):
    """The sum or mean of each bag's rows; zeros for an empty bag.

    Attributes:
      offsets: int64 [count + 1], where each bag begins among the positions. mean: whether sums are divided.
    """

    def __init__(self, dim: int, offsets: Any, mean: bool) -> None:
        self.dim, self.offsets, self.count, self.mean = dim, offsets, offsets.size - 1, mean

    def spread(self, values: Array, places: Array, out: Array) -> None:
        """See `Layout.spread`."""
        self._combine(values, None, places, out)

    def read(self, store: Store, keys: Array, found: Found, places: Array, out: Array) -> None:
        """See `Layout.read`."""
        if not found.missing or store.table.by_row:
            self._combine(store.rows, found.read_from, places, out)
        else:
            self._combine(store.distinct_values(keys, found), None, places, out)

    def _combine(self, values: Array, rows: Optional[Array], places: Array, out: Array) -> None:
        """rows: int32, which of `values` each of what places say is, or None: they are in order."""
        combine.combine(values, rows, places, self.offsets, self.mean, out)

    def sum(self, gradient: Array, places: Array, count: int, sums: Array) -> None:
        """See `Layout.sum`."""
        segment_sum.bag_segment_sum(gradient, self.offsets, places, self.mean, sums)

    def divide(self, sums: Array, out: Array) -> None:
        """out [count, D] = sums [count, D], of one dtype, divided by each bag's number of positions."""
        combine.divide(sums, self.offsets, out)


class WeightedBags(Bags):
    """The same of rows that are multiplied with weights. mean: of `divided_by`.

    Attributes:
      scales: float32 [K], what the rows are multiplied with in the end: for `sum`. Where bags are divided `spread` and
        `read` fill it.
    """

    def __init__(self, request: Any, dim: int, offsets: Any, mean: int, weights: Any, scales: Any) -> None:
        super().__init__(dim, offsets, mean > 0)
        self._divided = mean
        self._request, self._weights, self.scales = request, weights, scales

    def _combine(self, values: Array, rows: Optional[Array], places: Array, out: Array) -> None:
        """See `Bags._combine`."""
        if rows is not None:
            through = self._request.temporary("int32", places.size)
            row_numbers.look_up(rows, places, through)
            places = through
        members = groups.members(group_combine.COMBINE, 1)
        groups.lie_at(members["source"], values.pointer)
        groups.lie_at(members["out"], out.pointer)
        for field, value in (("source_half", values.dtype == "float16"), ("dim", self.dim), ("mean", self._divided),
                             ("inverse", places.pointer), ("offsets", self.offsets.pointer), ("n_bags", self.count),
                             ("n_keys", places.size), ("out_half", out.dtype == "float16"),
                             ("weights", self._weights.pointer), ("scales", self.mean and self.scales.pointer)):
            members[field] = value
        group_combine.combine(members)

    def sum(self, gradient: Array, places: Array, count: int, sums: Array) -> None:
        """See `Layout.sum`."""
        members = groups.members(group_sum.SUM, 1)
        groups.lie_at(members["values"], gradient.pointer)
        groups.lie_at(members["sums"], sums.pointer)
        for field, value in (("values_half", gradient.dtype == "float16"), ("dim", self.dim),
                             ("segments", places.pointer), ("n", places.size), ("num_segments", count),
                             ("offsets", self.offsets.pointer), ("n_bags", self.count),
                             ("scales", self.scales.pointer)):
            members[field] = value
        group_sum.segment_sum(members)
