"""A process that is told to end by a signal: all ranks finish the same step, save it, and end with code 0.

A batch system that wants its machines back sends SIGTERM some time before it kills, to one rank or to all. The place at
which all stop is agreed on by the executors (launch/ending.py), so nobody waits for it before somebody has been told. A
place is a session's number, and the global step in it.

What a run shows of the global step is from before or after its own step, as chance will have it. So with `stride`, the
most that a run has added, a rank has come to `seen + stride` at most, and by the end of the run that it is in to
`seen + 2 * stride`: no rank is beyond the largest of these when it hears it, and all will come to it.

A forked child (a data loader, a pool's worker) is no rank: it has what the process had before. multiprocessing ends its
daemonic children by SIGTERM, and waits for them.

A handler that the program sets meanwhile stays, then and in children. It may call ours, as the one before it.
"""
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Iterable, Sequence, Tuple, Union

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
    """This process's part. `begun`, `passed` and `over` are called by a session's hook, on any thread."""

    def __init__(self) -> None:
        self._told = False
        self._over = False  # who has not been told by now is told as before
        # signal -> what handled it before: first before us at all, then before each time that we were set over a
        # handler which may call us, as the one before it
        self._before: Any = {}
        self._sessions = self._seen = self._stride = 0
        self._forking = threading.local()  # .mask: the signals that this thread blocked before it began to fork
        os.register_at_fork(before=self._hold, after_in_parent=self._let, after_in_child=self._forked)  # for good

    def listen(self, who: str, signals: Sequence[int]) -> None:
        """Has these signals tell this process to end, from now on.

        Raises:
            ValueError: it is not the main thread that asks.
        """
        if self._over and _is_main_thread():
            self._restore()  # what a session in another thread has left
        wanted = [number for number in signals
                  if number not in self._before or self._over and not self._handles(number)]
        if wanted and not _is_main_thread():
            raise ValueError("{}: save_on_sigterm: Python handles signals on the main thread alone, and this is "
                             "'{}': make it there".format(who, threading.current_thread().name))
        if signals:
            self._over = False
        for number in wanted:
            self._before.setdefault(number, []).append(signal.signal(number, self._hear))

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
        if world is not None and world.size > 1 and world.coordinator.notice.asked:
            return  # the process is about to end, with code 0, however often it is told
        self._over = True
        if not self._told and _is_main_thread():
            self._restore()  # Python refuses that on another thread: from there ours stays, and hands on

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
        self._told, self._over = False, True
        self._restore()
        self._let()

    def _handles(self, number: int) -> bool:
        """Whether a signal comes to `_hear` first."""
        return signal.getsignal(number) == self._hear

    def _restore(self) -> None:
        for number in list(self._before):
            if self._handles(number):  # else the handler is the program's own, which may call ours
                signal.signal(number, self._before[number][-1] or signal.SIG_DFL)
                self._before[number].pop()  # not before: ours may be called until then
                if not self._before[number]:
                    del self._before[number]

    def _hear(self, number: int, frame: Any) -> None:
        if self._over and not self._told:
            self._hand_on(number, frame)
            return
        self._told = True
        world = launch.current()
        if world is not None and world.size > 1:
            world.coordinator.notice.give()

    def _hand_on(self, number: int, frame: Any) -> None:
        """A signal does what it did before."""
        before = self._before.get(number, [])
        before = before[:len(before) - self._deep(number, frame)]
        handler = before[-1] if before else signal.SIG_DFL
        if callable(handler):
            handler(number, frame)
        elif handler != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _deep(self, number: int, frame: Any) -> int:
        """How many of the handlers before are being called for this signal, each by the one above, which hands `frame`
        on: the stack tells. Those below `frame` are being called for another, in the midst of which this one has come.
        """
        one: Any = sys._getframe(2)  # `_hear`
        found = 0
        while one is not None and one is not frame:
            if one.f_code is _HEAR and one.f_locals["frame"] is one.f_back:
                break  # it is Python that calls it; a handler may hand on no frame
            found += one.f_code is _HAND_ON and one.f_locals["number"] == number
            one = one.f_back
        return found


_HEAR, _HAND_ON = _ToldToEnd._hear.__code__, _ToldToEnd._hand_on.__code__


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


told_to_end = _ToldToEnd()
