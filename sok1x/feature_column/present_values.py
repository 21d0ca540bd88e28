"""Dense features without the values that say that one is missing, in one op for columns of ours.

TensorFlow's columns make a SparseTensor of a dense feature by five ops, which copy every string; with hundreds of
columns that is much of what a small step costs. Where a column of ours is resolved, one op of ours does it, which gives
row splits too: a lookup takes these in place of indices, half the bytes of which a GPU must be sent.
"""
import contextlib
from typing import Any, Iterator, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as v2
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops

OP = "Sok1xPresentValues"
_MISSING = {tf.string: "", tf.int32: -1, tf.int64: -1}  # as TensorFlow's columns have it

_ours = ThreadScope()
tf_ops.NotDifferentiable(OP)


@contextlib.contextmanager
def by_one_op() -> Iterator[None]:
    """Inside, TensorFlow's columns make SparseTensors of dense features [B, n] by our op.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import present_values
        >>> ads = tf.feature_column.categorical_column_with_identity("ad", 9)
        >>> with tf.Graph().as_default(), present_values.by_one_op():
        ...     ids = ads._transform_feature({"ad": tf.constant([[7, 3], [-1, 8]])})
        ...     ids.indices.op.type
        'Sok1xPresentValues'
    """
    wrapping.wrap(v2, "_to_sparse_input_and_drop_ignore_values", _to_sparse)
    with _ours.entered():
        yield


def _to_sparse(stock: Any) -> Any:
    def to_sparse(input_tensor: Any, ignore_value: Any = None) -> Any:
        if _ours.value is None or ignore_value is not None or not isinstance(input_tensor, tf.Tensor) or \
                input_tensor.shape.rank != 2 or input_tensor.dtype not in _MISSING:
            return stock(input_tensor, ignore_value)
        with tf.name_scope(None, "present_values"):
            missing = tf.constant(_MISSING[input_tensor.dtype], input_tensor.dtype, name="missing")
            made = library.load().sok1x_present_values(feature=input_tensor, missing=missing)
        return tf.SparseTensor(made.indices, made.values, made.dense_shape)

    return to_sparse


def row_splits(ids: tf.SparseTensor) -> Optional[tf.Tensor]:
    """Where the samples of a column's ids begin, int64 [B + 1], if our op has made their indices; else None.

    Args:
        ids: a tf.SparseTensor of a graph, or an eager one.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import present_values
        >>> with tf.Graph().as_default():
        ...     present_values.row_splits(tf.SparseTensor([[0, 0]], [7], [1, 1])) is None
        True
    """
    if tf.executing_eagerly() or ids.indices.op.type != OP:
        return None
    splits: tf.Tensor = ids.indices.op.outputs[3]
    return splits
