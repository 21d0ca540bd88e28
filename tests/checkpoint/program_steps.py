"""Savers of ranks that are not at one step, for test_checkpoint_steps.py; all refuse, and go on.

    mpiexec -np 2 python program_steps.py FOLDER
"""
import os
import sys

import tensorflow.compat.v1 as tf
from mpi4py import MPI
from stock_model import Model, refused

import sok1x as sok
from sok1x.checkpoint import CheckpointError


def other_steps(folder, rank, ranks):
    """One name, to which each rank adds a step of its own: nobody could restore that."""
    model = Model(rank, ranks).train(2)
    saver = model.saver()
    saver.save(model.session, folder + "/model", global_step=2)
    before = sorted(os.listdir(folder))
    MPI.COMM_WORLD.Barrier()  # both have looked
    refused(CheckpointError, lambda: saver.save(model.session, folder + "/model", global_step=3 + rank),
            "The ranks save different steps of {}/model: rank 0".format(folder), "3", "4", "nothing was saved")
    assert sorted(os.listdir(folder)) == before
    saver.save(model.session, folder + "/model", global_step=5)
    other = Model(rank, ranks)
    other.saver().restore(other.session, tf.train.latest_checkpoint(folder))
    other.check(2)


def supervisor(folder, rank, ranks):
    """Its thread saves by a rank's own clock: after other steps on each."""
    sok.init()
    model = Model(rank, ranks, start=False)
    with model.graph.as_default():
        made = tf.train.Supervisor(logdir=folder, save_model_secs=600, summary_op=None, init_op=model.initialize)
        loop = tf.train.Supervisor(logdir=folder, save_model_secs=0, summary_op=None, init_op=model.initialize)

    def train():
        with made.managed_session():
            made.coord.wait_for_stop(60)  # without steps, of which one rank could begin one more

    refused(CheckpointError, train, "A tf.train.Supervisor saves tables to " + folder, "save_model_secs=0")
    assert not [name for name in os.listdir(folder) if name.startswith("model.ckpt")]
    with loop.managed_session() as session:
        for _ in range(3):
            session.run(model.step)
        loop.saver.save(session, loop.save_path, global_step=loop.global_step)
    other = Model(rank, ranks)
    other.saver().restore(other.session, tf.train.latest_checkpoint(folder))
    other.check(3)


def main():
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for case in (other_steps, supervisor):
        folder = os.path.join(sys.argv[1], case.__name__)
        os.makedirs(folder, exist_ok=True)
        MPI.COMM_WORLD.Barrier()
        case(folder, rank, ranks)
    sys.stdout.write("rank {} did all\n".format(rank))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
