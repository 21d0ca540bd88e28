"""The rows of many lookups made distinct, and stamped, for their gradients (operations/distinct_rows.py says why)."""
import contextlib

import numpy as np

from sok1x.graph_ops.bridge.errors import CallError
from sok1x.graph_ops.groups import lane
from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.groups.lookup_run import LookupRun
from sok1x.graph_ops.stores import clock, figures, known_distinct, step_times
from sok1x.graph_ops.stores.store import request_store

_INVERSE, _ROWS, _REQUESTED = range(3)  # inputs: operations/distinct_rows.py


class Distinct(GroupForm):
    """Those of lookups by key and by bag."""

    def serves_one(self, taken, world):
        """See GroupForm.serves_one."""
        return True

    def key(self, taken, world):
        """See GroupForm.key: members have row numbers to make distinct. Those that only stamp run by themselves, as do
        those of a cache, which hears which rows change.

        They are of one run: it moves a table's clock on once, and each run stamps rows with a step of its own.
        """
        request = taken.request
        if taken.config.table.cache is not None or (
                world.size > 1 and (request.length(_ROWS) or not request.length(_REQUESTED))):
            return None
        return taken.config.global_step, request.step

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        if call.config.table.cache is not None:
            return None
        return lane.LaneOp(lane.DISTINCT, (call.config.global_step,), request, call, world)

    def run(self, members, world):
        """See GroupForm.run."""
        made, size = LookupRun(members), len(members)
        request, names = members[0].request, made.team.names
        global_step = members[0].config.global_step
        for taken in members:  # of one run; eagerly each table's rows are in flight for themselves
            step_times.begin_changing(taken.request)
        ahead = np.array(clock.moves_ahead(request, names, global_step), np.int64)
        for taken, moves in zip(members, ahead.tolist()):
            if step_times.is_due(taken.config.table.name, request):
                _note_time(taken, moves, world)
            step_times.stamps_now(taken.config.table.name, request)
        at_least, rows, counts = np.zeros((3, size), np.int64)
        left = np.empty(size, np.uint8)
        made.call("distinct", world.size == 1, ahead, at_least, rows, counts, left)
        if global_step:
            clock.tell(request, int(at_least[-1]))
        for taken, name, at, count, other in zip(members, names, rows.tolist(), counts.tolist(), left.tolist()):
            if world.size == 1 and not other:
                figures.batch(name, taken.request.length(_INVERSE), count)
            if taken.config.rows_known:
                known_distinct.note_at(request, name, at, count)
        return made.leave(left.tolist())


def _note_time(taken, ahead, world):
    """Has a member's time be noted before its rows are stamped."""
    request = taken.request
    at_least = int(request.host_inputs[-1].numpy()) + 1 if taken.config.global_step else 0
    with contextlib.suppress(CallError):  # variables that are not initialized: its operation says so
        with request_store(request, taken.config, world, exclusive=False) as store:
            step_times.before_stamps(store, ahead, at_least)
