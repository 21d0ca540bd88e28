"""What each of our operations gives in an evaluation, by stock ops; sums in the order of our kernels.

Sums of bags are made as graph_ops/exchanges has them: on one rank, and by all2all, a bag's rows are added up in the
order of its keys, and by all2all those of a float16 lookup have been rounded by their owners. By reduce_scatter owners
add up the rows that they own, and these sums, rounded too, are added up in the order of ranks.
"""
from typing import Any, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import searchsorted, weighted_mean
from sok1x.serving.tables import Handles, Served, rows_of

# Of those that ask no table, how many outputs there are, if more than one.
OUTPUTS = {"unique": 2, "present_values": 4}


def dense(served: Served, handles: Handles, config: Any, inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.dense_lookup.forward`. inputs: keys of any shape, and what is for messages."""
    return tf.cast(rows_of(served, handles, _of_table(config.table, inputs[0])), config.dtype)


def combined(served: Served, handles: Handles, config: Any, inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.combined_lookup.forward`. inputs: a SparseTensor's indices or a RaggedTensor's row splits; keys;
    weights, if the config has them; and of a SparseTensor its dense_shape."""
    keys = _of_table(config.table, inputs[1])
    if config.form == "ragged":
        splits = inputs[0]
        count = tf.size(splits, out_type=tf.int64) - 1
        bags = searchsorted(splits, tf.range(tf.size(keys, out_type=tf.int64)), "right", tf.int64) - 1
    else:
        bags, count = inputs[0][:, 0], inputs[-1][0]
    rows = rows_of(served, handles, keys)
    weights: Optional[tf.Tensor] = None
    by_owner = served.ranks > 1 and config.exchange == "reduce_scatter"
    if served.ranks > 1 and not by_owner:
        rows = _as_it_travels(rows, config)
    if config.weighted:
        weights = inputs[2]
        rows = weights[:, tf.newaxis] * rows
    if by_owner:
        sums = _sums_of_owners(served, config, rows, keys, bags, count)
    else:
        # On the host it adds the rows of a bag one after the other, as our kernels do.
        sums = tf.math.unsorted_segment_sum(rows, bags, count)
    if config.combiner != "sum":
        ones = tf.ones_like(bags, tf.float32)
        keys_in = tf.math.unsorted_segment_sum(ones, bags, count)
        divisors = keys_in
        if weights is not None:
            squares = config.combiner == "sqrtn"
            divisors = tf.math.unsorted_segment_sum(weights * weights if squares else weights, bags, count)
            if squares:  # float64: see initial_rows
                divisors = tf.cast(tf.sqrt(tf.cast(divisors, tf.float64)), tf.float32)
        divisors = tf.raw_ops.Select(condition=keys_in > 0, x=divisors, y=tf.ones_like(divisors))
        sums = weighted_mean(sums, divisors[:, tf.newaxis])
    if config.slot_num is not None:
        shape = [count // config.slot_num, config.slot_num, served.dim]
        sums = tf.reshape(sums, tf.stack([tf.cast(one, tf.int64) for one in shape]))
    return tf.cast(sums, config.dtype)


def _of_table(table: Any, keys: tf.Tensor) -> tf.Tensor:
    """Keys, of which none may be beyond the table's type: as graph_ops/stores/key_types.py has it."""
    if table.key_dtype == "int64" or keys.dtype != tf.int64:
        return keys
    limits, flat = np.iinfo(table.key_dtype), tf.reshape(keys, [-1])
    beyond = tf.logical_or(flat < limits.min, flat > limits.max)
    check = tf.raw_ops.Assert(condition=tf.logical_not(tf.reduce_any(beyond)), data=[
        "embedding table '{}': got keys beyond its key_type {}, expected keys in [{}, {}]:".format(
            table.name, table.key_dtype, limits.min, limits.max), tf.boolean_mask(flat, beyond)], summarize=3)
    with tf.control_dependencies([check]):
        return tf.identity(keys)


def _sums_of_owners(served: Served, config: Any, rows: tf.Tensor, keys: tf.Tensor, bags: tf.Tensor,
                    count: tf.Tensor) -> tf.Tensor:
    """float32 [count, D]: what owners add up, added up in the order of ranks."""
    owners = config.table.placement.parts(served.ranks)
    parts = tf.math.floormod(tf.cast(keys, tf.int64), tf.constant(owners, tf.int64)) * count + bags
    partial = _as_it_travels(tf.math.unsorted_segment_sum(rows, parts, owners * count), config)
    sums, *others = tf.split(partial, owners)
    for one in others:
        sums += one
    return sums


def _as_it_travels(values: tf.Tensor, config: Any) -> tf.Tensor:
    """Float32 values as another rank has them: rounded, where embeddings are float16."""
    return values if config.dtype == "float32" else tf.cast(tf.cast(values, config.dtype), tf.float32)


def segment_sum(inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.segments.segment_sum`: data, segment ids, number of segments."""
    data, ids, count = inputs
    if data.dtype == tf.float16:
        return tf.cast(tf.math.unsorted_segment_sum(tf.cast(data, tf.float32), ids, count), tf.float16)
    return tf.math.unsorted_segment_sum(data, ids, count)


def unique(inputs: List[tf.Tensor]) -> List[tf.Tensor]:
    """`operations.segments.unique`: values [K]."""
    return list(tf.raw_ops.Unique(x=inputs[0], out_idx=tf.int32))


def present_values(inputs: List[tf.Tensor]) -> List[tf.Tensor]:
    """Sok1xPresentValues: a dense feature [B, n], and the value that says that one is missing."""
    feature, missing = inputs
    feature.set_shape([None, None])
    indices = tf.where(tf.not_equal(feature, missing))
    shape = tf.shape(feature, out_type=tf.int64)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(indices[:, 0]), indices[:, 0], shape[0])
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    return [indices, tf.gather_nd(feature, indices), shape, splits]
