"""How full tables are, and what memory they take."""
from typing import Any, List, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session import tables
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import given_tables
from sok1x.graph_ops.bridge.tensorflow_versions import gen_resource_variable_ops
from sok1x.graph_ops.stores import cache
from sok1x.graph_ops.stores.forgetting import ADMITTED, EVICTED, REFUSED

__all__ = ["table_stats"]


class TableStats(NamedTuple):
    """A table's shard on this rank, as scalar tensors.

    Args:
        rows_in_use: int64 [], rows that belong to keys.
        capacity: int64 [], V, the rows that the variable has now; of a table with a cache, the cache's.
        load: float32 [], rows_in_use / capacity: above 1 where not all rows fit the cache.
        device_bytes: int64 [], of all its variables in the memory of the rank's device: rows, stamps, index, and the
            slots of all optimizers.
        host_bytes: int64 [], what lies in host memory besides: of a table with a cache all rows, with their slots and
            stamps, and room for more; else 0.
        evictions: int64 [], keys that have left a table that forgets since it was initialized or restored; else 0.
        hits: int64 [], of a table with a cache, distinct keys of training lookups that were there, added up over all
            lookups since it was initialized or restored; else 0.
        misses: int64 [], likewise those that were in host memory alone; new keys are neither.
        write_backs: int64 [], likewise rows that went from the cache to host memory.
        admissions: int64 [], keys that have got rows in it since then; else 0.
        refusals: int64 [], how often since then a training lookup has refused a new key a row, by `filter_ratio` or
            `admit_after`; else 0.

    Example:
        >>> from sok1x.statistics import TableStats
        >>> TableStats(1, 2, 0.5, 64, 0).load
        0.5
    """

    rows_in_use: Any
    capacity: Any
    load: Any
    device_bytes: Any
    host_bytes: Any
    evictions: Any = 0
    hits: Any = 0
    misses: Any = 0
    write_backs: Any = 0
    admissions: Any = 0
    refusals: Any = 0


def table_stats(table: Any) -> TableStats:
    """How full a table is on this rank, and what memory it takes, as tensors for summaries.

    They read counts and shapes: no rank waits for another, and no rows are read. They say what is so at some moment of
    the run, before or after what other ops of the run do.

    Args:
        table: a layer, or an embedding variable: a `sok.Variable`, a `sok.DynamicVariable`.

    Returns:
        A `TableStats` of scalar tensors, int64 [] but for its load, float32 []. Slots count that have been made by now:
        call it when the optimizer has been applied.

    Raises:
        TypeError: it is no table of ours.
        tf.errors.FailedPreconditionError: (when run) a variable has not been initialized.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=None, embedding_vec_size=4, slot_num=1, nnz_per_slot=1, init_capacity=2)
        ...     rows = layer(tf.constant([[[7]], [[8]], [[9]]], tf.int64), training=True)
        ...     stats = sok.table_stats(layer)
        ...     _ = session.run(sok.Init(global_batch_size=3))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(rows)
        ...     session.run(stats)[:6]
        (3, 4, 0.75, 240, 0, 0)
    """
    variable = given_tables.table("sok1x.table_stats: table", table)
    with eager.at(variable), tf.name_scope("table_stats"):
        capacity = _shape(variable)[0]
        used = variable.rows_in_use()
        evicted = admitted = refused = tf.zeros([], tf.int64)
        if variable.forgetting:
            counters = variable.forgetting["counters"].value()
            evicted, admitted, refused = counters[EVICTED], counters[ADMITTED], counters[REFUSED]
        tiers = tf.zeros([cache.SIZE], tf.int64) if variable.table.cache is None else \
            variable.forgetting["tiers"].value()  # what is sliced out of a variable itself is never let go, eagerly
        load = tf.cast(used, tf.float32) / tf.maximum(tf.cast(capacity, tf.float32), 1.0)
        taken = tf.add_n([tf.reduce_prod(_shape(one)) * one.dtype.size for one in _variables(variable)])
        return TableStats(used, capacity, load, taken, tiers[cache.HOST_BYTES], evicted, tiers[cache.HITS],
                          tiers[cache.MISSES], tiers[cache.PUSHED], admitted, refused)


def _variables(variable: EmbeddingVariable) -> List[Any]:
    """All that the table has on this rank."""
    return tables.state_of(variable).variables() + [variable.steps]


def _shape(variable: Any) -> tf.Tensor:
    """int64, without reading the variable."""
    return gen_resource_variable_ops.variable_shape(variable.handle, out_type=tf.int64)
