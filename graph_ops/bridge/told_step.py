"""The op that tells a graph's tables its global step where a run trains none of them, or restores it
(bridge_told_step.cc)."""
import ctypes
import weakref
from typing import Any, Set

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library, plan

_noted: Set[str] = set()


def tell(graph: tf.Graph, global_step: tf.Tensor, name: str = "tell_step") -> tf.Operation:
    """An op that tells the tables of a graph, if they `hear`, to be run before the global step, an integer [], moves.

    Args:
      graph: theirs; the op's own may be a function's in it.
    """
    module, label = library.load(), _label(plan.of(graph))
    with tf.device("/cpu:0"):
        return module.sok1x_tell_step(global_step=tf.cast(global_step, tf.int64), plan=label, name=name)


def hear(graph: tf.Graph) -> None:
    """From now on the tables of a graph hear of what is told: they go by its global step."""
    of_graph = plan.of(graph)
    label = _label(of_graph)
    if label not in _noted:
        _noted.add(label)
        functions = library.functions()
        functions.note_steps(label.encode(), ctypes.addressof(of_graph.step))
        weakref.finalize(of_graph, _forget, functions, label, of_graph.step).atexit = False  # which stays until then


def _label(of_graph: plan.Plan) -> str:
    return "{}:{}".format(plan.PROCESS, of_graph.number)


def _forget(functions: Any, label: str, step: Any) -> None:
    """Called wherever Python collects garbage, so it takes no lock of Python's."""
    functions.forget_steps(label.encode())
    _noted.discard(label)
