"""The watch over exchanges: who is warned about, given up, let go; and hearing for an executor that waits."""
import collections

import pytest
from ranks import run_ranks

from sok1x.launch import messages
from sok1x.launch.errors import INTERNAL, INVALID_ARGUMENT, LaunchError
from sok1x.launch.exchange_watch import ExchangeWatch


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class FakeCommunicator:
    def __init__(self):
        self.busy = self.found = self.failure = None

    def trouble(self):
        return self.found

    def abort(self, error):
        self.failure, self.busy = error, None


class FakeCoordinator:
    """Also its own transport."""

    def __init__(self):
        self.job_error, self.stall_seconds, self.abort_seconds = None, 10.0, None
        self.warnings, self.messages = [], []
        self.transport = self

    def warn(self, text):
        self.warnings.append(text)

    def peek(self):
        return [(0, message) for message in self.messages]

    def fail_job(self, message, code=INTERNAL, rank=2):
        self.job_error = self.job_error or LaunchError(code, message, rank)


World = collections.namedtuple("World", "rank communicator gpu_communicator coordinator")


@pytest.fixture
def watched():
    world, clock = World(2, FakeCommunicator(), FakeCommunicator(), FakeCoordinator()), Clock()
    return world, clock, ExchangeWatch(world, clock)


def test_the_watch_warns_about_both_communicators(watched):
    world, clock, watch = watched
    world.communicator.busy = ("all_gather", "a", 95.0)
    world.gpu_communicator.busy = ("all_to_all", "b", 99.0)
    for _ in range(25):
        watch.look()
        clock.now += 1.0
    assert world.coordinator.warnings == ["sok1x: rank 2: {} of op '{}' has waited {} s for other ranks; one of them "
                                          "is stuck in this op.".format(*said) for said in (
                                              ("all_gather", "a", 10), ("all_to_all", "b", 10),
                                              ("all_gather", "a", 20), ("all_to_all", "b", 20))]
    world.communicator.busy, world.gpu_communicator.busy = None, ("all_to_all", "c", clock.now)
    clock.now += 9
    watch.look()
    assert len(world.coordinator.warnings) == 4, "a new exchange"
    assert world.coordinator.job_error is None


def test_the_watch_gives_up_after_the_time_that_was_set(watched):
    world, clock, watch = watched
    world.coordinator.abort_seconds = 30.0
    world.gpu_communicator.busy = ("all_to_all", "b", 99.0)
    clock.now = 128.0
    watch.look()
    assert world.coordinator.job_error is None
    clock.now = 129.0
    watch.look()
    assert "all_to_all of op 'b' has waited 30 s" in world.coordinator.job_error.message
    assert "SOK1X_ABORT_SECONDS=30" in world.coordinator.job_error.message


def test_the_watch_lets_go_what_does_not_end_by_itself(watched):
    world, clock, watch = watched
    gpu = world.gpu_communicator
    world.coordinator.fail_job("rank 0 failed")
    watch.release()
    gpu.busy = ("all_to_all", "b", 100.0)
    watch.release()
    assert gpu.failure is None, "it may still end"
    clock.now = 100.4
    gpu.busy = ("all_to_all", "c", 100.3)  # decided before the failure came
    watch.release()
    clock.now = 100.7
    watch.release()
    assert gpu.failure is None
    clock.now = 100.9
    watch.release()
    assert gpu.failure is world.coordinator.job_error


def test_the_watch_aborts_at_once_what_nccl_found_broken(watched):
    world, _, watch = watched
    world.gpu_communicator.found = "NCCL reports an error: x"
    watch.look()
    assert world.coordinator.job_error.message == "rank 2: NCCL reports an error: x"
    assert world.gpu_communicator.failure is world.coordinator.job_error


@pytest.mark.parametrize("kind", [messages.Failed, messages.JobFailed])
def test_the_watch_hears_for_an_executor_that_waits_for_its_gpu(kind, watched):
    world, clock, watch = watched
    error = LaunchError(INVALID_ARGUMENT, "boom", 1)
    world.coordinator.messages += [b"\xff", messages.encode(messages.Leave()), messages.encode(kind(error))]
    watch.look()
    assert world.coordinator.job_error is None, "nobody waits"
    world.gpu_communicator.busy = ("all_to_all", "b", 100.0)
    watch.look()
    assert world.coordinator.job_error is None, "not for long"
    clock.now = 101.0
    watch.look()
    heard = world.coordinator.job_error
    assert (heard.code, heard.message, heard.rank) == (INVALID_ARGUMENT, "boom", 1)


def test_what_was_overheard_or_seen_is_still_received():
    done = run_ranks(1, """
import ctypes
import time
from mpi4py import MPI
from sok1x.launch import inbox, mpi_library, mpi_transport
gate = mpi_library.Gate()
transport = mpi_transport.MpiTransport(MPI, MPI.COMM_SELF, gate)

def something(address):
    there, flag = inbox.Inbox.from_address(address), ctypes.c_int(7)
    assert there.probe(there.source, there.tag, there.comm, ctypes.byref(flag), there.status) == 0
    return flag.value

assert transport.watch(something) == 0
transport.send(0, b"one")
until = time.monotonic() + 120
while not transport.watch(something) and time.monotonic() < until:
    time.sleep(0.01)
assert transport.watch(something) == 1, "it has been left there"
transport.send(0, b"two")
limit = time.monotonic() + 120
while len(transport.peek()) < 2 and time.monotonic() < limit:
    time.sleep(0.01)
transport.send(0, b"three")
assert transport.peek()[:2] == [(0, b"one"), (0, b"two")]
came = []
while len(came) < 3 and time.monotonic() < limit:
    came += transport.receive()
assert came == [(0, b"one"), (0, b"two"), (0, b"three")], came
assert transport.peek() == [] == transport.receive()
assert transport.watch(something) == 0
gate.shut()
assert transport.peek() == [] == transport.receive()
assert transport.watch(lambda address: address) is None
print("fine")
""")
    assert done.out == "fine\n"
