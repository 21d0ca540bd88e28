"""What each of our operations gives in an evaluation, by stock ops; sums in the order of our kernels."""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x.serving.tables import Handles, Served, rows_of


def dense(served: Served, handles: Handles, config: Any, inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.dense_lookup.forward`. inputs: keys of any shape, and what is for messages."""
    return tf.cast(rows_of(served, handles, inputs[0]), config.dtype)


def combined(served: Served, handles: Handles, config: Any, inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.combined_lookup.forward`. inputs: a SparseTensor's indices or a RaggedTensor's row splits; keys;
    weights, if the config has them; and of a SparseTensor its dense_shape."""
    keys = inputs[1]
    if config.form == "ragged":
        splits = inputs[0]
        count = tf.size(splits, out_type=tf.int64) - 1
        bags = tf.searchsorted(splits, tf.range(tf.size(keys, out_type=tf.int64)), side="right",
                               out_type=tf.int64) - 1
    else:
        bags, count = inputs[0][:, 0], inputs[-1][0]
    rows = rows_of(served, handles, keys)
    weights = None
    if config.weighted:
        weights = inputs[2]
        rows = weights[:, tf.newaxis] * rows
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
        sums /= divisors[:, tf.newaxis]
    if config.slot_num is not None:
        shape = [count // config.slot_num, config.slot_num, served.dim]
        sums = tf.reshape(sums, tf.stack([tf.cast(one, tf.int64) for one in shape]))
    return tf.cast(sums, config.dtype)


def segment_sum(inputs: List[tf.Tensor]) -> tf.Tensor:
    """`operations.segments.segment_sum`: data, segment ids, number of segments."""
    data, ids, count = inputs
    if data.dtype == tf.float16:
        return tf.cast(tf.math.unsorted_segment_sum(tf.cast(data, tf.float32), ids, count), tf.float16)
    return tf.math.unsorted_segment_sum(data, ids, count)


def unique(inputs: List[tf.Tensor]) -> List[tf.Tensor]:
    """`operations.segments.unique`: values [K]."""
    return list(tf.raw_ops.Unique(x=inputs[0], out_idx=tf.int32))
