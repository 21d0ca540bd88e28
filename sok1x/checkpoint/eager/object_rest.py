"""What an eager program has besides tables, from an eager program's checkpoint: by who refers to what.

TensorFlow restores what is there of it, and finds that a variable does not fit when others have changed.
"""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.eager import graph_rest
from sok1x.checkpoint.errors import MismatchError
from sok1x.core.tables.shard_variable import ShardVariable


def check(prefix: str, whole: Any) -> None:
    """Raises MismatchError where a variable has another shape or dtype than what was saved of it.

    Args:
        prefix: of TensorFlow's files.
        whole: the `tf.train.Checkpoint` that is to be restored.
    """
    reader, view = tf.train.NewCheckpointReader(prefix), tf.compat.v2.train.CheckpointView(prefix)
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    for node, variable in view.match(whole).items():
        if not isinstance(variable, tf.compat.v2.Variable) or isinstance(variable, ShardVariable):
            continue
        for saved in view._object_graph_proto.nodes[node].attributes:
            key, dtype = saved.checkpoint_key, variable.dtype.base_dtype
            shape = tf.TensorShape(shapes.get(key))
            if not shape.is_compatible_with(variable.shape) or dtypes.get(key, dtype) != dtype:
                raise MismatchError((
                    "{} has {} {} for '{}', which is {} {} in the tf.train.Checkpoint; nothing has changed. Build the "
                    "model that was saved, or leave this out of the tf.train.Checkpoint.").format(
                        prefix, dtypes[key].name, shape, variable.name.split(":")[0], dtype.name, variable.shape))


def warn_of_lacking(prefix: str, status: Any, variables: List[Any]) -> None:
    """Names the variables of which nothing was saved.

    Args:
        prefix: of TensorFlow's files.
        status: what TensorFlow has given for the restored `tf.train.Checkpoint`.
        variables: those that there are.
    """
    restored = {id(one) for one in status._checkpoint.object_by_proto_id.values()}
    lacking = [one.name.split(":")[0] for one in variables if id(one) not in restored]
    if lacking and launch.current().rank == 0:
        tf.logging.warning(
            "%s has nothing for these variables of the tf.train.Checkpoint, which keep the values that they have: %s. "
            "What was saved is found by the names of attributes, and of tf.train.Checkpoint's arguments, that lead to "
            "it.", prefix, graph_rest.some(lacking))
