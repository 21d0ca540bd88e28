"""Members of a group that fail, or are not as the others are: each as if it ran by itself.

    [mpiexec -np N] python program_groups_faults.py

Each scenario builds a graph and gives what runs in sessions of it, twice, together and one by one: results, errors and
all variables must be the same. Those of both lists run with lookups by key, and with lookups by bag by each exchange.
"""
import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import (
    BAG_FORWARD,
    FORWARD,
    Model,
    all_bags,
    bags_by,
    each,
    fails,
    gate,
    keys,
    one_by_one,
    outcome,
    pause,
    quoted,
    same,
    session,
    sizes,
)
from settled import settle

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge.registry import get
from sok1x.graph_ops.operations import embedding


def full_table(rank, size):
    """The third table's shard, on one rank, gets more keys than it has rows: in the middle of the group."""
    model = Model([(20, True), (20, False), (4, True), (20, True), (20, True)], [(number, True) for number in range(5)])
    owner = size - 1  # whose shard is full: its keys are those that leave this remainder

    def run():
        some = [keys(rank, 2, 2, 5 + rank)] * 5
        many = [keys(7, 8 + rank), keys(9, 3), size * np.arange(10, 15) + owner, keys(), keys(-7, 6, -7)]
        found = []
        with session() as made:
            found += [outcome(made, [model.outs, model.step], model.feed(some)), made.run(tf.global_variables())]
            found.append(outcome(made, [out.op for out in model.outs], model.feed(many)))
            fails(found[-1], "ResourceExhaustedError", quoted(model, 2), "on rank {}".format(owner))
            found.append(made.run(tf.global_variables()))
            some[2] = keys(2, 2, 5)
            found += [outcome(made, [model.outs, model.step], model.feed(some)), made.run(tf.global_variables())]
            assert isinstance(found[-2][0], list), found[-2]
        return found
    return run


def key_outside(rank, size):
    """A table without index, on one rank, is asked for a key that it does not have; then for good ones."""
    model = Model([(20, True), (10, False), (10, False), (20, True)], [(number, True) for number in range(4)])
    good = [keys(rank, 3, 3)] * 4
    bad = [keys(4, 6), keys(5), keys(2, 10 * size + 7 if rank == size - 1 else 3, 1), keys(8)]

    def run():
        found = []
        with session() as made:
            for batch in (good, bad, good):
                found += [each(made, model.outs, model.feed(batch)), made.run(tf.global_variables())]
            fails(found[2][2], "InvalidArgumentError", quoted(model, 2), "key {}".format(10 * size + 7), "position 1",
                  "on rank {}".format(size - 1))
            found.append(outcome(made, [model.outs, model.step], model.feed(good)))
            assert isinstance(found[-1][0], list), found[-1]
        return found
    return run


def never_initialized(rank, size):
    """One table's variables, on one rank, have never been initialized."""
    model = Model([(20, True), (20, True), (10, False)], [(number, True) for number in range(3)])

    def run():
        batch, found = [keys(rank, 3, 3)] * 3, []
        left = [variable for variable in tf.global_variables() if variable.name.startswith(model.variables[1].op.name)]
        others = [variable for variable in tf.global_variables() if variable not in left]
        assert left and others
        with tf.Session() as made:
            made.run(sok.Init(global_batch_size=64))
            made.run([variable.initializer for variable in others])
            if rank < size - 1:
                made.run([variable.initializer for variable in left])
            found.append(each(made, model.outs, model.feed(batch)))
            fails(found[-1][1], "FailedPreconditionError", quoted(model, 1), "initialize")
            found.append(made.run(others))
            if rank == size - 1:
                made.run([variable.initializer for variable in left])
            found += [outcome(made, [model.outs, model.step], model.feed(batch)), made.run(tf.global_variables())]
            assert isinstance(found[-2][0], list), found[-2]
        return found
    return run


