"""Two graphs that are alike but for their data, each in a session and a thread of its own, begun in another order on
each rank: none trains the other's tables.

    mpiexec -np N python program_alike_graphs.py
"""
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS, RATE = 4, 0.5


class Model:
    """Rows that begin with 1, and go down by RATE times `slope`, on each rank, at each step."""

    def __init__(self, slope):
        self.slope, self.graph = slope, tf.Graph()
        with self.graph.as_default():
            self.keys = tf.placeholder(tf.int64, [None, 1, 1])
            rows = sok.All2AllDenseEmbedding(64, 2, 1, 1, embedding_initializer="ones")(self.keys, training=True)
            optimizer = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(RATE))
            variable, = tf.trainable_variables()
            gradient, = tf.gradients(slope * tf.reduce_sum(rows), [variable])
            self.rows, self.step = rows, optimizer.apply_gradients([(gradient, variable)])
            self.begin = [sok.Init(global_batch_size=8 * launch.current().size), tf.global_variables_initializer()]

    def run(self, delay, found):
        """Trains, after some seconds."""
        time.sleep(delay)
        with tf.Session(graph=self.graph) as session:
            for op in self.begin:
                session.run(op)
            feeds = {self.keys: np.arange(8).reshape(8, 1, 1)}
            for _ in range(STEPS):
                session.run(self.step, feeds)
            found[self.slope] = session.run(self.rows, feeds)


def main():
    """Trains both, and looks at what they have become."""
    sok.init()
    world = launch.current()
    models, found = [Model(slope) for slope in (1.0, 0.25)], {}
    threads = [threading.Thread(target=model.run, args=(0.7 * ((number + world.rank) % 2), found))
               for number, model in enumerate(models)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in models:
        expected = 1 - STEPS * RATE * model.slope * world.size
        np.testing.assert_array_equal(found[model.slope], np.full([8, 1, 1, 2], expected))
    print("ok", flush=True)


main()
