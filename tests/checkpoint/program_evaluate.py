"""Saves while another graph is evaluated in the same process, for test_checkpoint_faults_jobs.py.

    mpiexec -np N python program_evaluate.py FOLDER TRAININGS

One thread trains counted_model and saves after every training. Another one runs the lookups of another model, in a
graph and a session of its own, and then of the first one, in its session; each thread as often on all ranks. Prints how
many evaluations ended while checkpoints were saved.
"""
import sys
import threading
import time

import counted_model
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

EVALUATIONS = 150


class Evaluation(threading.Thread):
    """Runs lookups of two graphs in turn; `done` counts, and `error` is what went wrong."""

    def __init__(self, session, model, rank, ranks):
        super().__init__()
        self.done, self.error = 0, None
        self._session, self._model, self._rank, self._ranks = session, model, rank, ranks

    def run(self):
        try:
            with tf.Graph().as_default():
                layer = sok.All2AllDenseEmbedding(100, 8, 1, 1, embedding_initializer="ones", use_hashtable=False)
                vectors = layer(tf.reshape(tf.range(100 * self._ranks, dtype=tf.int64), [-1, 1, 1]), training=False)
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    for _ in range(EVALUATIONS):
                        np.testing.assert_array_equal(session.run(vectors), np.ones([100 * self._ranks, 1, 1, 8]))
                        found = self._session.run(self._model.looked_up)
                        assert len(found) == self._model.total
                        self.done += 1
        except Exception as error:
            self.error = error


def main():
    folder, trainings = sys.argv[1], int(sys.argv[2])
    # InitHook runs when the session is made; the model's rooms depend on the number of ranks.
    with tf.Session() as session:
        session.run(sok.Init())
    rank, ranks = launch.current().rank, launch.current().size
    during = 0
    with tf.Graph().as_default():
        model = counted_model.Model(2000, 16, ranks)
        model.looked_up = model.values[0]
        saver = sok.CheckpointSaverHook(folder, save_steps=1, keep_checkpoint_max=2)
        with counted_model.session(folder, [saver]) as run:
            session = run.run_step_fn(lambda step_context: step_context.session)
            evaluation = Evaluation(session, model, rank, ranks)
            evaluation.start()
            while evaluation.is_alive() and not evaluation.done:  # else all saves may be over before it has begun
                time.sleep(0.001)
            for trained in range(trainings):
                run.run(model.train, model.feed(rank, trained))
                before = evaluation.done
                run.run_step_fn(lambda step_context: saver._save(step_context.session, (trained + 1) // 2))
                during += evaluation.done - before
            evaluation.join()
            if evaluation.error is not None:
                raise evaluation.error
            assert model.check(session.run(model.values)) == trainings
    assert evaluation.done == EVALUATIONS
    sys.stdout.write("rank {} evaluated {} times during saves\n".format(rank, during))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
