"""All2AllDenseEmbedding's lookup: one row per key, and its gradient.

Forward, on N ranks: keys are made distinct, travel to their owners, are looked up there, and their rows travel back and
are spread over the positions of the batch. Backward runs the same way in the other direction with sums where the
forward spreads; the owner's rows are made distinct over the ranks that asked before it (see alone.py). On one rank
nothing travels, and the spread reads the table directly.

Where embeddings are float16, so is what travels: rows, rounded by their owner, and each rank's sums of gradients,
rounded once. Sums are made in float32.
"""
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import dense, gather, partition, row_numbers, segment_sum
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.exchanges import alone, ties
from sok1x.graph_ops.groups import dense_lookup as groups
from sok1x.graph_ops.operations import second_order
from sok1x.graph_ops.stores import shard
from sok1x.graph_ops.stores.table import Table

# What the forward op leaves for its gradient, after the embeddings:
#   inverse     int32 [K]  which of the sent keys each position asked for (on one rank: its row, see alone.py)
#   rows        int32 [u]  rows of the distinct keys that this rank was asked for, -1 for one without row; or nothing
#   requested   int32 [R]  which of `rows` each received key is; where `rows` is nothing, its row itself
#   counts      int64 [2N + 1] keys sent to each rank, keys received from each rank, the exchange's number (ties.py), in
#               host memory
# (on one rank the last three are empty)
NOTHING = np.empty(0, np.int64)  # the header of an op that has nothing to say
_SAVED = (tf.int32, tf.int32, tf.int32)
DISTINCT = (("operations.dense_lookup.backward", 1),)  # (function, output) that hold rows, none twice


class Asked:
    """A batch's distinct keys, in the order in which they are sent. keys: int64 [U]; inverse: int32 [K]."""

    def __init__(self, request, table, world, keys, inverse):
        total = keys.size
        values, self.count = shard.make_distinct(request, keys, inverse)
        shard.check_range(table, world, values, self.count,
                          lambda bad: int(np.flatnonzero(inverse.read() == bad)[0]))
        self.send_counts = np.array([self.count], np.int64)
        self.keys = values
        if world.size > 1:
            counts = request.temporary("int64", world.size)
            self.keys = request.temporary("int64", self.count)
            position = request.temporary("int32", self.count)
            partition.partition(values.pointer, self.count, world.size, counts.pointer, self.keys.pointer,
                                position.pointer)
            partition.remap(inverse.pointer, position.pointer, total)
            self.send_counts = counts.read()


def owner_rows(request, table, world, sent, recv_counts, training, dtype, rows_index, requested_index):
    """Sends the distinct keys to their owners and returns the rows' values, of `dtype` [U, D], in sent order.

    Writes the outputs `rows` and `requested`. world.size > 1.
    """
    dim = table.dim
    received = int(recv_counts.sum())
    keys = request.temporary("int64", received)
    request.communicator.all_to_all(sent.keys.pointer, sent.send_counts, keys.pointer, recv_counts, 8)
    requested = request.output(requested_index, "int32", (received,))
    answers = request.temporary(dtype, received, dim)
    with request.variables(table.name, exclusive=training) as variables:
        known = table.use_hashtable and not alone.look_up(table, variables, keys, requested, answers)
        if known:
            request.output(rows_index, "int32", (0,))
            if training:
                shard.agree(world)
        else:
            distinct, count = shard.make_distinct(request, keys, requested)
            rows = request.output(rows_index, "int32", (count,))
            look = shard.find_or_insert if training else shard.find
            found = look(request, table, world, variables, distinct, count, rows)
            gather.gather_through(variables[0].pointer, dim, found.read_from.pointer, requested.pointer, received,
                                  answers.pointer, dtype)
    if not known:
        shard.fill_unseen(request, table, world, distinct, found, requested, received, answers)
    values = request.temporary(dtype, sent.count, dim)
    request.communicator.all_to_all(answers.pointer, recv_counts, values.pointer, sent.send_counts,
                                    dim * ITEM_BYTES[dtype])
    return values


