"""The highest step that each table has shown in a session: who follows it may have that, whatever is restored since.

A table's own `counters` has it too, but a restore by TensorFlow alone replaces them with those of the checkpoint.
"""
from typing import Any, Dict, Tuple

from sok1x.graph_ops.bridge import contexts, told_step

_shown: Dict[Tuple[int, str], int] = {}  # (session, table's name) -> step


def before_restore(store: Any, step: int) -> int:
    """The highest step until a table gets other rows, which may have come by now; 0 if it has shown none.

    Args:
      step: what its clock was at before.
    """
    told = told_step.of(store.request)
    key = store.request.session, store.table.name
    _shown[key] = max(_shown.get(key, 0), step, 0 if told is None else told.shown())
    return _shown[key]


def _end_session(session: int) -> None:
    for key in [key for key in _shown if key[0] == session]:
        del _shown[key]


contexts.on_end.append(_end_session)
