"""Which ranks of this host have ended before they joined: what nobody else tells those that wait for them in sok.Init.

Open MPI's mpiexec ends a job when a rank fails. A process that ends with code 0 before any has started MPI it takes
for a program without MPI, and MPI_Init then waits on all other ranks for ever. But mpiexec, or its daemon on another
host, is the parent of its ranks (or of the shells that they are in): those that are not among its children are gone.

Where another library has started MPI, it finalises it as the process ends, by an exception too, and MPI_Finalize waits
for all ranks before mpiexec hears of anything. So a process that ends says so by its name, which others can read.
"""
import atexit
import ctypes
import os

from .orphans import launcher_above, look

_SIZE, _LOCAL_SIZE, _RANK = "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"
# mpiexec starts its ranks one after the other: only who is missing again, so long afterwards, is gone.
LOOK_SECONDS = 3.0
_PR_SET_NAME = 15
_ENDS = "sok1x-ends"


class Siblings:
    """The processes that the launcher has started on this host.

    Args:
        environ: The environment, in which Open MPI says how many ranks there are.
    """

    def __init__(self, environ=os.environ):
        self._size, self._expected = (int(environ.get(name) or 0) for name in (_SIZE, _LOCAL_SIZE))
        self._launcher = launcher_above(os.getppid()) if self._expected > 1 else None
        self._missing_before, self._ending_before = set(), set()

    def gone(self):
        """Looks; to be called every LOOK_SECONDS.

        Returns:
            None; or, the same as in the look before, 'rank 1 ends without it', or 'rank 1 has ended before, with exit
            code 0', or, on one host of several, '2 ranks of host a have ...'.
        """
        if self._launcher is None:
            return None
        ending = {_rank_of(pid) for pid in _pids() if look(pid)[0] == _ENDS and launcher_above(pid) == self._launcher}
        again, self._ending_before = sorted((ending & self._ending_before) - {None}), ending
        if again:
            return "{} {} without it".format(_named(again), "ends" if len(again) == 1 else "end")
        return self._ended()

    def _ended(self):
        there = _children(self._launcher[0])
        if there is None or len(there) >= self._expected:
            self._missing_before = set()
            return None
        ranks = {_rank_of(pid) for pid in there}
        missing = set(range(self._size)) - ranks
        # Who ends because it has seen this is not why.
        again, self._missing_before = sorted(missing & self._missing_before), missing
        if not again:
            return None
        if self._expected == self._size and None not in ranks:
            count, who = len(again), _named(again)
        else:
            count = self._expected - len(there)
            who = "{} {} of host {}".format(count, "rank" if count == 1 else "ranks", os.uname()[1])
        return "{} {} ended before, with exit code 0".format(who, "has" if count == 1 else "have")


def _named(ranks):
    return ("rank {}" if len(ranks) == 1 else "ranks {}").format(", ".join(map(str, ranks)))


def say_ends(process):
    """Names this process, where it is the one of this number: a forked child that ends is no rank."""
    if os.getpid() == process:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_NAME, _ENDS.encode(), 0, 0, 0)
        except (AttributeError, OSError):  # not Linux
            return


if int(os.environ.get(_SIZE) or 0) > 1:
    atexit.register(say_ends, os.getpid())


def _pids():
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _children(parent):
    """The processes of a parent that have not ended; None where it is gone, or nobody can say."""
    pids = _pids()
    if parent not in pids:
        return None
    return [pid for pid in pids if _is_child(pid, parent)]


def _is_child(pid, parent):
    _, state, its_parent, _ = look(pid)
    return its_parent == parent and state not in ("Z", "X")


def _rank_of(pid):
    try:
        with open("/proc/{}/environ".format(pid), "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(_RANK.encode() + b"="):
                    return int(entry.partition(b"=")[2])
    except (OSError, ValueError):
        pass
    return None
