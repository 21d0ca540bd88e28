"""A lookup on one rank: nothing travels, so each position is looked up by itself.

Only the gradient needs to know which rows are distinct. An op of its own finds that out, beside whatever TensorFlow
computes between lookup and gradient; where nobody asks for a gradient, it does not run.
"""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import gather, lookup, row_numbers, unique
from sok1x.graph_ops import library, shard
from sok1x.graph_ops.registry import Operation, register

DISTINCT = (("lookup.distinct", 1),)  # (function, output) that hold rows, none twice


def look_up(table, variables, keys, at, out):
    """Looks keys [K] up in a hash table's index: `at` int32 [K] is each one's row, -1 where it has none.

    Args:
      out: float32 [K, D], filled where keys have rows; or None.

    Returns:
      How many of the positions have no row.
    """
    rows, index = variables[:2]
    return lookup.look_up(keys.pointer, keys.dtype, keys.size, index.pointer, index.shape[0], rows.pointer, table.dim,
                          at.pointer, out.pointer if out is not None else 0)


def look_up_unseen(request, table, world, variables, keys, at, out):
    """As `look_up` in an evaluation on a GPU, without waiting: keys without a row read their initial values."""
    rows, index = variables[:2]
    lookup.start(keys.pointer, keys.dtype, keys.size, index.pointer, index.shape[0], at.pointer, 0)
    gather.gather(rows.pointer, table.dim, at.pointer, keys.size, out.pointer)
    if keys.dtype != "int64":
        wide = request.temporary("int64", keys.size)
        unique.widen(keys.pointer, keys.dtype, keys.size, wide.pointer)
        keys = wide
    shard.write_initial_rows(table, world, keys, keys.size, at.pointer, out.pointer)


@register
class _Distinct(Operation):
    """inputs: a lookup's first two saved outputs. Outputs: inverse int32 [K], rows int32 [u], for its gradient.

    On several ranks these are the inputs. On one, the inputs are each position's row int32 [K], and nothing.
    """

    name = "lookup.distinct"

    def run(self, request, config, world, headers):
        at, rows = request.inputs
        if world.size > 1:
            request.forward(0, 0)
            request.forward(1, 1)
            return
        inverse = request.output(0, "int32", (at.size,))
        values, count = shard.make_distinct(request, at, inverse)
        rows = request.output(1, "int32", (count,))
        row_numbers.narrow(values.pointer, count, rows.pointer)


def distinct(saved, rows):
    """(inverse, rows) for a lookup's gradient, from what the lookup saved in their places."""
    return library.call("lookup.distinct", {}, [saved, rows], [tf.int32, tf.int32], [[None], [None]],
                        name="lookup_distinct")
