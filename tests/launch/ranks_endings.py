"""Run on N ranks: one named way in which a job goes on or ends, on any device. Argument: the scenario's name."""
import ctypes
import os
import signal
import sys
import threading
import time

from stand_in_executor import Executor

from sok1x.launch.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, LaunchError

executor = Executor()


def say(text):
    sys.stdout.write("{}\n".format(text))
    sys.stdout.flush()


def trouble():
    """Marks the moment from which the test counts (one clock for all processes of a machine)."""
    say("trouble at {}".format(time.monotonic()))


def steps(n, world):
    for step in range(n):
        assert executor.exchange(step % 3, world.rank + step) == [rank + step for rank in range(world.size)]


def healthy():
    world = executor.start_world(global_batch_size=8, seed=1)
    assert executor.start_world(global_batch_size=world.rank, seed=2) is world, "a second Init is a no-op"
    assert world.arguments == {"global_batch_size": 8, "seed": 1}
    assert world.local_size == world.size and world.local_rank == world.rank and world.host_threads >= 1
    steps(200, world)
    error = LaunchError(RESOURCE_EXHAUSTED, "table full", world.rank) if world.rank == world.size - 1 else None
    try:
        executor.exchange(0, error=error)
    except LaunchError as caught:
        assert (caught.code, caught.rank, str(caught)) == (RESOURCE_EXHAUSTED, world.size - 1, "table full")
    else:
        raise AssertionError("not failed")
    steps(10, world)
    say("fine {} {}".format(world.rank, world.description["communicator"]))


def disagree():
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    for batch in (100 + rank // 2, 64):
        try:
            world = executor.start_world(global_batch_size=batch, seed=3)
        except LaunchError as error:
            assert error.code == INVALID_ARGUMENT and batch != 64 and error.rank == 2
            assert "global_batch_size: ranks 0, 1 gave 100; ranks 2, 3 gave 101." in str(error), error
            assert "seed" not in str(error)
        else:
            assert batch == 64
    steps(5, world)
    say("fine {}".format(world.rank))


def raises():
    """Rank 1's main thread raises; rank 0 waits for it in an op, 2 sleeps, 3 computes without giving up the GIL."""
    world = executor.start_world()
    steps(5, world)
    if world.rank == 1:
        trouble()
        raise ValueError("boom on one")
    if world.rank == 2:
        time.sleep(100)
    if world.rank == 3:
        for _ in range(10 ** 12):
            pass
    executor.exchange(0)


def raises_hardly():
    """Rank 1's main thread raises what cannot be printed, and the program's own hook fails too."""
    class Unprintable(Exception):
        def __str__(self):
            raise KeyError("no words")

    def hook(kind, value, trace):
        raise OSError("the program's own hook")

    sys.excepthook = hook
    world = executor.start_world()
    if world.rank == 1:
        trouble()
        raise Unprintable
    executor.exchange(0)


def raises_of_bytes():
    """Rank 1 names a file whose name is no UTF-8."""
    world = executor.start_world()
    if world.rank == 1:
        trouble()
        raise ValueError("cannot read " + os.fsdecode(b"caf\xe9"))
    executor.exchange(0)


def caught():
    """As `raises`, but the other ranks catch what they get and end as if nothing had happened."""
    world = executor.start_world()
    if world.rank == 1:
        trouble()
        raise KeyError("boom on one")
    try:
        executor.exchange(0)
    except LaunchError as error:
        say("caught on {}: {}".format(world.rank, error))


def killed():
    world = executor.start_world()
    steps(5, world)
    if world.rank == 1:
        trouble()
        os.kill(os.getpid(), signal.SIGKILL)
    executor.exchange(0)


def early():
    """Rank 1 ends well before the others, which need it no more."""
    world = executor.start_world()
    steps(5, world)
    if world.rank != 1:
        time.sleep(float(sys.argv[2]))
    say("fine {}".format(world.rank))


def deserted(code=None):
    """Rank 1 ends, and the others still need it."""
    world = executor.start_world()
    steps(5, world)
    if world.rank == 1:
        trouble()
        sys.exit(code)
    executor.exchange(0)


def deserted_with_code():
    deserted(3)


def deserted_by_rank_0():
    world = executor.start_world()
    steps(5, world)
    if world.rank != 0:
        executor.exchange(0)
    trouble()


def finalised():
    """One rank finalises MPI, in the way that is named, and the others still need it. Arguments: the rank, the way."""
    world = executor.start_world()
    steps(5, world)
    coordinator, way = world.coordinator, sys.argv[3]
    if world.rank != int(sys.argv[2]):
        while way == "later" and coordinator.job_error is None:
            time.sleep(0.01)
        exchange_in_vain("needed", 0)
        return
    from mpi4py import MPI
    trouble()
    if way == "by_mpi4py":  # which keeps the GIL meanwhile
        MPI.Finalize()
    if way == "in_flight":
        threading.Thread(target=exchange_in_vain, args=("in flight", 1)).start()
        while not coordinator.undecided:
            time.sleep(0.01)
    threading.Thread(target=ctypes.CDLL(MPI.__file__).MPI_Finalize, daemon=True).start()
    while not coordinator.leaving.begun:
        time.sleep(0.01)
    if way == "later":
        exchange_in_vain("later", 0)
    time.sleep(100)


def finalised_at_last():
    """Every rank finalises MPI however it ends, and rank 1 raises."""
    from mpi4py import MPI
    world = executor.start_world()
    try:
        steps(5, world)
        if world.rank == 1:
            trouble()
            raise ValueError("boom before the end")
        executor.exchange(0)
    finally:
        MPI.Finalize()


def exchange_in_vain(when, index):
    try:
        executor.exchange(index)
    except LaunchError as error:
        say("{}: {}".format(when, error))


def finalised_unharmed():
    """Rank 0 finalises MPI, and nobody needs it any more."""
    world = executor.start_world()
    steps(5, world)
    say("fine {}".format(world.rank))
    if world.rank == 0:
        from mpi4py import MPI
        MPI.Finalize()


def in_flight():
    """All end while ops that only some announced are under way, and while a thread goes on asking."""
    world = executor.start_world()
    steps(5, world)
    executor.post(world.rank % 3)
    if world.rank == 0:
        def ask():
            while True:
                executor.post(2)
                time.sleep(0.001)
        threading.Thread(target=ask, daemon=True).start()
        time.sleep(0.05)
    say("fine {}".format(world.rank))


def plans():
    world = executor.start_world()
    trouble()
    executor.exchange(0, plan="user [8, 4]\nitem [8, {}]".format(4 + world.rank // 2))


def stall():
    """Rank 1 stops feeding for a while."""
    world = executor.start_world()
    steps(5, world)
    if world.rank == 1:
        time.sleep(4)
    steps(5, world)
    say("fine {}".format(world.rank))


def stuck_exchange():
    """Rank 1's executor is stuck inside an op that all have begun. Given up, if at all, after seconds of this op alone:
    ranks of a busy machine start seconds apart."""
    world = executor.start_world()
    steps(5, world)
    if len(sys.argv) > 3:
        world.coordinator.abort_seconds = float(sys.argv[3])
    trouble()
    executor.exchange(0, work=float(sys.argv[2]) if world.rank == 1 else 0.0)
    say("fine {}".format(world.rank))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
