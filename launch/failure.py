"""How a process ends: cleanly, or after a failure so that every rank names it, exits non-zero, and none hangs.

The job has failed once `coordinator.job_error` is set. From then on a process has `grace_seconds` (5) to end by
itself, as it does when the error comes out of session.run. After that a thread of ours prints the error and ends the
process: its main thread may sit in other code, such as a Horovod call whose peer is gone. Beneath that thread, for
code that never gives up the GIL, the kernel's alarm clock ends the process some seconds later.

The order at a normal end: main thread's atexit -> executor told to stop -> on the executor's thread
`coordinator.leaving.begin()`, poll until `coordinator.leaving.left`, `finish(world)` -> thread ends; main thread
meanwhile: `conclude(world, thread)`. MPI may be finalised before that, and the process go on: see farewell.py.
"""
import atexit
import functools
import logging
import os
import signal
import sys
import threading
import time

from . import siblings
from .exchange_watch import ExchangeWatch
from .farewell import may_finalise
from .hosts import named
from .job_failure import ANSWER_SECONDS
from .lines import print_line

# After the grace, for those that have told their user already: they wait for others to, whom the launcher kills once
# one has ended. None of the three is to end before a slow machine has let the last one say its line.
_TOLD_SECONDS = 1.0
_EXTRA_SECONDS = 1.5
_ALARM_SECONDS = 3
_FLUSH_SECONDS = 0.5
_LOOK_SECONDS = 0.5
# The launcher gives the code of the rank that ends first with one: the rank that the failure names goes first.
_AFTER_SECONDS = 0.2

_monitor = None
_uncaught = None       # text of the exception that ended the main thread
_code = 1              # with which this process ends after a failure


def install(world):
    """Begins to watch over this process; called by `start`. With one rank there is nobody to tell: does nothing."""
    global _monitor
    if world.size == 1 or _monitor is not None:
        return
    _monitor = Monitor(world)
    world.coordinator.on_job_error = _monitor.failed
    _chain_excepthook(world)
    _chain_exit()
    _monitor.start()
    if world.heartbeat is not None:
        world.heartbeat.begin()


def give_up():
    """Has this process end with code 1 when it ends: sok.Init was given up, and other ranks may never come.

    Where Horovod or mpi4py started MPI they finalise it at exit, which would wait for those ranks after all.
    """
    atexit.register(_end_without_init, os.getpid())


def _end_without_init(process):
    if os.getpid() != process:
        return  # a child of fork is not this rank, and ends no others
    logging.shutdown()
    _flush_for_a_moment()
    siblings.see_off()
    end_now()


def _end_at_exit():
    logging.shutdown()
    end_now()


def _chain_excepthook(world):
    previous, process = sys.excepthook, os.getpid()

    def hook(kind, value, trace):
        global _uncaught
        if os.getpid() != process:
            # A child of fork is not this rank.
            previous(kind, value, trace)
            return
        text = _uncaught = _text_of(value)
        try:
            previous(kind, value, trace)
        finally:
            world.coordinator.fail_job("{} failed: {}{}".format(
                named(world.rank), kind.__name__, ": " + text if text else ""))
            _let_it_be_told(world)

    sys.excepthook = hook


def _let_it_be_told(world):
    """Waits a moment until rank 0 has heard of the failure, which the executor's thread tells it: what ends with this
    process, as Horovod does at exit, would have others fail before, and they would name that."""
    until = time.monotonic() + ANSWER_SECONDS
    while not (world.coordinator.is_failure_told or world.coordinator.transport.closed) and time.monotonic() < until:
        time.sleep(0.002)


def _text_of(exception):
    try:
        return str(exception).strip()
    except Exception:
        return ""


def _chain_exit():
    """Notes the main thread's code, which nobody knows any more at exit."""
    previous = sys.exit

    @functools.wraps(previous)
    def leave(*status):
        global _code
        if threading.current_thread() is threading.main_thread() and len(status) == 1 and isinstance(status[0], int):
            _code = status[0] & 0xFF or 1  # what a parent sees of it; not 0 where the job has failed
        previous(*status)

    sys.exit = leave


class Monitor(threading.Thread):
    """Watches the executor from outside: exchanges (exchange_watch), and a failed process that does not end."""

    def __init__(self, world, clock=time.monotonic):
        super().__init__(name="sok1x-monitor", daemon=True)
        self._world, self._clock = world, clock
        self._wake = threading.Event()
        self._end_at = None
        self._finishing = False
        self._watch = ExchangeWatch(world, clock)
        self._complained = False

    def failed(self, _):
        """Starts the grace; called once when the job has failed, on any thread."""
        self._end_at = self._clock() + self._world.grace_seconds
        # Here, for the monitor's thread may never get the GIL again.
        _arm_alarm(self._world.grace_seconds + _EXTRA_SECONDS + _ALARM_SECONDS)
        self._wake.set()

    def finishing(self):
        """The executor is in `finish`: this process has told its user."""
        self._finishing = True

    def overdue(self):
        """Whether the job has failed and the grace is over; for who has told its user also the time in which others
        tell theirs: the launcher ends them when this process ends."""
        return self._end_at is not None and self._clock() >= self._end_at + (_TOLD_SECONDS if self._finishing else 0.0)

    def run(self):
        """The thread's loop."""
        while not self._wake.wait(_LOOK_SECONDS):
            self._survive(self._watch.look)
        while True:
            end_at = self._end_at + (_EXTRA_SECONDS if self._finishing else 0.0)
            left = end_at - self._clock()
            if left <= 0:
                break
            self._survive(self._watch.release)
            time.sleep(min(left, 0.1))
        if not self._finishing:
            print_line("{} (this process did not end by itself in {:g} s and is ended now)".format(
                _obituary(self._world), self._world.grace_seconds))
            time.sleep(_TOLD_SECONDS + _AFTER_SECONDS)
        end_now()

    def _survive(self, call):
        """Makes a call that must not end this thread, whose last duty is to end the process."""
        try:
            call()
        except Exception as error:  # from MPI or NCCL, when they are gone
            if not self._complained:
                self._complained = True
                print_line("sok1x: {}: the watch over exchanges failed: {!r}".format(named(self._world.rank), error))


