"""Which step of a table's clock a time was: what dumps by time are made of.

Stamps are steps (clock.py). So of each table in each session there is a log of moments: at this time no step that had
changed rows was in flight any more, and the last one had this number. Such a moment is noted before a step stamps rows,
where the last note is more than a second old, or for a quarter of a second no step that changes any table has been in
flight since the table was trained; it is then the end of the last such step, as TensorFlow tells
(bridge/bridge_pins.h). A table that others have been trained without gets a note of the first such moment after its own
last step, too. Steps in several threads may leave no such moment: then one is when all have ended that were in flight
at some time. So a time is taken for one that is earlier, if any, by a second, or by as long as steps in flight take; at
a pause by nothing. A dump may give rows that had changed before its time, and never lacks one that changed later.

Eagerly a step is what stamps rows of one table, and has ended when nobody has its gradient's row numbers any more.
What TensorFlow has made of those, joined or without repeats, is not known, and may be about to move rows: for this each
time is taken for one that is a pause earlier.

A clock may be set, back too. So what is noted is moments, by one that never goes back, and a time that somebody has
read becomes the earliest moment at which it can have been shown (bridge/bridge_shown_times.h).

The log is in this process's memory: of what was before the table was initialized or restored it knows nothing, and a
dump since then is one of all rows. Of the latest half of it every note stays; the older it gets, the fewer do.
"""
import bisect
import ctypes
from array import array
from typing import Any, Dict, NamedTuple, Optional

from sok1x.graph_ops.bridge import contexts
from sok1x.graph_ops.stores.clock_numbers import DUE, STAMPED, counted

EVERY = -1  # a step before all others
_RESOLUTION, _PAUSE = 1000000, 250000  # microseconds; the latter as kPause in bridge/bridge_pins.h
_MOST_NOTES = 8192


class _Waiting(NamedTuple):
    """A step that is the last of a moment as soon as no run up to one with this number is in flight."""

    step: int
    newest: int


class _Now(NamedTuple):
    """Of runs that change any table: the number of the newest, of the oldest in flight (0: none is), when the last
    ended; the time; when one ended last while no other was in flight; and when one did so before the last pause."""

    newest: int
    oldest: int
    ended: int
    time: int
    quiet: int = 0
    paused: int = 0


class _Log:
    """Of one table in one session. Times are moments in microseconds (bridge/bridge_clock.h)."""

    def __init__(self, began: int) -> None:
        self._began = began
        self._times, self._steps = array("q"), array("q")
        self._waiting: Optional[_Waiting] = None

    def contradicts(self, step: int) -> bool:
        """Whether the table's clock has gone back: somebody has restored it, and told nobody."""
        return bool(self._steps) and step < self._steps[-1]

    def before_step(self, now: _Now, step: int, stamped: Optional[int] = None, rested: int = 0) -> None:
        """`step` is the last before that of the run that is the newest.

        stamped: when rows were last, 0 for never. rested: a moment after that at which nothing was in flight, or 0.
        """
        if rested and stamped and stamped >= self._began:
            self._waiting = None
            self._note(rested, step)
        alone = now.oldest == now.newest
        if alone or (stamped is not None and (not stamped or stamped < now.quiet)):  # none in flight has stamped rows
            self._waiting = None
            fresh = stamped is not None and stamped < self._began
            self._note(self._began if fresh else now.ended if alone else now.quiet, step)
            return
        if self._waiting is not None and now.oldest > self._waiting.newest:
            self._note(now.time, self._waiting.step)
            self._waiting = None
        if self._waiting is None:
            self._waiting = _Waiting(step, now.newest - 1)

    def _note(self, time: int, step: int) -> None:
        self._times.append(max(time, self._times[-1] if self._times else self._began))
        self._steps.append(step)
        if len(self._times) >= _MOST_NOTES:
            for notes in (self._times, self._steps):
                del notes[1:_MOST_NOTES // 2:2]

    def step_at(self, time: int, now: _Now, step: int, stamped: int, before: int = 0, rested: int = 0) -> int:
        """The step of a time. step: of the clock now. stamped: when rows of the table were last stamped, or 0.

        before: how much earlier a run has to have ended. rested: as for `before_step`.
        """
        if time < self._began:
            return EVERY
        time = max(time - before, self._began)
        if stamped < self._began or (not now.oldest and time >= now.ended) or 0 < rested <= time:
            return step
        place = bisect.bisect_right(self._times, time)
        return self._steps[place - 1] if place else EVERY


_logs: Dict[int, Dict[str, _Log]] = {}  # session -> table's name -> log


def _end_session(session: int) -> None:
    _logs.pop(session, None)


contexts.on_end.append(_end_session)


def _now(request: Any) -> _Now:
    numbers = (ctypes.c_int64 * 6)()
    request.library.changing(numbers)
    return _Now(*numbers)


def _log(request: Any, table: str, now: int) -> _Log:
    return _logs.setdefault(request.session, {}).setdefault(table, _Log(now))


def begin(request: Any, table: str) -> None:
    """All rows of a table, by its name, are new: nothing is known of what was before."""
    _logs.get(request.session, {}).pop(table, None)
    _log(request, table, _now(request).time)
    counted(table)[DUE] = 0  # that of another session may be later


def is_due(table: str, request: Any) -> bool:
    """Whether `before_stamps` has something to note before rows of a table, by its name, are stamped."""
    now = _now(request)
    known = counted(table)
    return now.time >= known[DUE] or now.time - now.ended >= _PAUSE or known[STAMPED] < now.paused


def begin_changing(request: Any) -> None:
    """Has the request's run be known as one that changes tables. (Where it cannot be, times near it are not noted.)"""
    request.library.pin_changing(request.handle)


def stamps_now(table: str, request: Any) -> None:
    """Hears that rows of a table, by its name, are stamped; after `before_stamps`, where that has something to note."""
    counted(table)[STAMPED] = _now(request).time


def before_stamps(store: Any, ahead: int, at_least: int) -> None:
    """Hears that rows of a store's table are going to be stamped; ahead, at_least: as in cuda_kernels/stamps.cu."""
    request, name = store.request, store.table.name
    due, known = is_due(name, request), request.library.pin_changing(request.handle) == 0
    now, numbers = _now(request), counted(name)
    if not due or not known:
        return
    step = int(store.clock.read())
    log = _log(request, name, now.time)
    if log.contradicts(step):
        begin(request, name)
    elif ahead or at_least > step:
        stamped = numbers[STAMPED]
        log.before_step(now, step, stamped, request.library.quiet_after(stamped))
        numbers[DUE] = now.time + _RESOLUTION


def step_of(request: Any, table: str, time: int, step: int, eager: bool) -> int:
    """The step of a time for a table, by its name: what changed later has a greater one.

    Args:
      time: in microseconds since 1970, as the clock has shown it.
      step: its clock's now. eager: whether it is of no graph.
    """
    now, time = _now(request), request.library.moment_of(time) if time > 0 else time
    if _log(request, table, now.time).contradicts(step):
        begin(request, table)
    before = _PAUSE if eager else 0
    stamped = counted(table)[STAMPED]
    rested = request.library.quiet_after(stamped)
    return _log(request, table, now.time).step_at(time, now, step, stamped, before, rested)
