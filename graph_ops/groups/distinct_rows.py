"""The rows of many lookups made distinct, and stamped, for their gradients (operations/distinct_rows.py says why)."""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.groups.dense_run import DenseRun
from sok1x.graph_ops.stores import clock, known_distinct

_ROWS, _REQUESTED = 1, 2  # inputs: operations/distinct_rows.py


def key(taken: Any, world: Any) -> Any:
    """Members of a group have row numbers to make distinct: those that only stamp run by themselves.

    They are of one run: it moves a table's clock on once, and each run stamps rows with a step of its own.
    """
    if world.size > 1:
        request = taken.request
        if request.length(_ROWS) or not request.length(_REQUESTED):
            return None
    return taken.config.global_step, taken.request.step


def run(members: List[Any], world: Any) -> DenseRun:
    """Makes all members' row numbers distinct. Returns its run."""
    made, size = DenseRun(members), len(members)
    request, names = members[0].request, made.team.names
    global_step = members[0].config.global_step
    ahead = np.array(clock.moves_ahead(request, names, global_step), np.int64)
    at_least, rows, counts = np.zeros((3, size), np.int64)
    left = np.empty(size, np.uint8)
    made.call("distinct", world.size == 1, ahead, at_least, rows, counts, left)
    if global_step:
        clock.tell(request, int(at_least[-1]))
    for taken, name, at, count in zip(members, names, rows.tolist(), counts.tolist()):
        if taken.config.rows_known:
            known_distinct.note_at(request, name, at, count)
    return made.leave(left)
