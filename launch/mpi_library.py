"""Loading, initialising and finalising MPI once in a process that Horovod and the user's mpi4py share with us.

`gate` guards every MPI call of ours. MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF; we hang one
there, whose deletion has this rank leave the others (farewell.py), waits for the gate and then shuts it. So whoever
finalises MPI (hvd.shutdown() in the middle of a program, mpi4py at its end), and from whichever thread, our executor is
never inside MPI, nor enters it, afterwards.
"""
import ctypes
import os
import threading

from .errors import FAILED_PRECONDITION, INTERNAL, LaunchError

_INSIDE_SECONDS = 5.0
_LEVELS = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")


class Gate:
    """The lock around our MPI calls, and whether MPI is still there."""

    def __init__(self):
        self._lock = threading.RLock()
        self.open = True

    def __enter__(self):
        self._lock.acquire()
        if not self.open:
            self._lock.release()
            raise LaunchError(FAILED_PRECONDITION, (
                "MPI was finalised while sok1x still needed it. If the program calls hvd.shutdown() or "
                "MPI.Finalize(), call it after the last use of sok1x."))

    def __exit__(self, *_):
        self._lock.release()

    def try_enter(self, seconds):
        """Enters if that takes no longer than `seconds` and MPI is there: True if inside, then `leave`."""
        if not self._lock.acquire(timeout=seconds):
            return False
        if not self.open:
            self._lock.release()
        return self.open

    def leave(self):
        """Ends what `try_enter` began."""
        self._lock.release()

    def shut(self):
        """Lets no more calls in; waits some seconds for one that is inside."""
        inside = self._lock.acquire(timeout=_INSIDE_SECONDS)
        self.open = False
        if inside:
            self._lock.release()


def initialized_by_others():
    """Whether somebody in this process has initialised MPI already (then it must be used), without loading it.

    Horovod brings its own link to the MPI library and need not have imported mpi4py, so the loaded libraries are
    asked.
    """
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[-1].strip() for line in maps if "libmpi" in line}
    except OSError:
        return False
    answer = ctypes.c_int(0)
    for path in sorted(paths):
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            library.MPI_Initialized(ctypes.byref(answer))
        except (OSError, AttributeError):
            continue
        if answer.value:
            return True
    return False


def load():
    """Imports mpi4py's MPI module without letting the import initialise MPI.

    Returns:
        The module `mpi4py.MPI`.

    Raises:
        LaunchError: FAILED_PRECONDITION where mpi4py is missing or does not load.
    """
    try:
        import mpi4py
        # Set only around the import: a program's own choice in mpi4py.rc stays as it was.
        chosen = mpi4py.rc.initialize
        mpi4py.rc.initialize = False
        try:
            from mpi4py import MPI
        finally:
            mpi4py.rc.initialize = chosen
    except (ImportError, RuntimeError) as error:
        raise LaunchError(FAILED_PRECONDITION, (
            "sok.Init: this job has several ranks, for which sok1x needs mpi4py, and mpi4py does not load: {}. "
            "Install it (pip install mpi4py) against the MPI library that starts the job.").format(error))
    return MPI


def initialize(MPI):
    """Initialises MPI with MPI_THREAD_MULTIPLE where nobody has, and checks the level where somebody has.

    The call goes through ctypes, which gives up the GIL: MPI_Init returns only when every rank has called it, and
    mpi4py's own call would stop all Python threads until then.

    Args:
        MPI: The module that `load` returned.

    Returns:
        True where this call initialised MPI, so that it is ours to finalise.

    Raises:
        LaunchError: FAILED_PRECONDITION where MPI is finalised already or lacks MPI_THREAD_MULTIPLE.
    """
    _refuse_finalized(MPI)
    ours = not MPI.Is_initialized()
    if ours:
        library = ctypes.CDLL(MPI.__file__)
        provided = ctypes.c_int(0)
        code = library.MPI_Init_thread(None, None, ctypes.c_int(MPI.THREAD_MULTIPLE), ctypes.byref(provided))
        if code != 0:  # its own words are on stderr; as a rule it ends the process
            raise LaunchError(INTERNAL, "sok.Init: MPI_Init_thread failed with code {}".format(code))
    level = MPI.Query_thread()
    if level < MPI.THREAD_MULTIPLE:
        raise LaunchError(FAILED_PRECONDITION, (
            "sok.Init: sok1x calls MPI from a thread of its own and needs MPI_THREAD_MULTIPLE; {} with "
            "MPI_THREAD_{}. {}").format(
                "the MPI library provides no more" if ours else "MPI was initialised before sok.Init",
                thread_level(MPI),
                "Use an MPI library that was built with thread support." if ours else
                "Unset HOROVOD_MPI_THREADS_DISABLE, leave mpi4py.rc.thread_level at 'multiple', or run sok.Init "
                "first."))
    return ours


def ranks_of_others():
    """How many ranks there are in the world that somebody in this process has initialised MPI for.

    Raises:
        LaunchError: FAILED_PRECONDITION where MPI is finalised already, and nobody can say.
    """
    MPI = load()
    _refuse_finalized(MPI)
    return MPI.COMM_WORLD.Get_size()


def _refuse_finalized(MPI):
    if MPI.Is_finalized():
        raise LaunchError(FAILED_PRECONDITION, (
            "sok.Init: MPI is finalised already in this process and cannot be started again; run sok.Init, or call "
            "sok.init, before hvd.shutdown() or MPI.Finalize()."))


def thread_level(MPI):
    """The thread level in use as a word: SINGLE, FUNNELED, SERIALIZED or MULTIPLE."""
    levels = (MPI.THREAD_SINGLE, MPI.THREAD_FUNNELED, MPI.THREAD_SERIALIZED, MPI.THREAD_MULTIPLE)
    return _LEVELS[levels.index(MPI.Query_thread())]


def before_finalize(MPI, call):
    """Has `call` (function of nothing) called as the first thing that MPI_Finalize does, whoever calls that.

    Returns:
        The attribute's key, which must be kept for as long as MPI runs.
    """
    key = MPI.Comm.Create_keyval(delete_fn=lambda comm, key, value: call())
    MPI.COMM_SELF.Set_attr(key, call)
    return key
