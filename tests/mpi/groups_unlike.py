"""Members of a group that are not as the others are: what the program program_groups_faults.py runs.

A scenario is told rank and ranks, builds a graph, and gives what runs in sessions of it.
"""
import threading

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import (
    BAG_FORWARD,
    FORWARD,
    Model,
    gate,
    keys,
    outcome,
    pause,
    session,
    sizes,
)
from settled import settle

import sok1x as sok
from sok1x.graph_ops.bridge.registry import get
from sok1x.graph_ops.operations import embedding


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
