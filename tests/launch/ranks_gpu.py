"""Run on N ranks with GPUs or stand-ins: one named trouble with them or with NCCL. Argument: the scenario's name."""
import os
import signal
import sys
import time

import devices
from ranks_endings import executor, say, steps, trouble

from sok1x.launch.errors import LaunchError

LAST = int(os.environ["OMPI_COMM_WORLD_SIZE"]) - 1
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])


def tell(variable, value="1"):
    """From now on the stand-in for NCCL makes this trouble on this rank."""
    os.environ["STAND_IN_NCCL_" + variable] = value


def last_exchange():
    """An exchange that fails; says with which words."""
    try:
        executor.exchange(0)
    except LaunchError as error:
        say("failed on {}: {}".format(RANK, error))
        raise


def works():
    world = executor.start_world()
    steps(50, world)
    say("fine {} by {}".format(world.rank, world.description["GPU communicator"]))


def refused():
    """The GPUs cannot be connected, which is no failure of the job."""
    try:
        executor.start_world()
    except LaunchError as error:
        say("refused on {} ({}): {}".format(RANK, error.code, error))
    else:
        raise AssertionError("not refused")


def no_unique_id():
    tell("FAIL", "ncclGetUniqueId")
    refused()
    tell("FAIL", "")
    works()


def no_init():
    """ncclCommInitRank fails on the last rank, and the others wait in it."""
    trouble()
    if RANK == LAST:
        tell("FAIL", "ncclCommInitRank")
    executor.start_world()


def init_hangs():
    """Given up after 2 seconds; not so what comes before, for ranks of a busy machine start seconds apart."""
    if RANK == LAST:
        tell("HANG", "ncclCommInitRank")
    chosen = devices.chosen

    def soon_given_up(world):
        trouble()
        world.coordinator.abort_seconds = 2.0
        return chosen(world)
    devices.chosen = soon_given_up
    executor.start_world()


def async_error():
    world = executor.start_world()
    steps(5, world)
    trouble()
    if RANK == 1:
        tell("ASYNC")
    last_exchange()


def dead():
    """The last rank's connections break, and its process goes on."""
    world = executor.start_world()
    steps(5, world)
    trouble()
    if RANK == LAST:
        tell("DEAD")
    last_exchange()


def killed():
    """Rank 1 dies while the others wait for it on their GPUs."""
    world = executor.start_world()
    steps(5, world)
    if RANK == 1:
        executor.exchange(0, how="skip")
        trouble()
        os.kill(os.getpid(), signal.SIGKILL)
    last_exchange()


def call_fails():
    world = executor.start_world()
    steps(5, world)
    trouble()
    if RANK == LAST:
        tell("FAIL", "ncclAllReduce")
    last_exchange()


def raises():
    """Rank 1's program fails while the others' executors wait for it on their GPUs."""
    world = executor.start_world()
    steps(5, world)
    if RANK == 1:
        executor.exchange(0, how="skip")
        time.sleep(2.5)
        trouble()
        raise ValueError("boom on one")
    last_exchange()


def users_wait():
    """Executors only enqueue; the programs wait for their GPUs, which wait for rank 1, whose program fails."""
    world = executor.start_world()
    steps(5, world)
    executor.exchange(0, how="skip" if RANK == 1 else "enqueue")
    if RANK == 1:
        trouble()
        raise ValueError("boom on one")
    while not executor.device.gpu.reached(executor.mark):
        time.sleep(0.01)
    say("let go on {}".format(RANK))
    last_exchange()


def slow_gpu():
    """An exchange takes as long as the rank before it computes; nobody is in trouble."""
    world = executor.start_world()
    steps(5, world)
    if RANK == 1:
        executor.device.gpu.sleep(3000)
    steps(5, world)
    say("fine {}".format(RANK))


def never_joins():
    world = executor.start_world()
    steps(5, world)
    trouble()
    executor.exchange(0, how="skip" if RANK == 1 else "wait")
    if RANK == 1:
        time.sleep(100)


def destroy_hangs():
    world = executor.start_world()
    steps(5, world)
    tell("HANG", "ncclCommDestroy")
    say("fine {}".format(RANK))


def abort_hangs():
    tell("HANG", "ncclCommAbort")
    async_error()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
