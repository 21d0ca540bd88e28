"""MPI finalised on one rank while others go on: they hear that it has left, and nobody waits for it.

Without this they would wait for ever: nothing comes from the rank any more, and it does not end. MPI_Finalize begins
with `Farewell.wait`, on whichever thread it is called, while MPI is still there (mpi_library.py). The executor's thread
leaves the others, and goes on talking with them until all have left, as MPI_Finalize itself would wait for them, but
asleep and able to hear of a failure. Open MPI's mpiexec breaks or hangs now and then (4.1.4: one job of seven on busy
cores, in PMIx_server_finalize) where a rank ends with an error while another is inside of MPI_Finalize: so after a
failure a rank goes there only if all do (`leaving.all_finalise`).
"""
import sys
import threading
import time
import traceback

from .errors import FAILED_PRECONDITION
from .hosts import named
from .leaving import finalised
from .lines import print_line

# What has been announced and not yet decided may be on its way. Or it waits for a rank that left before, whose name
# comes within left_alone's second: Horovod finalises MPI on all ranks when one of them ends.
_UNDER_WAY_SECONDS = 2.0
# For the executor to end what it is doing.
_BUSY_SECONDS = 10.0
_SENT_SECONDS = 1.0


def may_finalise(world):
    """Whether this rank may go into MPI_Finalize after a failure of the job: never where MPI is ours, for then no rank
    does; else where all do, or rank 0 waits there already."""
    leaving = world.coordinator.leaving
    return not world.mpi.ours and (leaving.all_finalise or leaving.leader_is_gone)


class Farewell:
    """One rank's.

    Args:
        world: The World.

    Attributes:
        wanted: Whether the executor is to call `go_on` in each turn, when C++ holds nothing any more.
    """

    def __init__(self, world):
        self._world = world
        self.wanted = False
        self._left, self._over = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._closed = self._told = False
        self._raised = None  # the text of an exception on its way, where MPI is finalised

    def wait(self):
        """Has the executor leave the other ranks, and waits for them. Any thread.

        Where the job fails it may not return: the process is ended when its grace is over, or by its launcher. Where
        the executor's thread is at its end, and this rank may finalise MPI, nothing is waited for.
        """
        coordinator = self._world.coordinator
        self._raised = traceback.format_exc() if sys.exc_info()[0] is not None else None
        with self._lock:
            waits = self._world.size > 1 and not self._closed
            self.wanted = self.wanted or waits
        if not waits:
            if coordinator.job_error is not None:
                self._show_raised()  # MPI_Finalize waits for all ranks, and keeps the GIL where mpi4py calls it
            return
        if not self._left.wait(_BUSY_SECONDS) and not coordinator.leaving.begun:
            # Those who need this rank would never hear.
            coordinator.fail_job(finalised(self._world.rank), FAILED_PRECONDITION)
        self._over.wait()

    def go_on(self, carry_out):
        """Does what is next. On the executor's thread.

        Args:
            carry_out: Function of nothing: carries out what the coordinator's `poll` gives.
        """
        coordinator = self._world.coordinator
        if not coordinator.leaving.begun:
            self._leave(coordinator, carry_out)
            self._left.set()
        elif coordinator.job_error is not None and not self._told:
            self._told = True
            self._show_raised()
            coordinator.leaving.end(not self._world.mpi.ours)  # who finalises MPI has nothing to tell its user
        elif coordinator.job_error is not None:
            if may_finalise(self._world):
                self.end()
        elif self._world.mpi.ours:
            if coordinator.leaving.all_left:
                self.end()
        elif coordinator.leaving.all_left or coordinator.leaving.leader_is_gone:
            self.end()

    def close(self):
        """Says that the executor comes to no `go_on` any more: nobody is to wait for it. On the executor's thread.

        From another thread MPI may be finalised at any moment, as Horovod's does when another rank ends: before this,
        it is waiting here, and goes on now; after this, it does not begin to.
        """
        with self._lock:
            self._closed = True
        if self.wanted:
            self.end()

    def end(self):
        """Lets nobody into MPI any more, and lets it be finalised. On the executor's thread."""
        world, self.wanted = self._world, False
        world.coordinator.part()
        if world.heartbeat is not None:
            world.heartbeat.leave()
        world.coordinator.transport.flush(_SENT_SECONDS)
        world.mpi.gate.shut()
        self._left.set()
        self._over.set()

    def _show_raised(self):
        """Nobody else will: it does not come out of a `finally` in which MPI is finalised."""
        raised, self._raised = self._raised, None
        if raised is not None:
            print_line("sok1x: {}: MPI was finalised while an exception was on its way:\n{}".format(
                named(self._world.rank), raised.rstrip()))

    @staticmethod
    def _leave(coordinator, carry_out):
        until = time.monotonic() + _UNDER_WAY_SECONDS
        while coordinator.undecided and coordinator.job_error is None and time.monotonic() < until:
            carry_out()
            time.sleep(0.001)
        if coordinator.undecided and coordinator.job_error is None:
            coordinator.fail_job(finalised(coordinator.rank), FAILED_PRECONDITION)
            carry_out()  # it is told before this rank leaves
        coordinator.leaving.begin(finalises=True)
        while not coordinator.leaving.left:
            carry_out()
            time.sleep(0.001)
