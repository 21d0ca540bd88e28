"""Distinct values and sums by segment, for any tensors: the ops behind `sok1x.operations`."""
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import backend, dense, row_numbers, segment_sum, segments
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.operations.distinct_rows import keep_from_feeds
from sok1x.graph_ops.stores.distinct import make_distinct

KEYS = ("int32", "int64", "uint32")
TERMS = ("float16", "float32", "float64")
IDS = ("int32", "int64")
_MOST_SEGMENTS = 2 ** 31 - 1
_MOST_NUMBERS = 2 ** 56  # whose bytes 64 bits can count: what a tensor has beyond, TensorFlow ends the process for


def _product(shape):
    """Numbers in a tensor of that shape, however many."""
    total = 1
    for length in shape:
        total *= length
    return total


@register
class _Unique(Operation):
    """inputs: keys [K]. Outputs: the distinct ones, in order of first appearance; index int32 [K], which each is."""

    name = "operations.segments.unique"

    def run(self, request, config, world, headers):
        keys, = request.inputs
        if len(keys.shape) != 1:
            raise CallError(INVALID_ARGUMENT, "unique: got x of shape {}, expected one dimension".format(
                list(keys.shape)))
        values, count = make_distinct(request, keys, request.output(1, "int32", keys.shape))
        out = request.output(0, keys.dtype, (count,))
        if keys.dtype == "int64":
            row_numbers.look_up_int64(values, None, out)
        else:
            row_numbers.narrow(values, out)


def _count_of_segments(request):
    """The host input num_segments."""
    given = request.host_inputs[0]
    if given.size != 1:
        raise CallError(INVALID_ARGUMENT, (
            "unsorted_segment_sum: got num_segments of shape {}, expected a scalar").format(list(given.shape)))
    count = int(given.numpy().reshape(()))
    if not 0 <= count <= _MOST_SEGMENTS:
        raise CallError(INVALID_ARGUMENT, "unsorted_segment_sum: got num_segments {}, expected a number in [0, "
                                          "2**31)".format(count))
    return count


class _Segments:
    """A request's segment ids as int32 [n], none beyond the segments; `check` raises where one is.

    On a GPU how many are wrong is known only after a wait, so what uses the numbers is enqueued before `check`.
    """

    def __init__(self, request, ids, count, known):
        self._ids, self._count = ids, count
        self._counts = None
        self.numbers = ids
        if known:  # all are in range, as the graph shows
            return
        self.numbers = request.temporary("int32", ids.size)
        self._counts = backend.counts()
        segments.numbers(ids, count, self.numbers, self._counts.take())
        self._counts.ask()

    def check(self):
        if self._counts is None:
            return
        from_end, = self._counts.read()
        if from_end:
            place = self._ids.size - from_end
            at = np.unravel_index(place, self._ids.shape) if self._ids.shape else ()
            raise CallError(INVALID_ARGUMENT, (
                "unsorted_segment_sum: got segment_ids[{}] = {}, expected ids below num_segments = {} (negative ones "
                "are left out)").format(", ".join(map(str, at)), int(self._ids.read().reshape(-1)[place]), self._count))


class SumConfig(NamedTuple):
    """Attributes:
      known: whether the graph shows that no id is beyond the segments."""

    known: bool


