"""A process that is told to end by a signal: all ranks finish the same step, save it, and end with code 0.

A batch system that wants its machines back sends SIGTERM some time before it kills, to one rank or to all. The place at
which all stop is agreed on by the executors (launch/ending.py), so nobody waits for it before somebody has been told. A
place is a session's number, and the global step in it.

What a run shows of the global step is from before or after its own step, as chance will have it. So with `stride`, the
most that a run has added, a rank has come to `seen + stride` at most, and by the end of the run that it is in to
`seen + 2 * stride`: no rank is beyond the largest of these when it hears it, and all will come to it.

A forked child (a data loader, a pool's worker) is no rank: it has what the process had before. multiprocessing ends its
daemonic children by SIGTERM, and waits for them.
"""
import os
import signal
import threading
import time
from typing import Any, Callable, Iterable, Tuple, Union

from sok1x import launch

# A place is one number: the session's in its upper bits.
_STEPS = 1 << 40
_WAIT_SECONDS = 0.001

Signals = Union[bool, int, Iterable[int]]


def signals_of(who: str, given: Signals) -> Tuple[int, ...]:
    """The signals that `save_on_sigterm` stands for: none, SIGTERM, or those that are given.

    Raises:
        ValueError: something else, or a signal that cannot be handled.
    """
    if isinstance(given, bool):
        return (int(signal.SIGTERM),) if given else ()
    try:
        numbers = [given] if isinstance(given, int) else list(given)
        found = tuple(sorted({int(signal.Signals(number)) for number in numbers}))
    except (TypeError, ValueError):
        found = ()
    if not found or {int(signal.SIGKILL), int(signal.SIGSTOP)} & set(found):
        raise ValueError("{}: save_on_sigterm: got {!r}, expected True (SIGTERM), False, or signals of Python's module "
                         "signal, such as signal.SIGUSR1, or a list of them (SIGKILL and SIGSTOP cannot be "
                         "handled)".format(who, given))
    return found


class _ToldToEnd:
    """This process's part. `begun`, `passed` and `over` are called by a session's hook, on the main thread."""

    def __init__(self) -> None:
        self._told = False
        self._before: Any = {}  # signal -> what handled it before
        self._sessions = self._seen = self._stride = 0
        self._forking = threading.local()  # .mask: the signals that this thread blocked before it began to fork
        os.register_at_fork(before=self._hold, after_in_parent=self._let, after_in_child=self._forked)  # for good

    def listen(self, who: str, signals: Iterable[int]) -> None:
        """Has these signals tell this process to end, from now on.

        Raises:
            ValueError: it is not the main thread that asks.
        """
        for number in signals:
            if number in self._before:
                continue
            if threading.current_thread() is not threading.main_thread():
                raise ValueError("{}: save_on_sigterm: Python handles signals on the main thread alone, and this is "
                                 "'{}': make it there".format(who, threading.current_thread().name))
            self._before[number] = signal.signal(number, self._hear)

    def begun(self, step: int) -> None:
        """A session is ready, at this global step; on all ranks alike."""
        self._sessions, self._seen, self._stride = self._sessions + 1, step, 0
        self._join()

    def passed(self, seen: int, read: Callable[[], int]) -> bool:
        """A run of the session has ended: whether it was the last.

        Args:
            seen: the global step as the run has shown it.
            read: gives the global step itself.
        """
        if not self._stride:
            seen = read()
        self._stride, self._seen = max(self._stride, seen - self._seen), max(self._seen, seen)
        world = launch.current()
        if world is None or world.size == 1:
            return self._told
        notice, coordinator = world.coordinator.notice, world.coordinator
        if not notice.asked:
            return False
        while notice.end_at is None:
            if coordinator.job_error is not None:  # the next run says so
                return False
            time.sleep(_WAIT_SECONDS)
        return bool(self._place(self._seen + 2 * self._stride) >= notice.end_at
                    and self._place(read()) >= notice.end_at)

    def over(self) -> None:
        """The session has ended, saved. Who has not been told to end is no longer to be told this way."""
        world = launch.current()
        if self._told or (world is not None and world.size > 1 and world.coordinator.notice.asked):
            return  # the process is about to end, with code 0, however often it is told
        self._restore()

    def _place(self, step: int) -> int:
        return self._sessions * _STEPS + step

    def _join(self) -> None:
        world = launch.current()
        if world is not None and world.size > 1:
            notice = world.coordinator.notice
            notice.reached = lambda: self._place(self._seen + 2 * max(self._stride, 1))
            if self._told:
                notice.give()

    def _hold(self) -> None:
        """Nothing is lost that a child is told before it has its own handlers."""
        if self._before:
            self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._before)

    def _let(self) -> None:
        mask = self._forking.__dict__.pop("mask", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _forked(self) -> None:
        self._told = False
        self._restore()
        self._let()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}

    def _hear(self, number: int, frame: Any) -> None:
        self._told = True
        world = launch.current()
        if world is not None and world.size > 1:
            world.coordinator.notice.give()


told_to_end = _ToldToEnd()
