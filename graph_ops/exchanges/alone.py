"""Keys that are looked up one by one: on one rank a batch's positions, on several the keys that others ask for.

Only the gradient needs to know which rows are distinct. An op of its own finds that out, and stamps these rows, beside
whatever TensorFlow computes between lookup and gradient; where nobody asks for a gradient, it does not run.
"""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import gather, lookup, row_numbers, unique
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.groups import dense_lookup as groups
from sok1x.graph_ops.stores import known_rows, shard, stamps

DISTINCT = (("exchanges.alone.distinct", 1),)  # (function, output) that hold rows, none twice


def look_up(table, variables, keys, at, out):
    """Looks keys [K] up in a hash table's index: `at` int32 [K] is each one's row, -1 where it has none.

    Args:
      out: float32 or float16 [K, D], filled where keys have rows; or None.

    Returns:
      How many of the positions have no row.
    """
    rows, index = variables[:2]
    values = (0,) if out is None else (out.pointer, out.dtype)
    return lookup.look_up(keys.pointer, keys.dtype, keys.size, index.pointer, index.shape[0], rows.pointer, table.dim,
                          at.pointer, *values)


def look_up_unseen(request, table, world, variables, keys, at, out):
    """As `look_up` in an evaluation on a GPU, without waiting: keys without a row read their initial values."""
    rows, index = variables[:2]
    lookup.start(keys.pointer, keys.dtype, keys.size, index.pointer, index.shape[0], at.pointer, 0)
    gather.gather(rows.pointer, table.dim, at.pointer, keys.size, out.pointer, dtype=out.dtype)
    if keys.dtype != "int64":
        wide = request.temporary("int64", keys.size)
        unique.widen(keys.pointer, keys.dtype, keys.size, wide.pointer)
        keys = wide
    shard.write_initial_rows(table, world, keys, keys.size, at.pointer, out.pointer, out.dtype)


@register
class _Distinct(Operation):
    """inputs, outputs: a lookup's `inverse`, `rows` and `requested`; the outputs as its gradient needs them.

    On one rank the first input is each position's row, int32 [K], the others nothing; the outputs are which of the
    distinct rows each position has, and these, int32 [u]. On several ranks the last input may be the row of each key
    that was received, int32 [R], with nothing in the second: likewise.
    The resources are the table's stamps and clock. Host inputs: `stamps.step_inputs`.
    """

    name = "exchanges.alone.distinct"
    group = groups.Distinct()

    def run(self, request, config, world, headers):
        inverse, rows, requested = request.inputs
        place, at = (0, inverse) if world.size == 1 else (2, requested)
        for output in {0, 2} - {place}:
            request.forward(output, output)
        if world.size > 1 and (rows.size or not at.size):
            request.forward(place, place)
            request.forward(1, 1)
            self._note(request, config, rows)
            stamps.stamp_gradient(request, config, rows)
            return
        numbers = request.output(place, "int32", (at.size,))
        values, count = shard.make_distinct(request, at, numbers)
        rows = request.output(1, "int32", (count,))
        row_numbers.narrow(values.pointer, count, rows.pointer)
        self._note(request, config, rows)
        stamps.stamp_gradient(request, config, rows)

    @staticmethod
    def _note(request, config, rows):
        if config["rows_known"]:
            known_rows.note(request, config["table"], rows)


def distinct(op, config, inverse, rows, requested):
    """What the gradient of lookup `op` needs, from what it saved in their places.

    Returns:
      (inverse, rows, requested, indices): the last are `rows` for whoever takes the gradient. These may be fed. What
      the backward op itself works with may not: its sums would go beside their memory.
    """
    fields, host_inputs = stamps.step_inputs()
    resources = op.inputs[:op.get_attr("Nr")]
    made = library.call("exchanges.alone.distinct", dict(fields, table=config["table"], graph=config["plan"],
                                                rows_known=config["rows_known"]),
                        [inverse, rows, requested], [tf.int32] * 3, [[None]] * 3, resources=resources[-2:],
                        host_inputs=host_inputs, name="lookup_distinct")
    keep_from_feeds(list(op.outputs[1:]) + made)
    return tuple(made) + (tf.identity(made[1], name="rows"),)


def keep_from_feeds(tensors):
    """Makes it an error to feed tensors: what one of our ops leaves for another."""
    for tensor in tensors:
        tensor.graph.prevent_feeding(tensor)
