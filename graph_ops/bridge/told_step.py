"""The op that tells a graph's tables its global step where a run trains none of them, or restores it
(bridge_told_step.cc)."""
import contextlib
import ctypes
import weakref
from typing import Any, Iterator, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import contexts, library, plan

_hearing: Set[str] = set()
_runs: Any = weakref.WeakKeyDictionary()  # graph -> the name of the op there that says a run's session and number


class Told:
    """What the tables of a graph have been told in a session (told_step.h)."""

    def __init__(self, functions: Any, address: int) -> None:
        self.address = address
        self._functions = functions
        self._values = (ctypes.c_int64 * 2)()
        self._set, self._before_set = self.get(), 0  # what was there before anybody asked has been set

    def get(self) -> Tuple[int, int]:
        """(the last run that trained by the graph's global step, that step)."""
        self._functions.told_step(self.address, self._values)
        return self._values[0], self._values[1]

    def shown(self) -> int:
        """The highest step that runs have told, or restores but for the last one."""
        now = self.get()
        return self._before_set if now == self._set else max(self._before_set, now[1])

    def note_set(self, before: Tuple[int, int]) -> None:
        """What `get` returns now has been set in no step; before: what it returned until then."""
        self._set, self._before_set = self.get(), max(self._before_set, before[1])

    def set(self, run: int, step: int) -> None:
        """As `get` returns it from now on."""
        self._functions.tell_step(self.address, run, step)


def tell(graph: tf.Graph, global_step: tf.Tensor, name: str = "tell_step") -> tf.Operation:
    """An op that tells the tables of a graph, if they `hear`, to be run before the global step, an integer [], moves.

    Args:
      graph: theirs; the op's own may be a function's in it.
    """
    module, label = library.load(), _label(plan.of(graph))
    outside = [] if tf.get_default_graph() is graph else [_run(graph, module)]
    with tf.device("/cpu:0"):
        step = tf.cast(global_step, tf.int64)
        return module.sok1x_tell_step(global_step=step, outside=outside, plan=label, name=name)


def _run(graph: tf.Graph, module: Any) -> tf.Tensor:
    """int64 [2], of `graph`, what its functions are to be given, which know neither the session nor the run."""
    if graph not in _runs:
        with graph.as_default(), tf.control_dependencies(None), tf.device("/cpu:0"):
            _runs[graph] = module.sok1x_this_run(name="this_run").name
    return graph.get_tensor_by_name(_runs[graph])


@contextlib.contextmanager
def set_outside(graph: tf.Graph, step: int) -> Iterator[None]:
    """Inside, the tables of a graph are told in a session that its global step, set in no step, is `step`."""
    before = [(told, told.get()) for told in list(plan.of(graph).told.values())]
    yield
    for told, then in before:
        now = told.get()
        if now != then and now[1] == step:  # in this session: runs of others may have told theirs another meanwhile
            told.note_set(then)


def hear(graph: tf.Graph) -> None:
    """From now on the tables of a graph hear of what is told: they go by its global step."""
    of_graph = plan.of(graph)
    label = _label(of_graph)
    if label not in _hearing:
        _hearing.add(label)
        functions = library.functions()
        functions.hear_steps(label.encode())
        weakref.finalize(of_graph, _forget, functions, label).atexit = False


def of(request: Any) -> Optional[Told]:
    """What the tables of a request's graph have been told in its session; None where the graph is gone."""
    of_graph = plan.get(request.plan)
    if of_graph is None:
        return None
    told = of_graph.told.get(request.session)
    if told is None:
        address = request.library.steps_of(_label(of_graph).encode(), request.session)
        told = of_graph.told[request.session] = Told(request.library, address)
    return told


def shown(request: Any) -> int:
    """The highest step that runs of a request's graph have told, in any session; 0 where the graph is gone."""
    told, of_graph = of(request), plan.get(request.plan)
    if told is None or of_graph is None:
        return 0
    return max([of_graph.once_told] + [one.shown() for one in list(of_graph.told.values())])


def _label(of_graph: plan.Plan) -> str:
    return "{}:{}".format(plan.PROCESS, of_graph.number)


def _forget(functions: Any, label: str) -> None:
    """Called wherever Python collects garbage, so it takes no lock of Python's."""
    functions.forget_steps(label.encode())
    _hearing.discard(label)


def _end(session: int) -> None:
    for of_graph in plan.all_of():
        told = of_graph.told.pop(session, None)
        if told is not None:
            of_graph.once_told = max(of_graph.once_told, told.shown())
    library.functions().end_steps(session)


contexts.on_end.append(_end)
