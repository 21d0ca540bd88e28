"""The op that tells a graph's tables its global step where a run trains none of them, or restores it
(bridge_told_step.cc)."""
import ctypes
import weakref
from typing import Any, Set

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import contexts, library, plan

_hearing: Set[str] = set()


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
    if label not in _hearing:
        _hearing.add(label)
        functions = library.functions()
        functions.hear_steps(label.encode())
        weakref.finalize(of_graph, _forget, functions, label).atexit = False


def of(request: Any) -> Any:
    """What the tables of a request's graph have been told in its session: int64 [2], the last run that trained by the
    graph's global step, and that step; None where the graph is gone."""
    of_graph = plan.get(request.plan)
    if of_graph is None:
        return None
    told = of_graph.told.get(request.session)
    if told is None:
        address = request.library.steps_of(_label(of_graph).encode(), request.session)
        told = of_graph.told[request.session] = (ctypes.c_int64 * 2).from_address(address)
    return told


def _label(of_graph: plan.Plan) -> str:
    return "{}:{}".format(plan.PROCESS, of_graph.number)


def _forget(functions: Any, label: str) -> None:
    """Called wherever Python collects garbage, so it takes no lock of Python's."""
    functions.forget_steps(label.encode())
    _hearing.discard(label)


def _end(session: int) -> None:
    for of_graph in plan.all_of():
        of_graph.told.pop(session, None)
    library.functions().end_steps(session)


contexts.on_end.append(_end)
