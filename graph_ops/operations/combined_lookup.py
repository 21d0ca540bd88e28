"""DistributedEmbedding's lookup: the rows of a slot's keys combined into one, and its gradient.

Two exchanges give the same result, and the headers that all ranks see decide which one a step uses:
  all2all         distinct keys travel to their owners, their rows travel back, each rank combines its own bags;
  reduce_scatter  every (key, bag) pair travels to the key's owner, each rank combines what it owns for the bags of
                  all ranks, and Reduce-Scatter adds these partial sums; gradients travel by All-Gather.
Where embeddings are float16, so is what travels, each rank's sums rounded once. Sums are made in float32.
"""
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from sok1x.cuda_kernels import backend, bags, combine, gather, partition, row_numbers, segment_sum, unique
from sok1x.cuda_kernels import lookup as lookups
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.exchanges import alone, partial_sums, ties
from sok1x.graph_ops.exchanges.partial_sums import ALL2ALL, REDUCE_SCATTER
from sok1x.graph_ops.operations import dense_lookup, second_order
from sok1x.graph_ops.operations.sparse_batch import SparseBatch
from sok1x.graph_ops.stores import shard
from sok1x.graph_ops.stores.table import Table

# What the forward op leaves for its gradient, after the embeddings:
#   inverse    int32 [K]    which of the sent keys each position asked for (on one rank: its row, see alone.py); empty
#                           where the layer's exchange is reduce_scatter
#   offsets    int64 [B*S+1] where each bag begins
#   rows       int32 [u]    rows of the distinct keys that this rank was asked for, -1 for one without row; or nothing
#   requested  int32 [R]    which of `rows` each received key is, or its row (dense_lookup.py); on one rank empty, as
#                           the two that follow
#   all_offsets int64       where each bag of all ranks begins among the received pairs (reduce_scatter)
#   route      int64        0, keys sent to each rank, keys received from each rank; or 1, bags of each rank; and the
#                           exchange's number (ties.py); in host memory
_SAVED = (tf.int32, tf.int64, tf.int32, tf.int32, tf.int64)
DISTINCT = (("operations.combined_lookup.backward", 1),)  # (function, output) that hold rows, none twice


def choose(exchange, row_bytes, headers):
    """The exchange of this step: the one that moves fewer bytes, forward and backward together, over all ranks.

    all2all moves each distinct key (8 bytes) and its row and gradient (row_bytes each); reduce_scatter moves each
    key with its bag (16 bytes) and, N times as far, the bags' sums and gradients. Equal on all ranks.
    """
    if exchange != "auto":
        return ALL2ALL if exchange == "all2all" else REDUCE_SCATTER
    bag_count, key_count, distinct = (int(headers[:, i].sum()) for i in (1, 2, 3))
    by_all2all = distinct * (8 + 2 * row_bytes)
    by_reduce_scatter = key_count * 16 + headers.shape[0] * bag_count * 2 * row_bytes
    return ALL2ALL if by_all2all <= by_reduce_scatter else REDUCE_SCATTER


