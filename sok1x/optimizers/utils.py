"""Telling embedding variables from the dense ones."""
from typing import Any, List, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.context_scope import checked_variables
from sok1x.core.embedding_variable import EmbeddingVariable


def split_embedding_variable_from_others(
        trainable_variables: Any) -> Tuple[List[EmbeddingVariable], List[tf.Variable]]:
    """Splits variables into those of embedding layers and the dense ones.

    Gradients of the first are complete on the rank that owns them; those of the second must still be averaged over
    the ranks, by Horovod or by `DistributedOptimizer`.

    Args:
        trainable_variables: list or tuple of variables, for instance `model.trainable_variables`.

    Returns:
        (embedding variables, other variables): two lists, each in the order given.

    Raises:
        ValueError: trainable_variables is no list or tuple, or holds something that is no variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     dense = tf.get_variable("dense", shape=[4, 1])
        ...     split = sok.split_embedding_variable_from_others(tf.trainable_variables())
        >>> split == ([layer.embedding_variable], [dense])
        True
    """
    return _split("split_embedding_variable_from_others", trainable_variables)


def filter_variables(vars: Any) -> Tuple[List[EmbeddingVariable], List[tf.Variable]]:
    """Splits variables into embedding variables and all others, under the name of SOK 2.x.

    Args:
        vars: list or tuple of variables, for instance `tf.trainable_variables()`.

    Returns:
        (embedding variables, other variables): two lists, each in the order given.

    Raises:
        ValueError: vars is no list or tuple, or holds something that is no variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     table = sok.EmbeddingVariable(rows=8, dim=4)
        ...     dense = tf.get_variable("dense", shape=[4, 1])
        ...     sok.filter_variables([dense, table]) == ([table], [dense])
        True
    """
    return _split("filter_variables", vars)


def _split(who: str, given: Any) -> Tuple[List[EmbeddingVariable], List[tf.Variable]]:
    variables = checked_variables(who, given)
    embeddings = [variable for variable in variables if isinstance(variable, EmbeddingVariable)]
    others = [variable for variable in variables if not isinstance(variable, EmbeddingVariable)]
    return embeddings, others
