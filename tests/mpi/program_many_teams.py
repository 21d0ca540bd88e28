"""More different sets of ops that run together than a rank says for good: what it says of them begins anew.

    mpiexec -np N python program_many_teams.py

Each table's row loses as much at each step, so that NumPy knows it from how often the table was trained.
"""
import itertools

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
TABLES, SETS = 11, 1100  # kTeamsRemembered in graph_ops/groups/lane_op.h is 1000
world = MPI.COMM_WORLD


def main():
    keys = tf.constant([[[3]], [[4]]], tf.int64)
    layers = [sok.All2AllDenseEmbedding(8, 2, 1, 1, use_hashtable=False, embedding_initializer="zeros",
                                        name="t{}".format(number)) for number in range(TABLES)]
    steps = []
    for layer in layers:
        gradient, = tf.gradients(tf.reduce_sum(layer(keys)), layer.embedding_variable)
        steps.append(tf.train.GradientDescentOptimizer(0.5).apply_gradients([(gradient, layer.embedding_variable)]))
    exported = [sok.export(layer.embedding_variable) for layer in layers]
    trained = np.zeros(TABLES)
    sets = itertools.chain.from_iterable(itertools.combinations(range(TABLES), size) for size in (3, 4, 5, 6))
    with tf.Session() as session:
        session.run(sok.Init(global_batch_size=2))
        session.run(tf.global_variables_initializer())
        for number, chosen in enumerate(itertools.islice(sets, SETS)):
            for _ in range(2 if number % 50 == 0 else 1):
                session.run([steps[one] for one in chosen])
                trained[list(chosen)] += 1
        for (own, rows), count in zip(session.run(exported), trained):
            for key in (3, 4):
                np.testing.assert_array_equal(rows[own == key], np.full([int(key % world.size == world.rank), 2],
                                                                        -0.5 * count * world.size))
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
