"""Runs an Estimator, for test_checkpoint_estimator.py; every value is compared with NumPy's.

    mpiexec -np N python program_estimator.py FOLDER SAVED_BY WHAT...

SAVED_BY: as for estimator_model.estimator, or some of these with commas, each in a folder of its own.
WHAT, one after the other: train:STEP (up to that step), evaluate:STEP and predict:STEP (of the checkpoint of that
step), both:STEP (train_and_evaluate up to it), kill:STEP (rank 1 is killed when it comes to that step), early:0
(TensorFlow's hook for early stopping ends a training of its own).
"""
import os
import signal
import sys

import estimator_model
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

tf.logging.set_verbosity(tf.logging.ERROR)


class Kill(tf.train.SessionRunHook):
    """Kills this process before a step."""

    def __init__(self, step):
        self._left = step

    def before_run(self, run_context):
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def at(estimator):
    """The step of the last checkpoint."""
    path = estimator.latest_checkpoint()
    return 0 if path is None else int(tf.train.load_variable(path, "global_step"))


def check_evaluation(found, step):
    assert found["global_step"] == step and found["error"] < 1e-5, found
    np.testing.assert_allclose(found["rows"], estimator_model.expected(step).mean(), rtol=1e-5, atol=1e-6)


def stop_early(folder, rank, ranks):
    """Trains with a hook for early stopping that is told to stop the second time it asks: on rank 0 alone."""
    for when in (dict(run_every_secs=None, run_every_steps=2), dict(run_every_secs=1e-6)):
        estimator = estimator_model.estimator(folder, "own", ranks)
        first, asked = at(estimator), []
        MPI.COMM_WORLD.Barrier()

        def should_stop(asked=asked):
            assert rank == 0
            asked.append(None)
            return len(asked) == 2

        hook = tf.estimator.experimental.make_early_stopping_hook(estimator, should_stop, **when)
        estimator.train(estimator_model.train_input(first, rank, ranks), max_steps=first + 1000, hooks=[hook])
        assert len(asked) == (0 if rank else 2)
        assert at(estimator) == 3 if first == 0 else 4 < at(estimator) < 1000, at(estimator)


def run(estimator, what, step, rank, ranks):
    """One of the things to do; the step of the checkpoint before it."""
    first = at(estimator)
    MPI.COMM_WORLD.Barrier()
    train = estimator_model.train_input(first, rank, ranks)
    if what == "train":
        estimator.train(train, max_steps=step)
    elif what == "kill":
        estimator.train(train, max_steps=step + 100, hooks=[Kill(step - first)] if rank else [])
    elif what == "early":
        stop_early(os.path.join(estimator.model_dir, "early"), rank, ranks)
    elif what == "evaluate":
        check_evaluation(estimator.evaluate(estimator_model.all_keys(step)), step)
    elif what == "predict":
        found = np.stack(list(estimator.predict(estimator_model.all_keys())))[:, 0]
        np.testing.assert_allclose(found, estimator_model.expected(step), rtol=1e-5, atol=1e-5)
    else:
        found, _ = tf.estimator.train_and_evaluate(
            estimator, tf.estimator.TrainSpec(train, max_steps=step),
            tf.estimator.EvalSpec(estimator_model.all_keys(step), steps=None, throttle_secs=0))
        check_evaluation(found, step)
    return first


def main():
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for saved_by in sys.argv[2].split(","):
        estimator = estimator_model.estimator(
            os.path.join(sys.argv[1], saved_by), saved_by, ranks, save_checkpoints_steps=4, keep_checkpoint_max=3,
            save_summary_steps=3, log_step_count_steps=5)
        for what, step in (argument.split(":") for argument in sys.argv[3:]):
            first = run(estimator, what, int(step), rank, ranks)
            sys.stdout.write("rank {} did {} from {} to {}\n".format(rank, what, first, at(estimator)))


if __name__ == "__main__":
    main()
