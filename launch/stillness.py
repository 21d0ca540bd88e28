"""Whether anything still moves in this process, beside threads that only wait.

A rank that waits for others may have more to announce: a thread that computes, sleeps or reads the next batch will
bring it about. What counts as waiting: Python threads inside `session.run`, an eager call of our op or a tf.function,
at a lock or a queue; native threads that use no CPU and wait for no disk.

So does a native thread that reads over a network, by a socket or FUSE, as one that waits for nothing looks alike: what
SOK1X_DEADLOCK_SECONDS sets is also how long such a read may take where all else waits. And a Python thread that waits
for a time to come, as threading.Timer's: a program's watchdog has such a one for as long as it runs.
"""
import ctypes
import os
import sys
import threading
import time

# A thread that uses this share of a CPU moves.
_BUSY_SHARE = 0.05
# Where Python threads wait without doing anything: files, by the ends of their paths.
_WAITING = tuple(path.replace("/", os.sep) for path in (
    "/tensorflow_core/python/client/session.py", "/tensorflow/python/client/session.py",
    "/tensorflow/python/eager/execute.py",  # a tf.function's run
    "/threading.py", "/queue.py", "/selectors.py", "/socketserver.py", "/multiprocessing/pool.py",
    "/multiprocessing/connection.py", "/multiprocessing/queues.py", "/multiprocessing/synchronize.py",
    "/concurrent/futures/thread.py", "/concurrent/futures/process.py", "/concurrent/futures/_base.py"))
_EAGER_FILE, _EAGER_CALL = "<string>", "sok1x_"  # TensorFlow's wrappers of our ops, which wait in eager calls
_OURS = "sok1x-"
_SYS_GETTID = 186  # Linux on x86_64
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Stillness:
    """Compares two looks at this process. All calls come from the executor's thread."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._before = None  # (time, ticks of CPU of each native thread)

    def still(self):
        """Whether nothing has moved since the last call, which should be a quarter of a second or more ago."""
        now, threads = self._clock(), list(_native_threads())
        before, self._before = self._before, (now, {thread: ticks for thread, _, ticks in threads})
        if before is None or now - before[0] > 5.0 or self._python_moves():
            return False
        limit = max(2, _BUSY_SHARE * (now - before[0]) * _TICKS)
        # Ready to run, though others may have the CPU; or waiting for a disk; or has run.
        busy = sum(state in "RD" or ticks - before[1].get(thread, 0) > limit for thread, state, ticks in threads)
        # Horovod's own thread asks the other ranks all the time whether there is something to do.
        return busy <= ("horovod.common" in sys.modules)

    @staticmethod
    def _python_moves():
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return any(not names.get(ident, "").startswith(_OURS) and not frame.f_code.co_filename.endswith(_WAITING)
                   and not _is_eager_call(frame)
                   for ident, frame in sys._current_frames().items())


def waits_eagerly():
    """Whether this process, beside threads of ours, has one Python thread, and that waits in an eager call of our op.

    Then nothing follows until that op has run.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    others = [frame for ident, frame in sys._current_frames().items() if not names.get(ident, "").startswith(_OURS)]
    return len(others) == 1 and _is_eager_call(others[0])


def _is_eager_call(frame):
    return frame.f_code.co_filename == _EAGER_FILE and frame.f_code.co_name.startswith(_EAGER_CALL)


def _native_threads():
    """(number, state, ticks of CPU) of every thread but the calling one; nothing where there is no /proc."""
    own = str(ctypes.CDLL(None).syscall(_SYS_GETTID))
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return
    for thread in threads:
        try:
            with open("/proc/self/task/{}/stat".format(thread)) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if thread != own:
            yield thread, fields[0], int(fields[11]) + int(fields[12])
