"""Groups in flight: given up while they wait, several at once, and in loops.

    mpiexec -np 2 python program_groups_in_flight.py
"""
import itertools
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import (
    BAG_FORWARD,
    FORWARD,
    Model,
    bags_by,
    in_bags,
    keys,
    one_by_one,
    outcome,
    pause,
    same,
    session,
    sizes,
)
from mpi4py import MPI
from settled import settle

import sok1x as sok
from sok1x import launch


def given_up(rank):
    """Rank 0's run ends by its deadline while the group waits for the other rank; what follows is as ever."""
    model = Model([(40, True), (10, False), (40, True), (40, True)], [(number, True) for number in range(4)],
                  bags=(2, 3))
    found = []
    with session() as made:
        for attempt in range(3):
            batch = [keys(attempt, rank, 9)] * 4
            if rank == 0:
                options = tf.RunOptions(timeout_in_ms=400)
                try:
                    made.run(model.outs, model.feed(batch), options=options)
                except tf.errors.DeadlineExceededError:
                    found.append("given up")
            MPI.COMM_WORLD.Barrier()  # rank 1 has been away until now
            found.append(made.run([model.outs, model.gradients, model.step], model.feed(batch)))
        found.append(made.run(tf.global_variables()))
    assert found.count("given up") == (3 if rank == 0 else 0), found
    return found


def threads(rank):
    """Four threads train by one session, each its own tables."""
    models = [Model([(40, True), (10, False), (40, True), (10, False)], [(number, True) for number in range(4)],
                    bags=(0, 1)) for _ in range(4)]
    random = np.random.RandomState(rank)
    # Rows are inserted in the order of steps, for each table has one thread.
    batches = [[[random.randint(0, 10, random.randint(0, 9)) for _ in range(4)] for _ in range(6)] for _ in models]
    found = [None] * len(models)
    with session() as made:
        def train(number):
            found[number] = [outcome(made, [models[number].outs, models[number].step], models[number].feed(batch))
                             for batch in batches[number]]
        running = [threading.Thread(target=train, args=(number,)) for number in range(len(models))]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return found, made.run(tf.global_variables())


def loop(rank):
    """Several lookups in the body of a loop: their keys are known, and the rows' sum is trained."""
    layers = [sok.All2AllDenseEmbedding(40, dim, 1, 1, use_hashtable=dim != 3, dynamic_input=True)
              for dim in (2, 3)]
    layers += [sok.DistributedEmbedding("mean", 40, dim, 1, 2, exchange=bags_by[0]) for dim in (4, 5)]
    fed = tf.placeholder(tf.int64, [5, 4, None])

    def look_up(layer, keys):
        return layer(in_bags(keys) if layer in layers[2:] else keys)
    variables = [layer.embedding_variable for layer in layers]

    def body(i, total):
        rows = [look_up(layer, fed[i, number]) for number, layer in enumerate(layers)]
        return i + 1, total + tf.add_n([tf.reduce_sum(row * row) for row in rows])
    loss = tf.while_loop(lambda i, _: i < 5, body, [0, 0.0])[1]
    step = tf.train.GradientDescentOptimizer(0.25).apply_gradients(
        [(tf.convert_to_tensor(gradient), variable) for gradient, variable in zip(tf.gradients(loss, variables),
                                                                                  variables)])
    first = [look_up(layer, tf.range(20, dtype=tf.int64)) for layer in layers]
    with session() as made:
        for row in first:
            made.run(row)
        found = []
        for number in range(3):
            batch = np.random.RandomState([rank, number]).randint(0, 20, [5, 4, 6])
            made.run(step, {fed: batch})
            found.append([np.round(values, 4) + 0 for values in made.run(first)])
    return found


def main():
    pause[0] = settle
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
    rank = launch.current().rank
    for bags_by[0], scenario in itertools.product(("all2all", "reduce_scatter"), (given_up, threads, loop)):
        sizes.clear()
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            ours = scenario(rank)
        assert max(sizes[FORWARD]) > 1 and max(sizes[BAG_FORWARD]) > 1, sizes
        with one_by_one(), tf.Graph().as_default():
            tf.set_random_seed(5)
            theirs = scenario(rank)
        same(ours, theirs)
        print("{} {}\n".format(scenario.__name__, sizes), end="")
    print("rank {} ok\n".format(rank), end="")


if __name__ == "__main__":
    main()