def _obituary(world):
    return "sok1x: {}: the job has failed: {}".format(named(world.rank), world.coordinator.job_error.message)


def _arm_alarm(seconds):
    """Has the kernel end this process, unless the program uses the alarm clock itself."""
    if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.alarm(int(seconds + 0.999))


def end_now(text=None):
    """Ends this process at once with exit code 1, or that of `sys.exit`, with `text` on stderr, from any thread."""
    if text:
        print_line(text)
    _flush_for_a_moment()
    os._exit(_code)


def _flush_for_a_moment():
    # The main thread may hold the lock of a stream: not for ever.
    flusher = threading.Thread(target=_flush, daemon=True)
    try:
        flusher.start()
    except RuntimeError:  # Python 3.12 starts no thread any more as it ends
        if threading.current_thread() is threading.main_thread():
            _flush()
        return
    flusher.join(_FLUSH_SECONDS)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue


def finish(world):
    """The executor's last action, on its thread, after `coordinator.leaving.left`.

    Without a failure: waits for the other ranks to leave if MPI is ours to finalise (as MPI_Finalize would, but
    asleep and able to hear of a failure), and finalises it; otherwise only sees that our messages are gone. After a
    failure: leaves MPI alone, and waits until every rank has told its user, at most for the grace; a process that
    exits sooner has its launcher kill the others before they could.
    """
    if world.size == 1:
        if world.mpi is not None and world.mpi.ours and world.mpi.gate.open:
            world.mpi.finalize()
        return
    coordinator, transport = world.coordinator, world.coordinator.transport
    if coordinator.job_error is None and world.mpi.ours:
        while not (coordinator.leaving.all_left or coordinator.job_error or transport.closed):
            coordinator.poll()
            time.sleep(0.002)
    # Others may go on, and talk with rank 0 by way of this rank.
    while coordinator.serves and not (coordinator.leaving.all_left or coordinator.job_error or transport.closed):
        coordinator.poll()
        time.sleep(0.002)
    if coordinator.job_error is None:
        world.farewell.close()  # who has begun to finalise MPI does so
    if coordinator.job_error is None and not transport.closed:
        coordinator.part()
    if world.heartbeat is not None:
        world.heartbeat.leave()
    if coordinator.job_error is None:
        transport.flush(1.0)
        if world.gpu_communicator is not None:
            world.gpu_communicator.close()
        if world.mpi.ours and not transport.closed:
            world.communicator.close()
            transport.close()
            world.mpi.finalize()
        return
    _monitor.finishing()
    # The main thread may have ended by what followed from the failure, in Horovod say, or may have caught it.
    error = coordinator.job_error
    if error.rank != world.rank and error.message not in (_uncaught or ""):
        print_line(_obituary(world))
    coordinator.leaving.end(_uncaught is not None and not world.mpi.ours)
    limit = time.monotonic() + world.grace_seconds + _TOLD_SECONDS
    # Where MPI is not ours, a rank 0 that has left does not wait for anybody, so it does not answer either.
    unheard = coordinator.leaving.leader_left_at is not None and not world.mpi.ours
    while not (coordinator.leaving.all_ended or unheard or transport.closed) and time.monotonic() < limit:
        coordinator.poll()
        time.sleep(0.002)
    coordinator.part()
    transport.flush(0.5)
    if _uncaught is not None and may_finalise(world):
        world.farewell.close()  # what finalises MPI as Python ends does so
    if error.rank != world.rank:
        time.sleep(_AFTER_SECONDS)


def conclude(world, executor):
    """The main thread's last action at exit, once the executor has been told to stop.

    Waits for the executor's thread to end: for as long as the other ranks take, as MPI_Finalize would, but after a
    failure not beyond the grace. After a failure that is not this process's own uncaught exception, the process
    would then end with code 0: it is ended here with code 1, or the one that `sys.exit` was given; and so it is where
    it would finalise MPI as it ends, and others do not (farewell.py). What was registered with atexit before sok.Init
    ran does not run in these cases, except the flushing of streams and of logging.

    Args:
        world: The World.
        executor: The executor's threading.Thread.
    """
    while executor.is_alive() and not (_monitor is not None and _monitor.overdue()):
        executor.join(0.1)
    if world.size > 1 and world.coordinator.job_error is not None and not _ends_by_itself(world):
        _end_at_exit()


def _ends_by_itself(world):
    """Whether, after a failure, this process may end as Python does, with its uncaught exception."""
    return _uncaught is not None and (world.mpi.ours or may_finalise(world))
