"""SOK's scope around the optimizer of embedding variables."""
from typing import Any, Iterable, List

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import slots
from sok1x.graph_ops.bridge.tensorflow_versions import Variable, keras_autocast_variable


class OptimizerScope:
    """A block in which an optimizer is applied to embedding variables, as SOK scripts write it.

    Embedding variables are TensorFlow variables and every optimizer updates them with its own ops, so the scope is
    not needed for training. It checks that it is given variables, and has the optimizer's slots of this rank's
    shards known as such (Horovod's broadcasts leave them alone) from its first line on.

    Args:
        trainable_variables: list or tuple of the variables that the optimizer will update; those that are not
            embedding variables are TensorFlow's business and pass through.

    Raises:
        ValueError: trainable_variables is no list or tuple, or holds something that is no variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7], [9]]], tf.int64)))
        ...     variables = [layer.embedding_variable]
        ...     optimizer = tf.train.AdamOptimizer()
        ...     with sok.OptimizerScope(variables):
        ...         step = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
        >>> optimizer.get_slot_names()
        ['m', 'v']
    """

    def __init__(self, trainable_variables: Iterable[Any]) -> None:
        self._variables = checked_variables("OptimizerScope", trainable_variables)

    def __enter__(self) -> "OptimizerScope":
        if any(isinstance(variable, EmbeddingVariable) for variable in self._variables):
            slots.watch(tf.get_default_graph())
        return self

    def __exit__(self, *error: Any) -> None:
        pass


def checked_variables(who: str, variables: Any) -> List[Any]:
    """The list of variables that a user gave.

    Args:
        who: the function that asks, for the message.
        variables: what was given. Under a policy as 'mixed_float16' Keras' layers have their variables wrapped, each in
            an `AutoCastVariable`, which is no tf.Variable, but is a variable to optimizers and tf.gradients.

    Returns:
        The same variables as a list, wrapped as they are.

    Raises:
        ValueError: it is no list or tuple, or holds something that is no variable.

    Example:
        >>> from sok1x.core.context_scope import checked_variables
        >>> checked_variables("OptimizerScope", ())
        []
    """
    if not isinstance(variables, (list, tuple)):
        raise ValueError("{}: got {} of type {}, expected a list or tuple of variables".format(
            who, variables, type(variables).__name__))
    for position, variable in enumerate(variables):
        if not isinstance(variable, (Variable, keras_autocast_variable.AutoCastVariable)):
            raise ValueError("{}: got {!r} of type {} at position {}, expected a variable".format(
                who, variable, type(variable).__name__, position))
    return list(variables)
