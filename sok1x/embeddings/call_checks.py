"""Checks of what a layer is called with, at graph construction."""
from typing import Any, Optional, Union

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import keras3
from sok1x.core.options.arguments import KEY_DTYPES
from sok1x.embeddings import learning_phase
from sok1x.graph_ops.bridge.tensorflow_versions import Variable


def keys(layer: Any, values: tf.Tensor) -> None:
    """Checks the dtype of a layer's keys.

    Args:
        layer: an embedding layer.
        values: the tensor of keys.

    Raises:
        TypeError: they are not of the layer's key_dtype, and not int32 or uint32 for int64 keys either.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.embeddings import call_checks
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     call_checks.keys(layer, tf.constant([[[7], [9]]], tf.int32))
    """
    got, expected = values.dtype.base_dtype, layer.key_dtype
    if got == expected or (expected == tf.int64 and got in (tf.int32, tf.uint32)):
        return
    widened = " (int32 and uint32 are widened)" if expected == tf.int64 else ""
    remake = ", or make the layer with key_dtype='{}'".format(got.name) if got.name in KEY_DTYPES else ""
    raise TypeError("{}: got keys of dtype {}, expected {}{}; cast the keys with tf.cast{}".format(
        layer.label, got.name, expected.name, widened, remake))


def dense(layer: Any, values: Any, shape: Any) -> tf.Tensor:
    """A dense layer's input, checked.

    Args:
        layer: an embedding layer.
        values: what the layer was called with.
        shape: the shape expected, None for any length.

    Returns:
        The tensor of keys, with its static shape completed.

    Raises:
        TypeError: it is no dense tensor, or of another dtype.
        ValueError: its static shape does not fit.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.embeddings import call_checks
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     call_checks.dense(layer, tf.placeholder(tf.int64), [None, 2, 1]).shape.as_list()
        [None, 2, 1]
    """
    if isinstance(values, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError("{}: got a {}, expected a dense tf.Tensor of keys {}; use sok1x.DistributedEmbedding for keys "
                        "that vary in number".format(layer.label, type(values).__name__, _written(shape)))
    if isinstance(values, (np.ndarray, Variable)):
        values = tf.convert_to_tensor(values)
    if not isinstance(values, tf.Tensor):
        raise TypeError("{}: got {!r} of type {}, expected a tf.Tensor of keys {}{}".format(
            layer.label, values, type(values).__name__, _written(shape), keras3.hint(values)))
    keys(layer, values)
    if not values.shape.is_compatible_with(shape):
        raise ValueError("{}: got keys of shape {}, expected {}; reshape the keys with tf.reshape{}".format(
            layer.label, values.shape, _written(shape),
            ", or change slot_num or nnz_per_slot" if len(shape) == 3 else ", or set dynamic_input=False"))
    if tf.TensorShape(shape).merge_with(values.shape).as_list() == _as_list(values.shape):
        return values
    return tf.ensure_shape(values, shape)  # known only when it runs: checked then


def sparse(layer: Any, values: Any, slot_num: int, max_nnz: int) -> tf.SparseTensor:
    """A sparse layer's input, checked.

    Args:
        layer: an embedding layer.
        values: what the layer was called with.
        slot_num: S.
        max_nnz: the most keys a slot.

    Returns:
        The tf.SparseTensor of keys, of dense_shape [B * S, max_nnz].

    Raises:
        TypeError: it is no tf.SparseTensor, or of another dtype.
        ValueError: its static shape does not fit.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.embeddings import call_checks
        >>> with tf.Graph().as_default():
        ...     layer = sok.DistributedEmbedding(
        ...         combiner="sum", max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, max_nnz=3)
        ...     given = tf.SparseTensor(indices=[[0, 0]], values=tf.constant([7], tf.int64), dense_shape=[2, 3])
        ...     call_checks.sparse(layer, given, slot_num=2, max_nnz=3) is given
        True
    """
    if not isinstance(values, tf.SparseTensor):
        raise TypeError("{}: got {!r} of type {}, expected a tf.SparseTensor of keys, dense_shape [B * {}, {}]; make "
                        "one with tf.SparseTensor or tf.RaggedTensor.to_sparse, or use sok1x.All2AllDenseEmbedding "
                        "for dense keys{}".format(layer.label, values, type(values).__name__, slot_num, max_nnz,
                                                  keras3.hint(values)))
    keys(layer, values.values)
    shape = values.shape
    if shape.rank not in (None, 2) or values.indices.shape[1:].as_list() not in ([2], [None]):
        raise ValueError("{}: got a tf.SparseTensor of rank {}, expected rank 2, dense_shape [B * {}, {}]; join "
                         "sample and slot with tf.sparse.reshape".format(
                             layer.label, shape.rank, slot_num, max_nnz))
    rows, width = (None, None) if shape.rank is None else shape.as_list()
    if rows is not None and rows % slot_num:
        raise ValueError("{}: got dense_shape {}, expected its first number to be a multiple of slot_num {}: one row "
                         "for each slot of each sample".format(layer.label, shape, slot_num))
    if width is not None and width > max_nnz:
        raise ValueError("{}: got dense_shape {}, expected at most max_nnz {} as its second number; raise max_nnz"
                         .format(layer.label, shape, max_nnz))
    return values


def training(layer: Any, flag: Any, inputs: Any) -> Union[bool, tf.Tensor]:
    """Whether a call is for training, from all that Keras and users pass.

    Args:
        layer: an embedding layer.
        flag: a Python or NumPy bool, 0 or 1, a scalar tensor (Keras' learning phase is one), or None: see
            `learning_phase.untold`.
        inputs: what the layer is called with.

    Returns:
        A Python bool or a scalar bool tensor.

    Raises:
        TypeError: it is something else.
        ValueError: the tensor is no scalar.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import call_checks
        >>> with tf.Graph().as_default():
        ...     keys = tf.placeholder(tf.int64, [None, 2, 1])
        ...     call_checks.training(None, 0, keys), call_checks.training(None, None, keys)
        (False, True)
    """
    return learning_phase.untold(inputs) if flag is None else told(layer.label, flag)


def told(label: str, flag: Any) -> Union[bool, tf.Tensor]:
    """Whether a call is for training that has been told so, or not.

    Args:
        label: whose call it is, for messages.
        flag: as for `training`, but for None.

    Returns:
        A Python bool or a scalar bool tensor.

    Raises:
        TypeError: it is something else.
        ValueError: the tensor is no scalar.

    Example:
        >>> from sok1x.embeddings import call_checks
        >>> call_checks.told("sok1x.lookup_sparse", 0)
        False
    """
    if isinstance(flag, (bool, np.bool_)) or (isinstance(flag, (int, np.integer)) and flag in (0, 1)):
        return bool(flag)
    if isinstance(flag, Variable):
        flag = tf.convert_to_tensor(flag)
    if not isinstance(flag, tf.Tensor) or not (flag.dtype.is_bool or flag.dtype.is_integer):
        raise TypeError("{}: training: got {!r} of type {}, expected True, False or a scalar bool tensor".format(
            label, flag, type(flag).__name__))
    if flag.shape.rank not in (None, 0):
        raise ValueError("{}: training: got a tensor of shape {}, expected a scalar".format(label, flag.shape))
    return flag if flag.dtype.is_bool else tf.cast(flag, tf.bool)


def graph(layer: Any) -> None:
    """Checks that a layer is called in the graph that holds its variables.

    Args:
        layer: an embedding layer.

    Raises:
        ValueError: it is another graph, or the body of a function.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.embeddings import call_checks
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     call_checks.graph(layer)
    """
    keras3.warn_within(layer.label)
    current, home = tf.get_default_graph(), layer.embedding_variable.graph
    if current is home or (eager.is_on() and home is eager.graph()):
        return
    if current.building_function:
        raise ValueError("{}: got a call inside a tf.function, a tf.data function or another function body, expected "
                         "one in the graph itself, where all ranks can agree on the order of exchanges; move the call "
                         "out of the function (with control flow v2 a branch of tf.cond and a tf.while_loop are such: "
                         "tf.compat.v1.disable_control_flow_v2() avoids that)".format(layer.label))
    raise ValueError("{}: got a call in another tf.Graph than the one in which the layer was made, expected the same; "
                     "make the layer under the same `with graph.as_default():` as its calls (a table's name is the "
                     "same in both graphs, so tf.train.Saver carries its state over)".format(layer.label))


def _as_list(shape: tf.TensorShape) -> Optional[list]:
    return None if shape.rank is None else shape.as_list()


def _written(shape: Any) -> str:
    if len(shape) == 1:
        return "[K]"
    return "[B, {}]".format(", ".join(map(str, shape[1:])))
