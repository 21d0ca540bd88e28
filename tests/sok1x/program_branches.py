"""Run on two ranks: lookups in branches and loops train, and ranks that part ways are told so, each time.

    mpiexec -np 2 python program_branches.py SEED
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from branch_twins import DIM, HOT, SLOTS, WAYS, Twins

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
RANK, RANKS = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
STEPS = 20


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def session():
    run = v1.Session()
    run.run(sok.Init(global_batch_size=8))
    run.run(v1.global_variables_initializer())
    return run


def rows_of(run, twins):
    """The table's rows by key, which all ranks can look up."""
    return run.run(twins.rows)


def check_trains_as_gather(way, dense, random):
    with tf.Graph().as_default():
        twins = Twins(WAYS[way], dense)
        # TensorFlow begins a loop's sparse gradient with zeros for row 0, which with momentum moves that row of its own
        # variable; of a table it stays.
        momentum = 0.0 if way == "in_loop" else 0.9
        ours = sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.01, momentum), average=False).minimize(
            twins.our_loss, var_list=[twins.table])
        stock = v1.train.MomentumOptimizer(0.01, momentum).minimize(twins.stock_loss, var_list=[twins.stock])
        with session() as run:
            twins.start(run)
            before = run.run(twins.stock)
            for step in range(STEPS):
                batches = [random.randint(0, 10, [random.randint(0, 4), SLOTS, HOT]) for _ in range(RANKS)]
                run.run([ours, stock], {twins.keys: batches[RANK], twins.every: np.concatenate(batches),
                                        twins.flags: [step % 2, step // 2 % 2]})
            after = run.run(twins.stock)
            np.testing.assert_allclose(rows_of(run, twins), after, rtol=1e-4, atol=1e-5, err_msg=way)
            check(np.abs(after - before).max() > 1e-3, "nothing was trained", way)


def expect_refused(run, fetches, feed, true, words):
    try:
        run.run(fetches, feed)
    except tf.errors.InvalidArgumentError as error:
        for word in ["the predicate True on ranks {} and False on ranks {}".format(true, [
                rank for rank in range(RANKS) if rank not in true])] + words:
            check(word in error.message, word, error.message)
    else:
        raise AssertionError("ranks went different ways, and nobody said so: {}".format(words))


def check_parting(random):
    """Each run fails on all ranks, and the next one, in which they agree, is right."""
    for way, flags, words in (("in_cond", [RANK % 2, 0], ["tf.cond", "lookup"]),
                              ("in_both", [RANK % 2, 0], ["tf.cond"]),
                              ("in_nested", [1, RANK % 2], ["tf.cond"]),
                              ("in_case", [0, RANK % 2], ["case", "tf.cond"]),
                              ("in_cond_in_loop", [RANK % 2, 0], ["while", "tf.cond"])):
        with tf.Graph().as_default():
            twins = Twins(WAYS[way])
            step = twins.our_loss if way == "in_cond_in_loop" else v1.train.GradientDescentOptimizer(0.0).minimize(
                twins.our_loss, var_list=[twins.table])
            keys = random.randint(0, 10, [3, SLOTS, HOT])
            feed = {twins.keys: keys, twins.every: keys}
            with session() as run:
                twins.start(run)
                for _ in range(2):
                    odd = [rank for rank in range(RANKS) if rank % 2]
                    expect_refused(run, step, {**feed, twins.flags: flags}, odd, words + ["equal on all ranks"])
                    together = {**feed, twins.flags: [1, 1]}
                    run.run(step, together)
                    one, other = run.run([twins.our_loss, twins.stock_loss], together)
                    np.testing.assert_allclose(one, other, rtol=1e-5)


def check_loops_of_other_lengths():
    with tf.Graph().as_default():
        twins = Twins(WAYS["in_loop"])
        step = v1.train.GradientDescentOptimizer(0.0).minimize(twins.our_loss, var_list=[twins.table])
        feed = {twins.keys: np.zeros([1, SLOTS, HOT], np.int64)}
        with session() as run:
            odd = [rank for rank in range(RANKS) if rank % 2]
            expect_refused(run, step, {**feed, twins.flags: [RANK % 2, 0]}, odd, ["tf.while_loop 'while'"])
            run.run(step, {**feed, twins.flags: [1, 0]})


def check_constant_predicate():
    """One that the graph knows, and that differs between the ranks' graphs; and training itself in a branch."""
    with tf.Graph().as_default():
        layer = sok.All2AllDenseEmbedding(8, DIM, 1, 1)
        vectors = layer(tf.constant([[[RANK]]], tf.int64))
        mine = v1.cond(tf.constant(RANK == 0), lambda: layer(tf.constant([[[5]]], tf.int64)), lambda: vectors)
        train = v1.placeholder(tf.bool, [])
        step = v1.cond(train, lambda: tf.group(v1.train.GradientDescentOptimizer(0.1).minimize(
            tf.reduce_sum(vectors))), tf.no_op)
        with session() as run:
            expect_refused(run, mine, None, [0], ["tf.cond 'cond'"])
            run.run(step, {train: True})
            run.run(step, {train: False})
            expect_refused(run, step, {train: RANK == 0}, [0], ["lookup_gradient"])
            run.run(step, {train: True})


def main():
    random = np.random.RandomState(int(sys.argv[1]))
    for way, dense in (("in_cond", True), ("in_both", False), ("in_nested", True), ("in_case", True),
                       ("in_loop", True), ("beside", True)):
        check_trains_as_gather(way, dense, random)
    check_parting(random)
    check_loops_of_other_lengths()
    check_constant_predicate()
    sys.stdout.write("done-{}\n".format(RANK))


main()
