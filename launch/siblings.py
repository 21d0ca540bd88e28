"""Which ranks of this host have ended before they joined: what nobody else tells those that wait for them in sok.Init.

Open MPI's mpiexec ends a job when a rank fails. A process that ends with code 0 before any has started MPI it takes
for a program without MPI, and MPI_Init then waits on all other ranks for ever. But mpiexec, or its daemon on another
host, is the parent of its ranks (or of the shells that they are in): those that are not among its children are gone.

Where another library has started MPI, it finalises it as the process ends, by an exception too, and MPI_Finalize waits
for all ranks before mpiexec hears of anything. So a process that ends says so by its name (sok1x/ends.py). Those
that waited for it must not end before it: mpiexec would end the job while it still counts who has come to MPI_Finalize,
and one mpiexec in twenty crashes in that, or hangs for ever with all ranks gone (seen with Open MPI 4.1.4 and PMIx
4.2.2: 4 of 68). So who waits there for nobody is seen off first.
"""
import os
import signal
import time

from sok1x import ends

from .lines import print_line
from .orphans import launcher_above, look

_SIZE, _LOCAL_SIZE, _RANK = "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"
# mpiexec starts its ranks one after the other: only who is missing again, so long afterwards, is gone.
LOOK_SECONDS = 3.0
_ENDED = ("Z", "X")  # states of processes that have ended
# Until a process that has been told to end is told again, by what nobody can miss; and then until mpiexec has seen it.
_END_SECONDS, _SEEN_SECONDS = 1.0, 1.0


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
        ending = set(_ending(self._launcher).values())
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


def see_off():
    """Ends the ranks of this host that end and wait for others that will not come; then mpiexec ends this one, too."""
    launcher = launcher_above(os.getppid())
    ending = _ending(launcher) if launcher else {}
    for rank in ending.values():
        print_line("sok1x: {} would wait for the others in MPI_Finalize, and is ended now".format(
            "a rank" if rank is None else _named([rank])))
    for signum in (ends.SIGNAL, signal.SIGKILL):
        for pid in ending:
            _signal(pid, signum)
        end = time.monotonic() + _END_SECONDS
        while ending and time.monotonic() < end:
            time.sleep(0.02)
            ending = set(_ending(launcher)).intersection(ending)
            if not ending:
                time.sleep(_SEEN_SECONDS)


def _ending(launcher):
    """{process: rank} of those of a launcher that end, and have no child that they may be waiting for."""
    living = _living()
    parents = {parent for _, parent in living.values()}
    return {pid: _rank_of(pid) for pid, (name, _) in living.items()
            if name == ends.NAME and pid not in parents and launcher_above(pid) == launcher}


def _signal(pid, signum):
    try:
        os.kill(pid, signum)
    except OSError:  # it has ended meanwhile
        return


def _living():
    """{process: (name, parent)} of all that have not ended; nothing where nobody can say."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    looks = ((pid, look(pid)) for pid in pids)
    return {pid: (name, parent) for pid, (name, state, parent, _) in looks if name is not None and state not in _ENDED}


def _children(parent):
    """The processes of a parent that have not ended; None where it is gone, or nobody can say."""
    living = _living()
    return [pid for pid, (_, its_parent) in living.items() if its_parent == parent] if parent in living else None


def _rank_of(pid):
    try:
        with open("/proc/{}/environ".format(pid), "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(_RANK.encode() + b"="):
                    return int(entry.partition(b"=")[2])
    except (OSError, ValueError):
        pass
    return None
