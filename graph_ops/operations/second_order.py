"""Gradients of gradients: what a lookup's gradient passes back to the gradient that it was made from.

A backward op is linear in the embeddings' gradient: the value of a row is the sum of the gradients of all positions, of
all ranks, that have it. So its own gradient is a lookup's spread: each owner's upstream values w [u, D], one for each
row in the order of the backward op's values, go the way that the rows have come, and every position gets its row's (a
bag its rows', combined). A row that the gradient has left out, of a key without a row, gives zeros. The gradient of
the spread is the backward op again; so there is one of any order.

As in the other direction, what travels is of the embeddings' dtype, rounded once where it leaves its owner.
"""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import combine, gather
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.exchanges import partial_sums, ties
from sok1x.graph_ops.stores import shard


def _sent(counts, world):
    """Of a dense lookup's counts: the keys that this rank has sent to each, so the rows that come back."""
    return counts[:world.size].copy()


def _received(counts, world):
    """Of a dense lookup's counts: the keys that each rank has sent to this one."""
    return counts[world.size:2 * world.size].copy()


def _exchange(route):
    """Of a combined lookup's route: (its exchange; the counts behind it, without the exchange's number)."""
    return route[0], route[1:-1]


class _Spread(Operation):
    """inputs: w float32 [u, D], then what the lookup has saved. Host input: its counts, or route.

    Output: of the config's dtype, [K, D], or [B * S, D] of bags.
    """

    communicates = True
    rows_input = None  # the place of the lookup's `rows` among the inputs

    def tie(self, request):
        return ties.number(request.host_inputs[0].numpy())

    def prepare(self, request, config, world):
        table, values, rows = config["table"], request.inputs[0], request.inputs[self.rows_input]
        kept = request.state = shard.Kept(request, rows, config["rows_known"])
        if values.shape != (kept.count, table.dim):
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on rank {}: got a gradient of shape {} for the values of a lookup's gradient, "
                "expected [{}, {}]").format(table.name, world.rank, list(values.shape), kept.count, table.dim))
        return request.host_inputs[0].numpy()

    def gradient(self, op, config, grads):
        saved, host = op.inputs[1:-1], op.inputs[-1]
        fields = dict(config)
        backward = fields.pop("backward")
        del fields["dtype"]
        dtypes, shapes = [tf.float32, tf.int32], [op.inputs[0].shape, [None]]
        outputs = 1 if config["rows_known"] else 2
        values = library.call(backward, fields, [grads[0]] + list(saved), dtypes[:outputs], shapes[:outputs],
                              host_inputs=[host], name="lookup_gradient")[0]
        return [values] + [None] * (len(op.inputs) - 1)


def _rows_back(request, config, world, counts, requested):
    """Each owner's values of the rows that were asked of it go to who asked: [U, D] in the order of the sent keys."""
    dim, dtype, w = config["table"].dim, config["dtype"], request.inputs[0]
    send_counts, recv_counts = _sent(counts, world), _received(counts, world)
    answers = request.temporary(dtype, requested.size, dim)
    gather.gather(w.pointer, dim, request.state.places(requested).pointer, requested.size, answers.pointer, w.dtype,
                  dtype)
    values = request.temporary(dtype, int(send_counts.sum()), dim)
    request.communicator.all_to_all(answers.pointer, recv_counts, values.pointer, send_counts, dim * ITEM_BYTES[dtype])
    return values


@register
class _DenseSpread(_Spread):
    """The gradient of `dense.backward`."""

    name = "operations.second_order.spread_rows"
    rows_input = 2

    def run(self, request, config, world, headers):
        dim, dtype = config["table"].dim, config["dtype"]
        w, inverse, _, requested = request.inputs
        out = request.output(0, dtype, (inverse.size, dim))
        if world.size == 1:
            values, places = w, request.state.places(inverse)
        else:
            ties.check_counts(request.name, headers, world.size)
            values, places = _rows_back(request, config, world, request.host_inputs[0].numpy(), requested), inverse
        gather.gather(values.pointer, dim, places.pointer, inverse.size, out.pointer, values.dtype, dtype)


@register
class _CombinedSpread(_Spread):
    """The gradient of `combined.backward`."""

    name = "operations.second_order.spread_bags"
    rows_input = 3

    def run(self, request, config, world, headers):
        dim, dtype, mean = config["table"].dim, config["dtype"], config["combiner"] == "mean"
        w, inverse, offsets, _, requested, all_offsets = request.inputs
        bags = offsets.size - 1
        out = request.output(0, dtype, (bags, dim))
        if world.size == 1:
            values, places = w, request.state.places(inverse)
        else:
            exchange, counts = _exchange(request.host_inputs[0].numpy())
            if exchange == partial_sums.REDUCE_SCATTER:
                ties.check_equal(request.name, headers)
                self._reduce_scatter(request, world, dim, requested, all_offsets, counts.copy(),
                                     offsets if mean else None, out)
                return
            ties.check_counts(request.name, headers, world.size)
            values, places = _rows_back(request, config, world, counts, requested), inverse
        combine.combine(values.pointer, dim, 0, places.pointer, offsets.pointer, bags, inverse.size, mean, out.pointer,
                        values.dtype, dtype)

    @staticmethod
    def _reduce_scatter(request, world, dim, requested, all_offsets, counts, offsets, out):
        w, total = request.inputs[0], int(counts.sum())
        partial = request.temporary(out.dtype, total, dim)
        combine.combine(w.pointer, dim, 0, request.state.places(requested).pointer, all_offsets.pointer, total,
                        requested.size, False, partial.pointer, w.dtype, out.dtype)
        partial_sums.reduce_scatter(request, world, partial, counts, offsets, out)


def gradient_of_backward(function, op, config, grads):
    """Gradients for the inputs of a backward op: what `Operation.gradient` gives.

    Args:
      function: 'dense.spread' or 'combined.spread'. op, config: the backward op and its config.
      grads: for its outputs; that of its indices, if there are any, counts for nothing.
    """
    given, saved, host = op.inputs[0], op.inputs[1:-1], op.inputs[-1]
    spread, = library.call(
        function, dict(config, dtype=given.dtype.name, backward=op.get_attr("function").decode()),
        [tf.convert_to_tensor(grads[0])] + list(saved), [given.dtype], [[None, config["table"]["dim"]]],
        host_inputs=[host], name="second_order")
    return [tf.reshape(spread, tf.shape(given))] + [None] * (len(op.inputs) - 1)
