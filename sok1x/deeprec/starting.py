"""Dense variables that begin with rank 0's values, after whichever initializers a script runs."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core import broadcast
from sok1x.deeprec.patches import Patches
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops, tf_variables

_PLACES = ("variables_initializer", "initializers.variables")


def watch(patches: Patches) -> None:
    """From now on `tf.global_variables_initializer` and `tf.variables_initializer` have rank 0's values on all ranks.

    Local variables are a rank's own, and so are those that hold strings or resources.

    Args:
        patches: what undoes it.
    """
    stock = tf_variables.variables_initializer

    def variables_initializer(var_list: Any, name: str = "init") -> tf.Operation:
        world = launch.current()
        if world is None or world.size == 1 or tf.executing_eagerly():
            return stock(var_list, name)
        var_list = list(var_list)
        of_all = {id(variable) for variable in tf.global_variables()}
        # By name: Keras takes what it has not initialized yet from a set, whose order each rank has its own of.
        dense = sorted((variable for variable in var_list if id(variable) in of_all
                        and variable.dtype.base_dtype not in (tf.string, tf.resource, tf.variant)),
                       key=lambda variable: str(variable.name))
        initialized = stock(var_list, name)
        with tf_ops.control_dependencies([initialized]), tf.name_scope("equal_on_all_ranks"):
            return broadcast.of_variables(dense, 0)

    variables_initializer.__doc__ = stock.__doc__
    patches.put(tf_variables, "variables_initializer", variables_initializer)
    for place in _PLACES:
        patches.put_api(place, variables_initializer)
