"""What an optimizer keeps for variables, made before its first step."""
import contextlib
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import newer_optimizers
from sok1x.core.tables import growing_shape


def build(optimizer: Any, variables: List[Any]) -> None:
    """Makes an optimizer's slots of variables, and what it counts steps with, as its first step would.

    Args:
        optimizer: of tf.train or tf.keras.optimizers.
        variables: what it is to train.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import building
        >>> with tf.Graph().as_default():
        ...     weights = tf.get_variable("weights", [3], use_resource=True)
        ...     optimizer = tf.train.AdagradOptimizer(0.1)
        ...     building.build(optimizer, [weights])
        ...     optimizer.get_slot(weights, "accumulator").shape.as_list()
        [3]
    """
    if newer_optimizers.is_one(optimizer):
        with tf.init_scope():
            optimizer.build(variables)
        return
    with contextlib.ExitStack() as stack:
        if eager.is_on() and any(growing_shape.grows(variable) for variable in variables):
            stack.enter_context(growing_shape.shapes_known())
        stack.enter_context(tf.init_scope())
        if isinstance(optimizer, tf.train.Optimizer):
            optimizer._create_slots(variables)
            return
        with tf.name_scope(optimizer._name):
            optimizer.iterations  # a property that makes it
            optimizer._create_hypers()
            optimizer._create_slots(variables)
