"""Saves to a disk that other files fill, on two ranks, and reports what came of it, for test_checkpoint_faults_disk.py.

    mpiexec -np 2 python program_disk.py FOLDER OUT

FOLDER is a disk of its own. Rank r writes OUT-<r>.json: {case: [the error's classes, its message, leftovers]}.
"""
import json
import os
import sys

import counted_model
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

RANK = MPI.COMM_WORLD.rank
FOLDER = sys.argv[1]
FILLER = os.path.join(FOLDER, "filler")


def leave(free):
    """Fills the disk until so many bytes are free. Rank 0 does it, and the other one waits."""
    MPI.COMM_WORLD.Barrier()
    if RANK == 0:
        with open(FILLER, "wb") as file:
            status = os.statvfs(FOLDER)
            os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - free))
    MPI.COMM_WORLD.Barrier()


def empty():
    MPI.COMM_WORLD.Barrier()
    if RANK == 0:
        os.unlink(FILLER)
    MPI.COMM_WORLD.Barrier()


class Job:
    """A graph, its saver and its session; the folder is one below FOLDER."""

    def __init__(self, name):
        self.directory = os.path.join(FOLDER, name)
        self._saver = sok.CheckpointSaverHook(self.directory, save_steps=1000)
        self._saver.begin()
        init, initializer = sok.Init(), tf.global_variables_initializer()
        self.session = tf.Session()
        self.session.run(init)
        self.session.run(initializer)
        self._saver.after_create_session(self.session, None)

    def save(self, step, free):
        """[classes of the error, its message, leftovers] of a save that finds so many bytes free."""
        leave(free)
        classes, message = [], ""
        try:
            self._saver._save(self.session, step)
        except Exception as error:
            classes, message = [one.__name__ for one in type(error).__mro__], str(error)
        MPI.COMM_WORLD.Barrier()
        left = counted_model.leftovers(self.directory)
        empty()
        return [classes, message, left]


def filled_at_any_point():
    """A save of about 500 kB meets the end of the disk everywhere: in shards, TensorFlow's files, the manifest."""
    model = counted_model.Model(2000, 16, 2, dense=40000)
    job, reports = Job("all"), {}
    job.session.run(model.train, model.feed(RANK, 0))
    trained = saved = 1
    for step, free in enumerate([0, 4096, 12288] + list(range(20000, 800001, 60000)), 1):
        while trained < 2 * step:
            job.session.run(model.train, model.feed(RANK, trained))
            trained += 1
        case = "free {}".format(free)
        reports[case] = job.save(step, free)
        found = counted_model.check_folder(job.directory)
        if not reports[case][0]:
            saved = trained
        # A new checkpoint may be complete where only TensorFlow's state file could not be written.
        assert found in ((saved, trained) if saved > 1 else (0, trained)), (case, found, saved)
        saved = found
    assert found == trained
    return reports


def filled_on_rank_1():
    """All keys are rank 1's: rank 0 has next to nothing to write."""
    layer = sok.All2AllDenseEmbedding(10000, 16, 1, 1)
    keys = tf.reshape(2 * tf.range(10000, dtype=tf.int64) + 1, [-1, 1, 1])
    train = tf.train.GradientDescentOptimizer(1.0).minimize(
        tf.reduce_sum(layer(keys)), tf.train.get_or_create_global_step(), var_list=[layer.embedding_variable])
    job = Job("one")
    job.session.run(train)
    return {"rank 1": job.save(1, 300000), "after": job.save(1, 3000000)}


def filled_at_the_start():
    """A job that goes on finds the disk full before it can save anything."""
    counted_model.Model(2000, 16, 2, dense=40000)
    leave(0)
    try:
        Job("all")
    except Exception as error:
        return {"start": [[one.__name__ for one in type(error).__mro__], str(error), []]}
    finally:
        empty()


def main():
    reports = {}
    for case in (filled_at_any_point, filled_on_rank_1, filled_at_the_start):
        with tf.Graph().as_default():
            reports.update(case())
    with open("{}-{}.json".format(sys.argv[2], RANK), "w") as file:
        json.dump(reports, file)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