def gradient_of_another_shape(rank, size):
    """One gradient, on one rank, is fed in a shape that its lookup has not given."""
    model = Model([(20, True), (10, False), (20, True)], [(number, True) for number in range(3)])

    def run():
        batch, found = [keys(rank, 3, 3)] * 3, []
        with session() as made:
            for wrong in (np.ones([2, 4], np.float32), np.ones([3, 4], np.float64)[:0], None):
                given = {1: wrong} if wrong is not None and rank == size - 1 else {}
                found.append(outcome(made, [gradient.values for gradient in model.gradients], model.feed(batch, given)))
                if wrong is not None:
                    fails(found[-1], "InvalidArgumentError", quoted(model, 1), str(list(wrong.shape)), "3 x 4",
                          "on rank {}".format(size - 1))
            assert len(found[-1]) == 3, found[-1]
            found.append(made.run(tf.global_variables()))
        return found
    return run


def training_of_another_shape(rank, size):
    """Whether one lookup trains, on one rank, is fed as something else than a scalar: the others do what they do."""
    trains = tf.placeholder(tf.bool, None)
    model = Model([(20, True), (20, True), (10, False), (20, True)],
                  [(0, True), (1, trains), (2, True), (3, True)])

    def run():
        batch, found = [keys(rank, 3, 3)] * 4, []
        with session() as made:
            for wrong in (True, False):
                feed = model.feed(batch)
                feed[trains] = [True, True] if wrong and rank == size - 1 else True
                found += [each(made, model.outs, feed), made.run(tf.global_variables())]
            fails(found[0][1], "InvalidArgumentError", quoted(model, 1), "expected a scalar")
            feed[trains] = rank == 0
            found += [each(made, model.outs, feed), made.run(tf.global_variables())]
            if size > 1:
                fails(found[-2][1], "InvalidArgumentError", quoted(model, 1), "expected one value on all ranks")
        return found
    return run


def evaluation(rank, size):
    """Lookups that evaluate, some of keys that nobody has seen, beside others that train."""
    model = Model([(20, True), (20, True), (10, False), (20, True)],
                  [(0, True), (1, False), (2, False), (3, True), (0, False), (3, False), (1, False)])
    first = [keys(rank, 3, 3), keys(1), keys(4), keys(0, 1, 2), keys(100, -1 - rank), keys(2, 0), keys()]
    second = [keys(50), keys(1, 1), keys(4, 0), keys(1, 2), keys(3, 77), keys(), keys(9)]

    def run():
        found = []
        with session() as made:
            for batch in (first, second, first):
                found += [outcome(made, model.outs, model.feed(batch)), made.run(tf.global_variables())]
                assert len(found[-2]) == 7, found[-2]
                found.append(outcome(made, [model.gradients, model.step], model.feed(batch)))
                assert len(found[-1]) == 2, found[-1]
                found.append(made.run(tf.global_variables()))
        return found
    return run


def evaluated_by_themselves(rank, size):
    """Lookups that evaluate, one at a time: of keys that are known, and of such as one rank alone has never seen."""
    model = Model([(30, True), (30, False)], [(0, True), (1, True), (0, False), (1, False)])
    known, unseen = [keys(rank, 3, 3)] * 4, [keys(3, 3, 25 if rank == size - 1 else rank)] * 4

    def run():
        found = []
        with session() as made:
            made.run(model.outs[:2], model.feed(known))  # so that keys have rows whichever lookup comes first
            found += [outcome(made, [model.outs, model.step], model.feed(known)), made.run(tf.global_variables())]
            before, pause[0] = len(sizes.get(FORWARD, [])), None
            for batch in (known, unseen, known):
                found += [outcome(made, out, model.feed(batch)) for out in model.outs[2:]]
                assert isinstance(found[-1], np.ndarray) and isinstance(found[-2], np.ndarray), found[-2:]
            pause[0] = settle
            found.append(made.run(tf.global_variables()))
        if size > 1 and get(FORWARD).group is not None:
            assert sizes[FORWARD][before:] == [1] * 6, sizes
        return found
    return run


def _shared(rank, size, global_step):
    model = Model([(40, True), (40, True), (10, False)], [(0, True), (1, True), (0, True), (2, True), (2, True)],
                  global_step=global_step)
    dumps = [sok.incremental_dump(model.variables, since) for since in range(-1, 4)]
    # Whichever lookup of a table comes first, rows are inserted in one order.
    batches = [[keys(rank, 3, 3)] * 5, [keys(4, 8), keys(1), keys(4, 8, 1 + rank), keys(2), keys(2, 7, 0)],
               [keys(), keys(3), keys(8), keys(5), keys()]]

    def run():
        found = []
        with session() as made:
            for batch in batches:
                found.append(outcome(made, [model.outs, model.gradients, model.step], model.feed(batch)))
                assert len(found[-1]) == 3, found[-1]
                found += [made.run(tf.global_variables()), made.run(dumps)]
            found += [outcome(made, model.outs, model.feed([keys(11, rank)] * 4 + [keys(3)])), made.run(dumps)]
        return found
    return run


