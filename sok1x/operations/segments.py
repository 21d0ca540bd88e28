"""Sums by segment."""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.operations import segments


@tf.autograph.experimental.do_not_convert
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: Optional[str] = None) -> tf.Tensor:
    """Sums the rows of `data` that have the same segment id: `tf.math.unsorted_segment_sum`, on CPU and GPU.

    out[s] is the sum of data[i] over all i with segment_ids[i] == s, zeros where there is none. float16 is summed in
    float32 and rounded once. On a CPU terms are added in their order, whatever the number of threads; on a GPU in any
    order, or in theirs with SOK1X_DETERMINISTIC=1. It has a gradient (and that one too): data[i]'s is out's row
    segment_ids[i], zeros for a negative id.

    An id that is too large is an error on a GPU as on a CPU; TensorFlow's op there leaves such rows out without a
    word. The check costs a GPU next to nothing: the sum is enqueued behind it before its answer is waited for.

    Args:
        data: float16, float32 or float64 of shape [..., *inner], which begins with the shape of segment_ids.
        segment_ids: int32 or int64 of any shape, each below num_segments. Rows with a negative one are left out.
        num_segments: a number below 2**31, or a scalar tensor of int32 or int64 with shape [].
        name: of the op.

    Returns:
        The sums, of data's dtype, shape [num_segments, *inner].

    Raises:
        TypeError: a dtype that is not listed above.
        ValueError: shapes that do not fit, or a negative num_segments.
        tf.errors.InvalidArgumentError: the same, where it is known only when the op runs, or an id is too large.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     data = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
        ...     sums = sok.operations.unsorted_segment_sum(data, tf.constant([1, 0, 1, -1]), 3)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     session.run(sums).tolist()
        [[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]]
    """
    data = tf.convert_to_tensor(data, name="data")
    segment_ids = tf.convert_to_tensor(segment_ids, name="segment_ids")
    for what, tensor, dtypes in (("data", data, segments.TERMS), ("segment_ids", segment_ids, segments.IDS)):
        if tensor.dtype.name not in dtypes:
            raise TypeError("sok1x.operations.unsorted_segment_sum: got {} of dtype {}, expected one of {}".format(
                what, tensor.dtype.name, ", ".join(dtypes)))
    count = _number(num_segments)
    rank = segment_ids.shape.ndims
    if rank is not None and data.shape.ndims is not None and not (
            data.shape.ndims >= rank and data.shape[:rank].is_compatible_with(segment_ids.shape)):
        raise ValueError(
            "sok1x.operations.unsorted_segment_sum: got data of shape {} and segment_ids of shape {}, expected data's "
            "shape to begin with that of segment_ids".format(data.shape, segment_ids.shape))
    return segments.unsorted_segment_sum(data, segment_ids, count, name=name)


def _number(num_segments: Any) -> tf.Tensor:
    count = tf.convert_to_tensor(num_segments, name="num_segments")
    if count.dtype not in (tf.int32, tf.int64):
        raise TypeError("sok1x.operations.unsorted_segment_sum: got num_segments of dtype {}, expected int32 or "
                        "int64".format(count.dtype.name))
    if count.shape.ndims not in (None, 0):
        raise ValueError("sok1x.operations.unsorted_segment_sum: got num_segments of shape {}, expected a "
                         "scalar".format(count.shape))
    known = tf.get_static_value(count)
    if known is not None and known < 0:
        raise ValueError("sok1x.operations.unsorted_segment_sum: got num_segments {}, expected 0 or more".format(known))
    return count