@register
class _Forward(Operation):
    """inputs: keys [...] of any shape. Host inputs: training bool [], unless the config has it.

    Outputs: embeddings of the config's dtype, float32 or float16 [..., D], then `_SAVED`. Host output: counts.
    """

    name = "operations.dense_lookup.forward"
    communicates = True
    group = groups.Forward()

    def prepare(self, request, config, world):
        table = config["table"]
        keys = request.inputs[0]
        inverse = request.output(1, "int32", (keys.size,))
        training = shard.training_of(request, config)
        asked = Asked(request, table, world, keys, inverse) if world.size > 1 else None
        request.state = table, asked, inverse, training
        return NOTHING if asked is None else np.concatenate([[training], asked.send_counts]).astype(np.int64)

    def run(self, request, config, world, headers):
        table, asked, inverse, training = request.state
        keys = request.inputs[0]
        out = request.output(0, config["dtype"], keys.shape + (table.dim,))
        if world.size == 1:
            self._run_alone(request, table, world, inverse, training, out)
            return
        shard.check_training(table, headers)
        recv_counts = np.ascontiguousarray(headers[:, 1 + world.rank])
        ties.save(request, 0, [asked.send_counts, recv_counts])
        values = owner_rows(request, table, world, asked, recv_counts, training, out.dtype, 2, 3)
        gather.gather(values.pointer, table.dim, inverse.pointer, keys.size, out.pointer, values.dtype, out.dtype)

    @staticmethod
    def _run_alone(request, table, world, at, training, out):
        keys = request.inputs[0]
        request.output(2, "int32", (0,))
        request.output(3, "int32", (0,))
        request.host_output(0, "int64", (0,))
        with request.variables(table.name, exclusive=training) as variables:
            if request.gpu and table.use_hashtable and not training and not table.by_row:
                alone.look_up_unseen(request, table, world, variables, keys, at, out)
                return
            if table.use_hashtable and not alone.look_up(table, variables, keys, at, out):
                return
            inverse = request.temporary("int32", keys.size)
            asked = Asked(request, table, world, keys, inverse)
            look = shard.find_or_insert if training else shard.find
            found = look(request, table, world, variables, asked.keys, asked.count,
                         request.temporary("int32", asked.count))
            gather.gather_through(variables[0].pointer, table.dim, found.read_from.pointer, inverse.pointer,
                                  inverse.size, out.pointer, out.dtype)
        shard.fill_unseen(request, table, world, asked.keys, found, inverse, inverse.size, out)
        row_numbers.look_up(found.rows.pointer, inverse.pointer, inverse.size, at.pointer)

    def gradient(self, op, config, grads):
        table = Table.from_config(config["table"])
        fields = {field: config[field] for field in ("table", "label", "rows_known")}
        inverse, rows, requested, indices = alone.distinct(op, config, *op.outputs[1:4])
        slices = shard.gradient_slices(table, lambda dtypes, shapes: library.call(
            "operations.dense_lookup.backward", fields, [grads[0], inverse, rows, requested], dtypes, shapes,
            host_inputs=[op.outputs[4]], name="lookup_gradient"), indices if config["rows_known"] else None)
        return [slices] + [None] * (len(op.inputs) - 1)


@register
class _Backward(Operation):
    """inputs: gradient [..., D], float32 or float16, then `_SAVED`. Host input: counts.

    Outputs: values float32 [u, D], indices int32 [u].
    """

    name = "operations.dense_lookup.backward"
    communicates = True
    group = groups.Backward()

    def tie(self, request):
        return ties.number(request.host_inputs[0].numpy())

    def prepare(self, request, config, world):
        table = config["table"]
        gradient, inverse = request.inputs[:2]
        counts = request.host_inputs[0]
        shard.check_gradient(table, world, gradient, inverse.size)
        if world.size > 1:
            count = int(counts.numpy()[:world.size].sum())
            summed = request.temporary("float32", count, table.dim)
            segment_sum.segment_sum(gradient.pointer, table.dim, inverse.pointer, inverse.size, count,
                                    summed.pointer, gradient.dtype)
            request.state = as_it_travels(request, summed, gradient.dtype)
        return np.concatenate([[config["rows_known"]], counts.numpy()]).astype(np.int64)

    def run(self, request, config, world, headers):
        table = config["table"]
        gradient, inverse, rows, requested = request.inputs
        counts = request.host_inputs[0]
        if world.size == 1:
            shard.summed_by_row(request, table, gradient, inverse, rows, config["rows_known"])
        else:
            ties.check_counts(request.name, headers, world.size)
            return_gradients(request, config, world, request.state, counts.numpy(), requested, rows)

    def gradient(self, op, config, grads):
        return second_order.gradient_of_backward("operations.second_order.spread_rows", op, config, grads)


def as_it_travels(request, summed, dtype):
    """Sums of gradients, float32 [U, D], in the embeddings' dtype, in which ranks exchange them."""
    if dtype == "float32":
        return summed
    narrow = request.temporary(dtype, *summed.shape)
    dense.narrow_half(summed.pointer, summed.size, narrow.pointer)
    return narrow


def return_gradients(request, config, world, summed, counts, requested, rows):
    """Sends the gradients of distinct keys, [U, D], to their owners and sums them by row there."""
    table = config["table"]
    send_counts, recv_counts = counts[:world.size].copy(), counts[world.size:2 * world.size].copy()
    received = request.temporary(summed.dtype, requested.size, table.dim)
    request.communicator.all_to_all(summed.pointer, send_counts, received.pointer, recv_counts,
                                    table.dim * ITEM_BYTES[summed.dtype])
    shard.summed_by_row(request, table, received, requested, rows, config["rows_known"])


def lookup(table, keys, training, dtype, name):
    """Rows of `keys`: keys.shape + [D], of `dtype`. See `embedding.lookup_dense`."""
    # The batch is left out: it may differ from rank to rank.
    label = "{} keys=[B, {}] {}".format(table.label(), ", ".join(map(str, keys.shape.as_list()[1:])), dtype)
    fields, host_inputs = shard.training_inputs(training)
    outputs = library.call(
        "operations.dense_lookup.forward",
        dict(fields, table=table.config(), label=label, dtype=dtype,
             rows_known=shard.rows_are_known(table, training)), [keys], (tf.as_dtype(dtype),) + _SAVED,
        [keys.shape.concatenate([table.dim]), [None], [None], [None]],
        resources=table.handles + table.stamp_handles, host_inputs=host_inputs, host_dtypes=[tf.int64],
        host_shapes=[[None]], name=name)
    return outputs[0]
