"""Steps of optimizers that train no table, and restores: how far the global step is tables hear by them too.

What stamps a lookup's gradient knows the global step, and tells it to the tables of its graph, of which some may be
looked up alone (graph_ops/stores/clock.py). Where a step trains the dense part alone, as that of a model's other half,
nobody would, though the global step moves on: rows that lookups insert there, and keys that leave, would have the step
of a run long ago. And so it is where a `tf.train.Saver` has restored the global step, as all of ours let one do, until
a table is trained. (Of a `tf.train.Checkpoint` checkpoint/savers/graph_checkpoints.py knows.)
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables import sessions
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.stores import clock


def watch() -> None:
    """From now on such steps, and restores, of graphs that have tables tell.

    Example:
        >>> from sok1x.core.frameworks import other_steps
        >>> other_steps.watch()
    """
    wrapping.wrap(tf.train.Optimizer, "apply_gradients", _telling)
    wrapping.wrap(tf.train.Saver, "restore", _restored)


def _telling(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, global_step: Any = None, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        if global_step is None or not _is_hidden(pairs, global_step):
            return stock(self, pairs, global_step, *args, **kwargs)
        with tf.control_dependencies([clock.tell_step()]):  # before the global step moves
            return stock(self, pairs, global_step, *args, **kwargs)

    return apply_gradients


def _is_hidden(pairs: Any, global_step: Any) -> bool:
    """Whether a step moves the global step, and tables would not hear of it."""
    return (not is_eager_outside() and not tf.distribute.has_strategy() and clock.is_global_step(global_step)
            and not any(hasattr(variable, "table") for gradient, variable in pairs if gradient is not None)
            and bool(tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)))


def _restored(stock: Callable[..., Any]) -> Callable[..., Any]:
    def restore(self: Any, sess: Any, save_path: Any) -> Any:
        result = stock(self, sess, save_path)
        if hasattr(sess, "graph"):  # eagerly it is any
            clock.tell_outside(sessions.raw(sess))
        return result

    return restore
