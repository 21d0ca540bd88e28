"""Run on N ranks: one named way in which ranks come to sok.Init, or do not. Argument: the scenario's name."""
import os
import sys
import time

from ranks_endings import executor, say, steps, trouble

from sok1x.launch.errors import LaunchError


def never_init():
    """Rank 1 runs Init so many seconds after rank 0 has come to it, whose process may have begun much later."""
    here = os.path.join(sys.argv[3], "rank 0 is here")
    trouble()
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        while not os.path.exists(here):
            time.sleep(0.02)
        time.sleep(float(sys.argv[2]))
    else:
        open(here, "w").close()
    executor.start_world()


def leave_before_init():
    """All ranks but rank 1 end with code 0 before anybody has started MPI: mpiexec has noticed nothing."""
    pids = os.path.join(sys.argv[2], "{}.pid")
    others = [rank for rank in range(int(os.environ["OMPI_COMM_WORLD_SIZE"])) if rank != 1]
    if os.environ["OMPI_COMM_WORLD_RANK"] != "1":
        with open(pids.format("new" + os.environ["OMPI_COMM_WORLD_RANK"]), "w") as file:
            file.write(str(os.getpid()))
        os.rename(file.name, pids.format(os.environ["OMPI_COMM_WORLD_RANK"]))
        return
    for rank in others:
        while not os.path.exists(pids.format(rank)):
            time.sleep(0.02)
        with open(pids.format(rank)) as file:
            pid = file.read()
        while os.path.exists("/proc/" + pid):
            time.sleep(0.02)
    time.sleep(0.5)
    executor.start_world()


def raises_before_init():
    """MPI runs already, and is finalised as the process ends, which waits for all ranks."""
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        trouble()
        raise ValueError("boom before sok.Init")
    executor.start_world()


def never_init_mpi_runs():
    """The same where MPI runs already, as after hvd.init()."""
    from mpi4py import MPI
    assert MPI.Is_initialized()
    never_init()


def threads_disabled():
    import mpi4py
    mpi4py.rc.thread_level = "funneled"
    from mpi4py import MPI
    assert MPI.Query_thread() == MPI.THREAD_FUNNELED
    try:
        executor.start_world()
    except LaunchError as error:
        say("refused: {}".format(error))


def mpi4py_first():
    from mpi4py import MPI
    world = executor.start_world()
    assert world.description["MPI initialised by"] == "another library"
    steps(20, world)
    assert MPI.COMM_WORLD.allreduce(1) == world.size
    say("fine {}".format(world.rank))


def mpi4py_later():
    world = executor.start_world()
    from mpi4py import MPI, rc
    assert rc.initialize is True and MPI.Is_initialized()
    for step in range(50):
        executor.post(step % 3)
        assert MPI.COMM_WORLD.allreduce(1) == world.size
    steps(20, world)
    say("fine {}".format(world.rank))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
