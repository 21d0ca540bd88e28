"""Whether keys that come with a table's rows, as Keras' set_weights gives them, are of the rank that gets them."""
from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend


def expect_own(table: Any, given: Dict[int, Any]) -> None:
    """Looks at what is to be assigned to a table and what lies beside its rows, before it is.

    A lookup asks for a key on the rank to which it belongs: in the shard of another its row would be there, and be
    found by nobody. Of other ranks' keys a shard has those alone to which tf.nn.embedding_lookup has given rows there;
    they may come back.

    Args:
        table: the table's variable, with an index.
        given: {id(variable): value}.

    Raises:
        ValueError: keys that belong to other ranks, and have no rows here now.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import given_keys
        >>> with tf.Graph().as_default():
        ...     given_keys.expect_own(sok.DynamicVariable(2), {})  # no keys are given
    """
    world, index = launch.current(), table.index[0]
    if world is None or world.size == 1 or id(index) not in given:
        return
    keys = _keys(given[id(index)])
    foreign = keys[table.table.placement.owners(keys, world.size) != world.rank]
    if len(foreign) == 0:
        return
    now = index.numpy() if tf.executing_eagerly() else keras_backend.get_session().run(index)
    strange = np.setdiff1d(foreign, _keys(now))
    if len(strange):
        raise ValueError((
            "set_weights: table '{}': got {} keys of which {} belong to other ranks, as {}, on {}: expected what "
            "get_weights has given on this rank of {}. For another number of ranks save by "
            "sok.CheckpointManager").format(
                table.table.name, len(keys), len(strange), strange[0], launch.named(world.rank), world.size))


def _keys(index: Any) -> np.ndarray:
    """Keys, int64 [n], of an index, int64 [slots, 2] of keys and rows: where there is none the row is negative."""
    pairs = np.asarray(index).reshape(-1, 2)
    return pairs[pairs[:, 1] >= 0, 0]