def one_table_several_times(rank, size):
    """Lookups of one table in one group, which count steps of its own."""
    return _shared(rank, size, None)


def one_table_several_times_with_a_global_step(rank, size):
    """The same, where the graph counts."""
    return _shared(rank, size, tf.train.get_or_create_global_step())


def keys_of_many_dimensions(rank, size):
    """Keys of no dimension, of seven and of eight (of which the embeddings can have no gradient), side by side."""
    layers = [sok.All2AllDenseEmbedding(30, dim, 1, 1, dynamic_input=True) for dim in (1, 3, 4, 5)]
    shapes = [(), (1, 2, 1, 1, 2, 1, 1), (1, 1, 2, 1, 1, 1, 1, 2), (3,)]
    fed = [tf.placeholder(tf.int64, [None] * len(shape)) for shape in shapes]
    with tf.control_dependencies([gate()]):
        given = [tf.identity(one) for one in fed]
    outs = [embedding.lookup_dense(layer.embedding_variable.table_variables, one, True)
            for layer, one in zip(layers, given)]
    gradients = tf.gradients(outs[:2] + outs[3:],
                             [layer.embedding_variable for layer in layers[:2] + layers[3:]])

    def run():
        random, found = np.random.RandomState(rank), []
        with session() as made:
            for _ in range(3):
                feed = {one: random.randint(0, 6, shape) for one, shape in zip(fed, shapes)}
                found += [outcome(made, [outs, gradients], feed), made.run(tf.global_variables())]
                assert len(found[-2][0]) == 4, found[-2]
                assert [out.ndim for out in found[-2][0]] == [1, 8, 9, 2], found[-2]
        return found
    return run


