"""A table's figures as a summary in the graph."""
from typing import Any, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import table_figures
from sok1x.core.eagerly import eager


def summary(layer: Any, collections: Optional[Sequence[str]] = None) -> tf.Tensor:
    """How a table does on this rank, for TensorBoard; as `tf.summary.scalar`, but several values at once.

    It says what `sok.SummaryHook` does, of this rank alone, and waits for no other: rows_in_use, share_of_capacity,
    distinct_share, and, for each step since it was run last, new_keys, evictions, sent_bytes, received_bytes,
    waiting_ms, cache_hits and cache_misses, which the first run, and another in the same step, leave out. A step is one
    of the graph's global step where there is one when this is called, else a run of this summary. A warning is logged,
    once each, when a table of fixed size is 80 % and 95 % full.

    Args:
        layer: a layer, or an embedding variable: a `sok.Variable`, a `sok.DynamicVariable`.
        collections: graph collections that it is added to; None: `tf.GraphKeys.SUMMARIES`, so that
            `tf.summary.merge_all` has it.

    Returns:
        A serialized `tf.Summary`, a scalar string tensor. Tags are 'TABLE/rows_in_use' and so on.

    Raises:
        TypeError: it is no table of ours.
        RuntimeError: eagerly, where no op is run later: `tf.summary.scalar` writes what `sok.table_stats` gives.
        tf.errors.FailedPreconditionError: (when run) a variable has not been initialized.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1, name="ads")
        ...     rows = layer(tf.constant([[[7]], [[8]]], tf.int64), training=True)
        ...     made = sok.summary(layer)
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(rows)
        ...     found = tf.Summary.FromString(session.run(made))
        >>> {value.tag: value.simple_value for value in found.value}["ads/EmbeddingVariable/share_of_capacity"]
        0.25
    """
    table = table_figures.given("sok1x.summary: layer", layer)
    if eager.is_on():
        raise RuntimeError("sok1x.summary makes an op in a tf.Graph: got eager execution, expected a graph; write what "
                           "sok1x.table_stats(table) gives by tf.summary.scalar, as for '{}/rows_in_use'".format(
                               table.name))
    reader = _Reader(table)
    with table.variable.graph.as_default(), tf.name_scope("table_summary"), tf.device("/device:CPU:0"):
        step = tf.train.get_global_step(table.variable.graph)
        number = tf.constant(-1, tf.int64) if step is None else tf.cast(tf.identity(step), tf.int64)
        made = tf.py_func(reader.read, [table_figures.of_rank(table), number], tf.string, stateful=True)
        made.set_shape([])
    for collection in [tf.GraphKeys.SUMMARIES] if collections is None else collections:
        tf.add_to_collection(collection, made)
    return made


class _Reader:
    """Remembers what a summary has said last. table: the table."""

    def __init__(self, table: table_figures.Given) -> None:
        self._table, self._fullness = table, table_figures.Fullness()
        self._last: List[Any] = []

    def read(self, now: np.ndarray, step: int) -> bytes:
        """now: float64 [len(ALL)]; step: the global step, -1 where there is none."""
        now = now[np.newaxis]
        last, before = self._last or (np.zeros_like(now), step)
        # At first nobody knows how many steps have made what there is: it may have been restored.
        steps = step - before if step >= 0 else int(bool(self._last))
        if steps or not self._last:  # else the next one is to say what this one has not
            self._last = [now, int(step)]
        self._fullness.look_at_all(self._table, now)
        has_cache = self._table.variable.table.cache is not None
        found = table_figures.scalars(now, last, steps, has_cache)
        return bytes(table_figures.summary_of({self._table.name: found}).SerializeToString())
