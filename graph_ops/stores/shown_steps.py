"""The highest step that each table of a graph has shown: who follows it may have that, whatever is restored since.

A table's own `counters` has it too, but a restore by TensorFlow alone replaces them with those of the checkpoint, and
another session of the graph, as one that recovers, has others.
"""
from typing import Any, Dict

from sok1x.graph_ops.bridge import contexts, plan, told_step
from sok1x.graph_ops.stores import clock

_foreign: Dict[int, Dict[str, int]] = {}  # session -> as `Plan.shown`, where another process has built the graph


def before_restore(store: Any, step: int) -> int:
    """The highest step until a table gets other rows, which may have come by now; 0 if it has shown none.

    Args:
      step: what its clock was at before.
    """
    shown, name = _of(store.request), store.table.name
    shown[name] = max(shown.get(name, 0), step, told_step.shown(store.request))
    return shown[name]


def note(store: Any) -> None:
    """Hears that somebody is told what a table that forgets has: who follows it has this up to its last step."""
    if "counters" in store.own:
        shown, name = _of(store.request), store.table.name
        shown[name] = max(shown.get(name, 0), clock.last_step(store))


def _of(request: Any) -> Dict[str, int]:
    of_graph = plan.get(request.plan)
    return _foreign.setdefault(request.session, {}) if of_graph is None else of_graph.shown


def _end_session(session: int) -> None:
    _foreign.pop(session, None)


contexts.on_end.append(_end_session)
