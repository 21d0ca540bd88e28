"""MPI finalised by another thread while the executor's ends: wherever the one stands, nobody waits for ever."""
import sys
import threading
import time
import types

import pytest
from launch_simulation import Job

from sok1x.launch import failure, farewell

SECONDS = 60.0  # for what comes at once, on a machine that others keep busy


class Gate:
    def __init__(self):
        self.open = True

    def shut(self):
        self.open = False


class World:
    """What `finish` and `Farewell` ask of a World: rank 1 of 2. ours: MPI is ours to finalise."""

    def __init__(self, ours):
        self.rank, self.size, self.grace_seconds = 1, 2, 1.0
        self.job = Job(2)
        self.coordinator = self.job.ranks[1]
        self.coordinator.transport.close = lambda: None
        self.communicator = types.SimpleNamespace(close=lambda: None)
        self.gpu_communicator = self.heartbeat = None
        self.mpi = types.SimpleNamespace(ours=ours, gate=Gate(), finalize=self.finalize)
        self.farewell = farewell.Farewell(self)

    def finalize(self):
        """MPI_Finalize, as mpi_library.before_finalize has it begin."""
        self.farewell.wait()
        self.mpi.gate.shut()

    def end(self):
        """The last that the executor does in a program that ends, as the other rank's has."""
        for rank in range(2):
            self.job.ranks[rank].leaving.begin()
        self.job.settle()
        assert self.coordinator.leaving.left and self.coordinator.leaving.all_left
        failure.finish(self)


def begun(call):
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def wait_until_wanted(world):
    until = time.monotonic() + SECONDS
    while not world.farewell.wanted:
        assert time.monotonic() < until
        time.sleep(0.001)


def stopped_at(line, function, call, meanwhile):
    """Calls `call`, and `meanwhile` when it comes to the so-many-th line of `function`. Returns whether it came there.
    """
    lines = []

    def trace(frame, event, _):
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == line:
                meanwhile()
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return len(lines) >= line


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("slow", [farewell.Farewell.wait, failure.finish])
def test_mpi_finalised_as_the_program_ends_waits_for_nobody(slow, ours):
    """Horovod's thread, say, finalises MPI because another rank ends just now."""
    line, came = 0, True
    while came:
        line += 1
        world, ends, others, only = World(ours), [], [], threading.Lock()
        first, second = (world.finalize, world.end) if slow is farewell.Farewell.wait else (world.end, world.finalize)

        def meanwhile(others=others, second=second, only=only):
            if not only.acquire(blocking=False):
                return  # a line that is come to late: the other has begun
            others.append(begun(second))
            others[0].join(0.2)  # it may wait until this thread goes on

        thread = begun(lambda line=line, ends=ends, first=first, meanwhile=meanwhile: ends.append(
            stopped_at(line, slow, first, meanwhile)))
        thread.join(0.5)
        meanwhile()  # if this line is not come to before the other begins
        for one in [thread] + others:
            one.join(SECONDS)
            assert not one.is_alive(), "line {} of {}".format(line, slow.__qualname__)
        assert world.coordinator.job_error is None
        (came,) = ends
    print("lines of {}: {}".format(slow.__qualname__, line - 1))
    assert line > 4


def go_on(world):
    """The executor's turns after a failure, as many as there is something to do in."""
    for _ in range(20):
        if world.farewell.wanted:
            world.farewell.go_on(world.job.settle)
        world.job.settle()


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("other", ["finalises", "exits", "left before"])
def test_after_a_failure_mpi_is_finalised_where_all_do(other, ours):
    """mpiexec may hang where one rank is inside of MPI_Finalize while another ends without it; where MPI is ours, all
    end without it."""
    world = World(ours)
    leader = world.job.ranks[0]
    if other == "left before":
        leader.leaving.begin()
        world.job.settle()
    thread = begun(world.finalize)
    wait_until_wanted(world)
    world.coordinator.fail_job("rank 1 failed")
    world.job.settle()
    if other != "left before":
        assert leader.job_error is not None
        leader.leaving.end(finalises=other == "finalises" and not ours)
    go_on(world)
    waits = other == "exits" or ours
    thread.join(0.5 if waits else SECONDS)
    assert thread.is_alive() == waits


def test_mpi_finalised_after_a_failure_waits_for_the_others_to():
    """As `finally: MPI.Finalize()` does it. Nobody goes there where another rank has ended without it."""
    for finalises in (True, False):
        world = World(ours=False)
        world.coordinator.fail_job("rank 1 failed")
        world.job.settle()
        thread = begun(world.finalize)
        wait_until_wanted(world)
        world.job.ranks[0].leaving.end(finalises)
        go_on(world)
        thread.join(SECONDS if finalises else 0.5)
        assert thread.is_alive() != finalises
