"""The distinct keys of a batch."""
from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.operations import segments


@tf.autograph.experimental.do_not_convert
def unique(x: Any, name: Optional[str] = None) -> Tuple[tf.Tensor, tf.Tensor]:
    """The distinct values of a tensor, in the order in which they first appear: `tf.unique`, on CPU and GPU.

    On a GPU nothing but the number of distinct values comes to the host. As all ops of sok1x it runs after `Init`.

    Args:
        x: keys of dtype int32, int64 or uint32, shape [K]; K below 2**31.
        name: of the op.

    Returns:
        (values, index): values [U] of x's dtype, distinct, and index int32 [K], with values[index[i]] == x[i].

    Raises:
        TypeError: x is of another dtype.
        ValueError: x has another number of dimensions than one.
        tf.errors.InvalidArgumentError: the same, where it is known only when the op runs.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     values, index = sok.operations.unique(tf.constant([30, 10, 30, 20, 10], tf.int64))
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     values, index = session.run([values, index])
        >>> values.tolist(), index.tolist()
        ([30, 10, 20], [0, 1, 0, 2, 1])
    """
    x = tf.convert_to_tensor(x, name="x")
    if x.dtype.name not in segments.KEYS:
        raise TypeError("sok1x.operations.unique: got x of dtype {}, expected one of {}".format(
            x.dtype.name, ", ".join(segments.KEYS)))
    if x.shape.ndims not in (None, 1):
        raise ValueError("sok1x.operations.unique: got x of shape {}, expected one dimension".format(x.shape))
    values, index = segments.unique(x, name)
    return values, index