@register
class _SegmentSum(Operation):
    """inputs: data of floats, segment ids whose shape data's begins with. Host input: number of segments [].

    Output: sums [segments, ...].
    """

    name = "operations.segments.segment_sum"
    Config = SumConfig

    def run(self, request, config, world, headers):
        data, ids = request.inputs
        ranks = len(ids.shape)
        if data.shape[:ranks] != ids.shape:
            raise CallError(INVALID_ARGUMENT, (
                "unsorted_segment_sum: got data of shape {} and segment_ids of shape {}, expected data's shape to "
                "begin with that of segment_ids").format(list(data.shape), list(ids.shape)))
        count = _count_of_segments(request)
        inner = data.shape[ranks:]
        dim = _product(inner)
        if count * dim > _MOST_NUMBERS:
            raise CallError(INVALID_ARGUMENT, (
                "unsorted_segment_sum: got num_segments {} for rows of shape {}, expected sums of no more than {} "
                "numbers").format(count, list(inner), _MOST_NUMBERS))
        numbers = _Segments(request, ids, count, config.known)
        out = request.output(0, data.dtype, (count,) + inner)
        half = data.dtype == "float16"
        if out.size:
            sums = request.temporary("float32", count, dim) if half else out.as_rows(count, dim)
            segment_sum.segment_sum(data.as_rows(ids.size, dim), numbers.numbers, sums)
            if half:
                dense.narrow_half(sums, out)
        numbers.check()

    def gradient(self, op, config, grads):
        gradient, ids = grads[0], op.inputs[1]
        return [_rows_of(gradient, ids), None, None]


@register
class _RowsOf(Operation):
    """inputs: sums of floats [segments, ...], segment ids. Output: each id's row, zeros for a negative one."""

    name = "operations.segments.rows_of_segments"

    def run(self, request, config, world, headers):
        sums, ids = request.inputs
        inner = sums.shape[1:]
        if not sums.shape or sums.shape[0] > _MOST_SEGMENTS:
            raise CallError(INVALID_ARGUMENT, "unsorted_segment_sum: got a gradient of shape {}, expected that of the "
                                              "sums".format(list(sums.shape)))
        numbers = _Segments(request, ids, sums.shape[0], False)  # a gradient may be of any shape
        out = request.output(0, sums.dtype, ids.shape + inner)
        if out.size:
            dim = _product(inner)
            segments.rows_of(sums.as_rows(sums.shape[0], dim), numbers.numbers, out.as_rows(ids.size, dim))
        numbers.check()

    def gradient(self, op, config, grads):
        sums, ids = op.inputs
        return [unsorted_segment_sum(grads[0], ids, tf.shape(sums)[0]), None]


def _rows_of(sums, ids):
    return library.call("operations.segments.rows_of_segments", NoConfig(), [sums, ids], [sums.dtype],
                        [ids.shape.concatenate(sums.shape[1:])], name="unsorted_segment_sum_gradient")[0]


def unique(x, name=None):
    """(distinct values of x [K] in order of first appearance, in x's dtype; int32 [K]: which of them each is)."""
    return library.call("operations.segments.unique", NoConfig(), [x], [x.dtype, tf.int32], [[None], x.shape],
                        name=name or "unique")


def unsorted_segment_sum(data, segment_ids, num_segments, known=False, name=None):
    """Sums of data's rows by segment id; negative ids are left out, too large ones an error.

    Args:
      data: one of `TERMS`, shape begins with that of segment_ids. segment_ids: one of `IDS`.
      num_segments: a scalar tensor, one of `IDS`.
      known: all ids are int32 in [0, num_segments), or negative.
    """
    count = tf.get_static_value(num_segments)
    shape = tf.TensorShape(None)
    if segment_ids.shape.ndims is not None:
        shape = tf.TensorShape([count if count is None else int(count)]).concatenate(
            data.shape[segment_ids.shape.ndims:])
    return library.call("operations.segments.segment_sum", SumConfig(known), [data, segment_ids], [data.dtype], [shape],
                        host_inputs=[num_segments], name=name or "unsorted_segment_sum")[0]


def sums_by_index(values, indices):
    """Adds up what a sparse gradient has for equal indices: (sums [u, ...], distinct indices [u])."""
    distinct, index = unique(indices)
    keep_from_feeds([distinct, index])
    return unsorted_segment_sum(values, index, tf.shape(distinct)[0], known=True), distinct


def can_sum(values, indices):
    """Whether `sums_by_index` knows these dtypes."""
    return values.dtype.name in TERMS and indices.dtype.name in KEYS
