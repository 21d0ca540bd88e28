"""Trains until it is told to end by a signal, and goes on from what was saved then; for test_checkpoint_sigterm.py.

    mpiexec -np N python program_sigterm.py FOLDER CASE SAVED_BY

SAVED_BY: sok's 'hook', sok's 'listener' of TensorFlow's hook, or an 'estimator' with sok's Scaffold. Keys of a step are
functions of the step, spread over the ranks, and each adds 1 to its key's row: so the rows say which steps have been
trained, on any number of ranks.

A case says which rank gets signals, and where:
    one        rank 1, before its run number 3
    all        every rank, each before another run
    twice      rank 0, before runs 2 and 3, and while it saves
    waiting    rank 0, by a timer, while its step waits for rank 1, which comes late
    saving     rank 1, while it saves on schedule
    first      rank 1, before the session is made; and rank 0 runs things of its own
    launcher   nobody: whoever started this does so
    differ     nobody: rank 0 alone listens, which is refused
"""
import os
import signal
import sys
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

KEYS, BATCH, MANY = 40, 8, 100000
RANK, RANKS = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def batch(step):
    """Keys of all ranks in a step, int64 [B, 1, 1]."""
    return np.random.RandomState(step).randint(0, KEYS, [BATCH, 1, 1]) * 1000003 - 5


def expected(steps):
    """Rows after so many steps, [KEYS]."""
    rows = np.zeros(KEYS)
    for step in range(steps):
        np.add.at(rows, (batch(step).ravel() + 5) // 1000003, 1)
    return rows


def tell(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


class Case(tf.train.CheckpointSaverListener):
    """What happens in a case, beside the training."""

    def __init__(self, name):
        self.name, self._saves = name, 0
        self._told = sys.argv[1] + ".told"  # is there when rank 0 has been told, for rank 1 to see

    def before_session(self):
        """Called when the process listens, before the session is made."""
        if self.name == "first" and RANK == 1:
            tell()

    def before_run(self, number):
        """Called before each run, counted from 1."""
        turns = {"one": {1: (3,)}, "all": {rank: (2 + rank,) for rank in range(RANKS)}, "twice": {0: (2, 3)}}
        if number in turns.get(self.name, {}).get(RANK, ()):
            tell()
        if self.name == "waiting" and number == 3:
            if RANK == 0:
                threading.Timer(0.3, self._tell_and_say_so).start()
            elif RANK == 1:
                while not os.path.exists(self._told):
                    time.sleep(0.01)
                time.sleep(0.3)

    def _tell_and_say_so(self):
        tell()
        open(self._told, "w").close()

    def before_save(self, session, step):
        self._saves += 1
        if (self.name, RANK) == ("saving", 1) and self._saves == 2 or (self.name, RANK) == ("twice", 0):
            tell()


def train(folder, name, saved_by):
    """Trains until the session says stop; returns (first step, last step)."""
    tf.reset_default_graph()
    layer = sok.All2AllDenseEmbedding(200, 1, 1, 1, embedding_initializer="zeros")
    keys = tf.placeholder(tf.int64, [None, 1, 1])
    number = tf.train.get_or_create_global_step()
    step = tf.train.GradientDescentOptimizer(-1.0).minimize(tf.reduce_sum(layer(keys)), global_step=number)
    everything = layer(np.arange(KEYS).reshape(-1, 1, 1) * 1000003 - 5, training=False)
    listen = name != "differ" or RANK == 0
    listen = [signal.SIGTERM, signal.SIGUSR1] if name == "launcher" else listen
    if saved_by == "hook":
        saver = sok.CheckpointSaverHook(folder, save_steps=4, save_on_sigterm=listen)
        case = Case(name)
        saver._listeners.append(case)
    else:
        ours = sok.CheckpointSaverListener(save_on_sigterm=listen)
        case = Case(name)
        saver = tf.train.CheckpointSaverHook(folder, save_steps=4, listeners=[ours, case])
    case.before_session()
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None,
            hooks=[sok.InitHook(), saver]) as session:
        first = at = int(session.run_step_fn(lambda step_context: step_context.session.run(number)))
        np.testing.assert_array_equal(session.run_step_fn(
            lambda step_context: step_context.session.run(everything)).ravel(), expected(first))
        while not session.should_stop():
            case.before_run(at - first + 1)
            if name == "first" and RANK == 0:
                session.run(number)  # a run of its own, with the hooks
                if session.should_stop():
                    break
            session.run(step, {keys: batch(at)[RANK::RANKS]})
            at += 1
            if name == "launcher":
                sys.stdout.write("rank {} trained {}\n".format(RANK, at))
                sys.stdout.flush()
                time.sleep(0.01)
            assert at < MANY
    if name != "differ":
        tell()  # once more, after the end
    return first, at


class Runs(tf.train.SessionRunHook):
    """Has a case's signals come in an Estimator's runs."""

    def __init__(self, case):
        self._case, self._number = case, 0

    def begin(self):
        self._case.before_session()

    def before_run(self, run_context):
        self._number += 1
        self._case.before_run(self._number)


def estimate(folder, name):
    """As `train`, by an Estimator."""
    def model_fn(features, mode):
        layer = sok.All2AllDenseEmbedding(200, 1, 1, 1, embedding_initializer="zeros")
        rows = layer(tf.reshape(features, [-1, 1, 1]), training=mode == tf.estimator.ModeKeys.TRAIN)
        loss = tf.reduce_sum(rows)
        step = tf.train.GradientDescentOptimizer(-1.0).minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, predictions=rows[:, 0, 0],
                                          scaffold=sok.Scaffold(save_on_sigterm=True))

    def input_fn():
        def batches():
            for step in range(at(), MANY):
                yield batch(step)[RANK::RANKS]
        return tf.data.Dataset.from_generator(batches, tf.int64, [None, 1, 1])

    def all_keys():
        return tf.data.Dataset.from_tensors(np.arange(KEYS) * 1000003 - 5)

    def at():
        path = estimator.latest_checkpoint()
        return 0 if path is None else int(tf.train.load_variable(path, "global_step"))

    estimator = tf.estimator.Estimator(model_fn, folder, config=tf.estimator.RunConfig(
        save_checkpoints_steps=4, log_step_count_steps=None, save_summary_steps=None))
    first = at()
    MPI.COMM_WORLD.Barrier()
    case = Case(name)
    estimator.train(input_fn, hooks=[Runs(case)], saving_listeners=[case])
    np.testing.assert_array_equal(np.stack(list(estimator.predict(all_keys))).ravel(), expected(at()))
    tell()
    return first, at()


def main():
    folder, name, saved_by = sys.argv[1:]
    first, last = estimate(folder, name) if saved_by == "estimator" else train(folder, name, saved_by)
    sys.stdout.write("rank {} did {} from {} to {}\n".format(RANK, name, first, last))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