@register
class _Forward(Operation):
    """inputs: a SparseTensor's indices int64 [K, 2] and values [K].

    Host inputs: its dense_shape int64 [2]; training bool [], unless the config has it.
    Outputs: embeddings of the config's dtype, float32 or float16 [B, S, D], then `_SAVED`. Host output: route.
    """

    name = "operations.combined_lookup.forward"
    communicates = True

    def prepare(self, request, config, world):
        table = config["table"]
        if world.size == 1:
            return dense_lookup.NOTHING
        batch = SparseBatch(request, config, table, world)
        batch.check(*backend.counts().read())
        training = shard.training_of(request, config)
        if config["exchange"] == "reduce_scatter":
            return self._prepare_pairs(request, table, world, batch, training)
        inverse = request.output(1, "int32", (batch.keys.size,))
        asked = dense_lookup.Asked(request, table, world, batch.keys, inverse)
        request.state = table, batch, asked, inverse, training
        return np.concatenate(
            [[training, batch.count, batch.keys.size, asked.count], asked.send_counts]).astype(np.int64)

    @staticmethod
    def _prepare_pairs(request, table, world, batch, training):
        """Where keys travel with their bags whatever they are, nobody needs to know which are distinct."""
        request.output(1, "int32", (0,))
        if not table.use_hashtable:
            keys = request.temporary("int64", batch.keys.size)
            unique.widen(batch.keys.pointer, batch.keys.dtype, keys.size, keys.pointer)
            shard.check_range(table, world, keys, keys.size, lambda bad: bad)
        request.state = table, batch, None, None, training
        return np.array([training, batch.count, batch.keys.size, 0] + [0] * world.size, np.int64)

    def run(self, request, config, world, headers):
        mean = config["combiner"] == "mean"
        if world.size == 1:
            self._run_alone(request, config, world, mean)
            return
        table, batch, _, _, _ = request.state
        out = self._output(request, config, table, batch)
        shard.check_training(table, headers)
        if choose(config["exchange"], table.dim * ITEM_BYTES[out.dtype], headers) == ALL2ALL:
            self._run_all2all(request, world, mean, headers, out)
        else:
            self._run_reduce_scatter(request, world, mean, headers, out)

    @staticmethod
    def _output(request, config, table, batch):
        slots = config["slot_num"]
        return request.output(0, config["dtype"], (batch.count // slots, slots, table.dim))

    def _run_alone(self, request, config, world, mean):
        table, training = config["table"], shard.training_of(request, config)
        counts = backend.counts()
        batch = SparseBatch(request, config, table, world)
        at = request.output(1, "int32", (batch.keys.size,))
        out = self._output(request, config, table, batch)
        request.output(4, "int32", (0,))
        request.output(5, "int64", (0,))
        request.host_output(0, "int64", (0,))
        with request.variables(table.name, exclusive=training) as variables:
            def combine_found():
                combine.combine(variables[0].pointer, table.dim, 0, at.pointer, batch.offsets.pointer, batch.count,
                                at.size, mean, out.pointer, dtype=out.dtype)

            missing = None
            if request.gpu and table.use_hashtable:
                # What the usual batch needs is enqueued before the counts have come that say whether this is one.
                lookups.start(batch.keys.pointer, batch.keys.dtype, at.size, variables[1].pointer,
                             variables[1].shape[0], at.pointer, counts.take())
                counts.ask()
                combine_found()
                *faults, missing = counts.read()
            else:
                faults = counts.read()
            if batch.check(*faults):
                missing = None
            if missing is None and table.use_hashtable:
                missing = alone.look_up(table, variables, batch.keys, at, None)
                if not missing:
                    combine_found()
            if missing == 0:
                request.output(3, "int32", (0,))
                return
        inverse = request.temporary("int32", batch.keys.size)
        asked = dense_lookup.Asked(request, table, world, batch.keys, inverse)
        rows = _combine_found(request, table, world, asked.keys, asked.count, training, inverse, batch.offsets,
                              batch.count, mean, out)
        row_numbers.look_up(rows.pointer, inverse.pointer, inverse.size, at.pointer)

    @staticmethod
    def _run_all2all(request, world, mean, headers, out):
        table, batch, asked, inverse, training = request.state
        recv_counts = np.ascontiguousarray(headers[:, 4 + world.rank])
        ties.save(request, 0, [[ALL2ALL], asked.send_counts, recv_counts])
        request.output(5, "int64", (0,))
        values = dense_lookup.owner_rows(request, table, world, asked, recv_counts, training, out.dtype, 3, 4)
        combine.combine(values.pointer, table.dim, 0, inverse.pointer, batch.offsets.pointer, batch.count, inverse.size,
                        mean, out.pointer, values.dtype, out.dtype)

    @staticmethod
    def _run_reduce_scatter(request, world, mean, headers, out):
        table, batch, _, _, training = request.state
        counts = np.ascontiguousarray(headers[:, 1])
        ties.save(request, 0, [[REDUCE_SCATTER], counts])
        first = int(counts[:world.rank].sum())
        total = int(counts.sum())
        keys, pair_bags = _exchange_pairs(request, world, batch, first)
        requested = request.output(4, "int32", (keys.size,))
        distinct, count = shard.make_distinct(request, keys, requested)
        offsets = request.output(5, "int64", (total + 1,))
        combine.bag_offsets(pair_bags.pointer, 1, keys.size, total, offsets.pointer)
        partial = request.temporary(out.dtype, total, table.dim)
        _combine_found(request, table, world, distinct, count, training, requested, offsets, total, False,
                       partial)
        partial_sums.reduce_scatter(request, world, partial, counts, batch.offsets if mean else None, out)

    def gradient(self, op, config, grads):
        table = Table.from_config(config["table"])
        fields = {field: config[field] for field in ("table", "label", "combiner", "rows_known")}
        inverse, rows, requested, indices = alone.distinct(
            op, config, op.outputs[1], op.outputs[3], op.outputs[4])
        slices = shard.gradient_slices(table, lambda dtypes, shapes: library.call(
            "operations.combined_lookup.backward", fields, [grads[0], inverse, op.outputs[2], rows, requested,
                                                            op.outputs[5]], dtypes,
            shapes, host_inputs=[op.outputs[6]], name="lookup_gradient"), indices if config["rows_known"] else None)
        return [slices] + [None] * (len(op.inputs) - 1)


def _combine_found(request, table, world, keys, count, training, inverse, offsets, bag_count, mean, out):
    """Looks distinct keys up in this rank's shard and combines their rows over the bags.

    Args:
      out: [bag_count, D], float32 or float16.
      keys: int64 [count]. inverse: int32, which key each position asks for.

    Returns:
      The keys' rows int32 [count], -1 for one without; also output 3.
    """
    rows = request.output(3, "int32", (count,))
    with request.variables(table.name, exclusive=training) as variables:
        look = shard.find_or_insert if training else shard.find
        found = look(request, table, world, variables, keys, count, rows)
        if not found.missing or table.by_row:
            combine.combine(variables[0].pointer, table.dim, found.read_from.pointer, inverse.pointer,
                            offsets.pointer, bag_count, inverse.size, mean, out.pointer, dtype=out.dtype)
            return rows
        values = request.temporary("float32", count, table.dim)
        gather.gather(variables[0].pointer, table.dim, rows.pointer, count, values.pointer)
    shard.fill_unseen_distinct(table, world, keys, found, count, values)
    combine.combine(values.pointer, table.dim, 0, inverse.pointer, offsets.pointer, bag_count, inverse.size, mean,
                    out.pointer, dtype=out.dtype)
    return rows


def _exchange_pairs(request, world, batch, first):
    """Sends each key, with the number of its bag among all ranks' bags, to the key's owner.

    Returns:
      (keys int64 [R], bags int64 [R]) received, in the order of their bags.
    """
    length = batch.keys.size
    wide, position = request.temporary("int64", length), request.temporary("int32", length)
    grouped, own = request.temporary("int64", length), request.temporary("int64", length)
    sent_bags, counts = request.temporary("int64", length), request.temporary("int64", world.size)
    unique.widen(batch.keys.pointer, batch.keys.dtype, length, wide.pointer)
    partition.partition(wide.pointer, length, world.size, counts.pointer, grouped.pointer, position.pointer)
    bags.of_keys(batch.offsets.pointer, batch.count, first, own.pointer)
    partition.permute(own.pointer, position.pointer, length, sent_bags.pointer)
    send_counts = counts.read()
    recv_counts = request.communicator.exchange_counts(send_counts)
    received = int(recv_counts.sum())
    keys, pair_bags = request.temporary("int64", received), request.temporary("int64", received)
    request.communicator.all_to_all(grouped.pointer, send_counts, keys.pointer, recv_counts, 8)
    request.communicator.all_to_all(sent_bags.pointer, send_counts, pair_bags.pointer, recv_counts, 8)
    return keys, pair_bags


@register
class _Backward(Operation):
    """inputs: gradient [B, S, D], float32 or float16, then `_SAVED`. Host input: route.

    Outputs: values float32 [u, D], indices int32 [u].
    """

    name = "operations.combined_lookup.backward"
    communicates = True

    def tie(self, request):
        return ties.number(request.host_inputs[0].numpy())

    def prepare(self, request, config, world):
        table = config["table"]
        gradient, inverse, offsets = request.inputs[:3]
        route = request.host_inputs[0]
        mean = config["combiner"] == "mean"
        bag_count = offsets.size - 1
        shard.check_gradient(table, world, gradient, bag_count)
        if world.size > 1 and route.numpy()[0] == ALL2ALL:
            count = int(route.numpy()[1:1 + world.size].sum())
            summed = request.temporary("float32", count, table.dim)
            segment_sum.bag_segment_sum(gradient.pointer, table.dim, offsets.pointer, inverse.pointer, bag_count,
                                        inverse.size, mean, count, summed.pointer, gradient.dtype)
            request.state = dense_lookup.as_it_travels(request, summed, gradient.dtype)
        elif world.size > 1 and mean:
            request.state = request.temporary(gradient.dtype, bag_count, table.dim)
            combine.divide(gradient.pointer, table.dim, offsets.pointer, bag_count, request.state.pointer,
                           gradient.dtype)
        else:
            request.state = gradient
        return route.numpy()

    def run(self, request, config, world, headers):
        table = config["table"]
        _, inverse, offsets, rows, requested, all_offsets = request.inputs
        route = request.host_inputs[0]
        if world.size == 1:
            _sum_bags(request, config, request.state, offsets, inverse, config["combiner"] == "mean", rows)
        elif route.numpy()[0] == ALL2ALL:
            ties.check_counts(request.name, headers, world.size)
            dense_lookup.return_gradients(request, config, world, request.state, route.numpy()[1:], requested, rows)
        else:
            ties.check_equal(request.name, headers)
            counts = route.numpy()[1:-1].copy()
            gradients = request.temporary(request.state.dtype, int(counts.sum()), table.dim)
            request.communicator.all_gather(request.state.pointer, gradients.pointer, counts,
                                            table.dim * ITEM_BYTES[gradients.dtype])
            _sum_bags(request, config, gradients, all_offsets, requested, False, rows)

    def gradient(self, op, config, grads):
        return second_order.gradient_of_backward("operations.second_order.spread_bags", op, config, grads)


def _sum_bags(request, config, gradient, offsets, inverse, mean, rows):
    """Writes IndexedSlices from the bags' gradients: the counterpart of `shard.summed_by_row`."""
    table = config["table"]
    kept, inverse = shard.without_unknown(request, table, rows, inverse, config["rows_known"])
    values = request.output(0, "float32", (kept, table.dim))
    segment_sum.bag_segment_sum(gradient.pointer, table.dim, offsets.pointer, inverse.pointer, offsets.size - 1,
                                inverse.size, mean, kept, values.pointer, gradient.dtype)


def lookup(table, sparse_keys, slot_num, max_nnz, combiner, training, exchange, dtype, name):
    """[B, S, D], of `dtype`. See `embedding.lookup_combined`."""
    label = "{} slot_num={} max_nnz={} combiner={} exchange={} {}".format(
        table.label(), slot_num, max_nnz, combiner, exchange, dtype)
    config = {"table": table.config(), "label": label, "slot_num": slot_num, "max_nnz": max_nnz, "dtype": dtype,
              "combiner": combiner, "exchange": exchange, "rows_known": shard.rows_are_known(table, training)}
    fields, host_inputs = shard.training_inputs(training)
    config.update(fields)
    rows = tensor_util.constant_value(sparse_keys.dense_shape)
    batch = None if rows is None else int(rows[0]) // slot_num
    outputs = library.call("operations.combined_lookup.forward", config, [sparse_keys.indices, sparse_keys.values],
                           (tf.as_dtype(dtype),) + _SAVED, [[batch, slot_num, table.dim]] + [[None]] * 5,
                           resources=table.handles + table.stamp_handles,
                           host_inputs=[sparse_keys.dense_shape] + host_inputs, host_dtypes=[tf.int64],
                           host_shapes=[[None]], name=name)
    return outputs[0]
