"""Keras' own LossScaleOptimizer (TensorFlow 2) in graphs: a step that one rank cannot take, none takes.

    mpiexec -np N python program_keras_loss_scale.py SEED

Around optimizers of both kinds, plain and distributed, and in sok.DistributedOptimizer. Rank 0's gradients, of a key
that another rank may have, are now and then infinite. The oracle is NumPy.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

KEYS, DIM, RATE, FIRST = 6, 2, 0.25, 2.0 ** 4
KERAS, SCALED = tf.compat.v2.keras.optimizers, tf.keras.mixed_precision.LossScaleOptimizer
CASES = {
    "older": lambda: SCALED(KERAS.legacy.SGD(RATE), initial_scale=FIRST, dynamic_growth_steps=2),
    "newer": lambda: SCALED(KERAS.SGD(RATE), initial_scale=FIRST, dynamic_growth_steps=2),
    "older around distributed": lambda: SCALED(sok.DistributedOptimizer(KERAS.legacy.SGD(RATE), average=False),
                                               initial_scale=FIRST, dynamic_growth_steps=2),
    "newer around distributed": lambda: SCALED(sok.DistributedOptimizer(KERAS.SGD(RATE), average=False),
                                               initial_scale=FIRST, dynamic_growth_steps=2),
    "distributed around older": lambda: sok.DistributedOptimizer(
        SCALED(KERAS.legacy.SGD(RATE), initial_scale=FIRST, dynamic_growth_steps=2), average=False),
    "distributed around newer": lambda: sok.DistributedOptimizer(
        SCALED(KERAS.SGD(RATE), initial_scale=FIRST, dynamic_growth_steps=2), average=False),
    "fixed older": lambda: SCALED(KERAS.legacy.SGD(RATE), dynamic=False, initial_scale=FIRST),
    "fixed newer": lambda: SCALED(KERAS.SGD(RATE), dynamic=False, initial_scale=FIRST)}


class Model:
    """A table, and where the optimizer sums over the ranks dense weights too."""

    def __init__(self, name, keys, factors):
        self.name, self.optimizer = name, CASES[name]()
        self.table = sok.EmbeddingVariable(rows=KEYS, dim=DIM, use_hashtable=True, initializer="ones")
        rows = tf.reshape(sok.all2all_dense_embedding(self.table, keys), [-1, DIM])
        loss, variables = tf.reduce_sum(rows * factors), [self.table]
        self.dense = tf.Variable(np.ones(DIM, np.float32), use_resource=True)
        if "distributed" in name:
            loss += tf.reduce_sum(self.dense * factors[0])
            variables.append(self.dense)
        gradients = self.optimizer.get_unscaled_gradients(
            tf.gradients(self.optimizer.get_scaled_loss(loss), variables))
        self.step = self.optimizer.apply_gradients(list(zip(gradients, variables)))
        self.scale, self.iterations = self.optimizer.loss_scale, self.optimizer.iterations
        self.read = sok.all2all_dense_embedding(self.table, tf.range(KEYS, dtype=tf.int64))


def main(seed):
    random, keys = np.random.RandomState(seed), tf.placeholder(tf.int64, [None])
    factors, init = tf.placeholder(tf.float32, [None, DIM]), sok.Init(global_batch_size=1)
    models = [Model(name, keys, factors) for name in CASES]
    rows, dense = np.ones([KEYS, DIM]), np.ones(DIM)
    scale, good, number = FIRST, 0, 0
    with tf.Session() as session:
        session.run(init)
        world = launch.current()
        session.run(tf.global_variables_initializer())
        session.run([model.read for model in models])
        for is_bad in (False, True, True, False, False, False, True, False):
            # Eighths: exact, and equal on all ranks but for what each takes of them.
            batch = random.randint(0, KEYS, [world.size, 4])
            given = random.randint(1, 9, [world.size, 4, DIM]) / 8
            sent = given[world.rank] * np.where(is_bad and world.rank == 0, np.inf, 1)
            steps = [model.step for model in models if not is_bad or "fixed" not in model.name]
            session.run(steps, {keys: batch[world.rank], factors: sent})
            number += 1
            if is_bad:
                scale, good = max(scale / 2, 1.0), 0
            else:
                np.subtract.at(rows, batch.reshape(-1), RATE * given.reshape(-1, DIM))
                dense -= RATE * given[:, 0].sum(0)
                good += 1
                if good == 2:
                    scale, good = scale * 2, 0
            for model in models:
                found = session.run([model.read, model.dense, model.scale, model.iterations])
                np.testing.assert_array_equal(found[0].reshape(KEYS, DIM), rows, err_msg=model.name)
                if "distributed" in model.name:
                    np.testing.assert_array_equal(found[1], dense, err_msg=model.name)
                if "fixed" not in model.name:
                    assert found[2:] == [scale, number], (model.name, found[2:], scale, number)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
