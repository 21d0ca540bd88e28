"""Run on several ranks: our executor beside Horovod in one process. Arguments: scenario, who starts first, and
what else the scenario takes."""
import sys
import time

import horovod.tensorflow as hvd
import tensorflow.compat.v1 as tf
from stand_in_executor import Executor

from sok1x.launch import farewell
from sok1x.launch.errors import LaunchError
from sok1x.launch.job_failure import JobFailure

executor = Executor()


def both(first):
    """Starts Horovod and our world in the order asked for."""
    if first == "horovod":
        hvd.init()
    world = executor.start_world(first=first)
    if first == "sok1x":
        hvd.init()
    assert (hvd.rank(), hvd.size()) == (world.rank, world.size)
    assert world.description["MPI initialised by"] == ("sok1x" if first == "sok1x" else "another library")
    return world


def summed(session, world):
    total = hvd.allreduce(tf.constant([1.0 + world.rank]), op=hvd.Sum, name="sum")

    def run():
        assert session.run(total)[0] == world.size * (world.size + 1) / 2
    return run


def clean(first):
    """Both exchange at once; then the program just ends."""
    world = both(first)
    with tf.Session() as session:
        run = summed(session, world)
        for step in range(30):
            executor.post(step % 3)
            run()
            assert executor.exchange(step % 3, step) == [step] * world.size
    sys.stdout.write("fine {}\n".format(world.rank))


def shutdown(first):
    """The program shuts Horovod down itself, while our executor polls; afterwards it ends, or asks for more."""
    world = both(first)
    assert executor.exchange(0, 5) == [5] * world.size
    hvd.shutdown()
    try:
        assert executor.exchange(0, 6) == [6] * world.size
        outcome = "goes on"
    except LaunchError as error:
        outcome = "refused: {}".format(error)
    sys.stdout.write("{} {}\n".format(world.rank, outcome))


def shut_down_by_one(first, then="end"):
    """Rank 1 shuts Horovod down while the others wait for it; Horovod does so on all ranks then.

    then: 'stay' where the others' programs take some seconds to end after that.
    """
    if first == "horovod":
        hvd.init()
        tell_of_finalize()
    farewell._UNDER_WAY_SECONDS = 60.0  # rank 1 may come late to where MPI is finalised
    world = both(first)
    assert executor.exchange(0, 5) == [5] * world.size
    if world.rank == 1:
        time.sleep(1)
        hvd.shutdown()
        return
    try:
        executor.exchange(0, 6)
    except LaunchError as error:
        sys.stdout.write("needed: {}\n".format(error))
    if then == "stay":
        time.sleep(4)


def tell_of_finalize():
    """Has MPI_Finalize say that it has begun, once all that is hung on MPI_COMM_SELF after this has let it."""
    from mpi4py import MPI

    def begun(comm, key, value):
        sys.stdout.write("in MPI_Finalize\n")

    MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=begun), 0)


def raises(first, tells="at once"):
    """Rank 1 fails while rank 0 waits for it in Horovod. tells: 'late' where its executor takes a while to."""
    world = both(first)
    if world.rank == 1:
        if tells == "late":
            tell = JobFailure.tell

            def tell_late(failure):
                time.sleep(0.0 if failure.error is None else 0.5)
                tell(failure)
            JobFailure.tell = tell_late
        sys.stdout.write("trouble at {}\n".format(time.monotonic()))
        raise ValueError("boom beside horovod")
    with tf.Session() as session:
        summed(session, world)()


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    globals()[sys.argv[1]](*sys.argv[2:])