def runs_at_once(rank, size):
    """Two runs of one table, in one group: each counts as a step of the table's own.

    Which run of another rank goes with which is open: the others have no keys.
    """
    model = Model([(40, True), (40, True)], [(0, True), (1, True)])
    stamps = [variable for variable in tf.global_variables() if variable.op.name.endswith("stamps")]

    def run():
        with session() as made:
            for batch in ([keys(0, 1, 2, 3)] * 2, [keys(0, 1, 2, 3)] * 2):
                made.run(model.gradients, model.feed(batch))
            before = made.run(stamps)
            halves = [[keys(0, 1)] * 2, [keys(2, 3)] * 2] if rank == 0 else [[keys()] * 2] * 2
            threads = [threading.Thread(target=made.run, args=(model.gradients, model.feed(half))) for half in halves]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for old, new in zip(before, made.run(stamps)):
                used = 4 // size
                assert sorted((new - old)[:used].tolist()) == [1] * (used // 2) + [2] * (used // 2), (old, new)
        return []
    return run


def batches_not_in_order(rank, size):
    """Bags, on one rank, whose keys come in any order, which is no fault; then such as are faults, one by one."""
    layers = [sok.DistributedEmbedding(combiner, 40, 3, 2, 2, use_hashtable=number != 2,
                                       exchange="auto" if number == 3 else bags_by[0])
              for number, combiner in enumerate(("sum", "mean", "sum", "mean", "mean"))]
    fed = [tf.sparse.placeholder(tf.int64) for _ in layers]
    with tf.control_dependencies([gate()]):
        keys = [tf.SparseTensor(one.indices, tf.identity(one.values), one.dense_shape) for one in fed]
    outs = [layer(one, training=True) for layer, one in zip(layers, keys)]
    with tf.control_dependencies(outs + [gate()]):
        given = [out + 1 for out in outs]
    gradients = tf.gradients(outs, [layer.embedding_variable for layer in layers], grad_ys=given)
    good = tf.SparseTensorValue([[0, 0], [0, 1], [2, 0]], [rank, 3, 5], [4, 2])
    anew = tf.SparseTensorValue([[2, 0], [0, 1], [3, 0], [0, 0]], [7, 3, rank, 5], [4, 2])
    faults = [(tf.SparseTensorValue([[0, 0], [4, 0]], [1, 2], [4, 2]), "row 4"),
              (tf.SparseTensorValue([[0, 0], [-1, 0]], [1, 2], [4, 2]), "row -1"),
              (tf.SparseTensorValue([[2, 0], [2, 1], [2, 2]], [1, 2, 3], [4, 3]), "got 3 keys in slot 0 of sample 1"),
              (tf.SparseTensorValue([[0, 0]], [1], [3, 2]), "dense_shape [3, 2]"),
              (tf.SparseTensorValue(np.zeros([0, 2]), [], [-2, 2]), "dense_shape [-2, 2]"),
              (tf.SparseTensorValue(np.zeros([0, 2]), [], [2 ** 62, 2]), "dense_shape [{}, 2]".format(2 ** 62))]

    def run():
        found = []
        with session() as made:
            for batch in (good, anew, good):
                feed = {one: batch if number % 2 and rank == size - 1 else good for number, one in enumerate(fed)}
                found += [outcome(made, [outs, gradients], feed), made.run(tf.global_variables())]
                assert len(found[-2]) == 2 and len(found[-2][0]) == 5, found[-2]
            for number, (batch, words) in enumerate(faults):
                feed = dict.fromkeys(fed, good)
                if rank == size - 1:
                    feed[fed[number % 5]] = batch
                found.append(each(made, outs, feed))
                name = layers[number % 5].embedding_variable.table.name
                fails(found[-1][number % 5], "InvalidArgumentError", "'{}'".format(name), words,
                      "on rank {}".format(size - 1))
                assert [isinstance(one, np.ndarray) for one in found[-1]].count(True) == 4, found[-1]
            found.append(made.run(tf.global_variables()))
        return found
    return run


def another_exchange_each_step(rank, size):
    """What goes by all2all in one step goes by reduce_scatter in the next: most of the lookups, or one."""
    model = Model([(60, True), (60, True), (60, False), (60, True)], [(number, True) for number in range(4)],
                  bags=range(4), most=16, exchange="auto")
    few, many = keys(1, 1, 1, 1, 2), keys(*range(20))  # many have more rows than bags

    def run():
        found = []
        with session() as made:
            for batch in ([few] * 4, [many, few, few, few], [few, many, many, many], [many] * 4, [few] * 4):
                found.append(outcome(made, [model.outs, model.gradients, model.step], model.feed(batch)))
                assert len(found[-1]) == 3, found[-1]
                found.append(made.run(tf.global_variables()))
        assert size == 1 or sum(sizes.get(BAG_FORWARD, [])) == 5 * 4 and max(sizes[BAG_FORWARD]) == 4, sizes
        return found
    return run


BY_KEY_AND_BY_BAG = (full_table, key_outside, never_initialized, gradient_of_another_shape,
                     training_of_another_shape, evaluation, one_table_several_times_with_a_global_step)
BY_KEY = BY_KEY_AND_BY_BAG + (evaluated_by_themselves, one_table_several_times, keys_of_many_dimensions, runs_at_once)
BY_SUMS = BY_KEY_AND_BY_BAG + (batches_not_in_order,)
BY_BAG = BY_SUMS + (another_exchange_each_step,)


def main():
    pause[0] = settle
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
    world = launch.current()
    runs = [(False, "all2all", one) for one in BY_KEY] + [(True, "all2all", one) for one in BY_BAG]
    if world.size > 1:
        runs += [(True, "reduce_scatter", one) for one in BY_SUMS]
    for all_bags[0], bags_by[0], scenario in runs:
        if sys.argv[1:] and scenario.__name__ not in sys.argv[1:]:
            continue
        sizes.clear()
        with tf.Graph().as_default():
            run = scenario(world.rank, world.size)
            ours = run()
            assert max(sizes.get(BAG_FORWARD if all_bags[0] else FORWARD, [0])) > 1, sizes
            seen = {name: list(groups) for name, groups in sizes.items()}
            with one_by_one():
                theirs = run()
        print("{} {}\n".format(scenario.__name__, seen), end="")
        assert sizes == seen, sizes
        same(ours, theirs)
    print("rank {} ok\n".format(world.rank), end="")


if __name__ == "__main__":
    main()
