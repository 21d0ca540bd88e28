"""Rows that leave when a table is saved: `GlobalStepEvict` and `L2WeightEvict`."""
import contextlib
import functools
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.operations import evictions

_ROWS_AT_ONCE = 1 << 16  # so that norms take little memory


def watch(table: Any, steps_to_live: Optional[int], l2_threshold: Optional[float]) -> None:
    """Has rows of a table leave from now on, whenever it is about to be saved.

    Args:
        table: an `EmbeddingVariable` that has been made with leaves_when_asked.
        steps_to_live: rows that have not changed for more steps leave; None: none do.
        l2_threshold: rows whose l2_loss is less leave; None: none do.
    """
    if steps_to_live is None and l2_threshold is None:
        return
    table.leave = functools.partial(_leave, steps_to_live, l2_threshold)
    with contextlib.ExitStack() as stack:
        # Of an eager table's graph there is no way out, and outside it rows would leave now.
        for place in [eager.room(table)] if eager.is_on() else [table.graph.as_default(), tf.init_scope()]:
            stack.enter_context(place)
        table.leaves_before_save = table.leave(table)


def _leave(steps_to_live: Optional[int], l2_threshold: Optional[float], table: Any) -> tf.Tensor:
    """int64 []: how many rows have left; where this is called, which eagerly is at once."""
    with tf_ops.name_scope(table.table.name + "/"), tf.device(table.device):
        if steps_to_live is not None:
            rows = tf.where(table.steps.value() - table.stamps.value() > steps_to_live)[:, 0]
        else:
            rows = _small(table, l2_threshold)
        return evictions.evict(table.table_variables, rows)


def _small(table: Any, threshold: Any) -> tf.Tensor:
    """The numbers of the rows whose l2_loss is below the threshold, int64 [n], ascending."""
    values = table.value()
    count = tf.shape(values, out_type=tf.int64)[0]

    def some(first: tf.Tensor, found: tf.Tensor) -> Any:
        norms = tf.reduce_sum(tf.square(values[first:first + _ROWS_AT_ONCE]), 1) / 2
        return first + _ROWS_AT_ONCE, tf.concat([found, tf.where(norms < threshold)[:, 0] + first], 0)

    return tf.while_loop(lambda first, _: first < count, some, [tf.constant(0, tf.int64), tf.zeros([0], tf.int64)],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])], back_prop=False,
                         parallel_iterations=1)[1]
