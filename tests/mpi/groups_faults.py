"""Members of a group that fail, each by itself: what the program program_groups_faults.py runs.

A scenario is told rank and ranks, builds a graph, and gives what runs in sessions of it.
"""
import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import (
    Model,
    all_bags,
    bags_by,
    each,
    fails,
    gate,
    in_bags,
    keys,
    outcome,
    quoted,
    session,
)

import sok1x as sok
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


def key_beyond_its_type(rank, size):
    """int64 keys of tables whose keys have 32 bits: two of them, on one rank, get one that is none; then good ones."""
    types = ["int32", "int64", "uint32", "int32", "uint32"]
    tables = [sok.DynamicVariable(3 + number, "1", key_type=one) for number, one in enumerate(types)]
    fed = [tf.placeholder(tf.int64, [None]) for _ in tables]
    with tf.control_dependencies([gate()]):
        given = [tf.identity(one) for one in fed]
    outs = [embedding.lookup_combined(table.table_variables, in_bags(one), None, 2, "sum", number < 3,
                                      exchange=bags_by[0]) if all_bags[0] else
            embedding.lookup_dense(table.table_variables, one, number < 3)
            for number, (table, one) in enumerate(zip(tables, given))]
    gradients = tf.gradients(outs[:3], tables[:3])
    edges = {"int32": [-2 ** 31, 2 ** 31 - 1], "uint32": [0, 2 ** 32 - 1], "int64": [-2 ** 63, 2 ** 63 - 1]}
    good = [keys(rank, 3, *edges[one], 3) for one in types]
    bad = list(good)
    beyond = {0: 2 ** 31, 4: -1}
    for number, key in beyond.items() if rank == size - 1 else ():
        bad[number] = keys(3, rank, key, 3)

    def run():
        found = []
        with session() as made:
            for batch in (good, bad, good):
                found += [each(made, outs, dict(zip(fed, batch))), made.run(tf.global_variables())]
            for number, one in enumerate(found[2]):
                if number in beyond:
                    fails(one, "InvalidArgumentError", "'{}'".format(tables[number].table.name), "key {} at position "
                          "2".format(beyond[number]), "on rank {}".format(size - 1), "key_type " + types[number])
                else:
                    assert isinstance(one, np.ndarray), one
            found.append(outcome(made, [outs, gradients], dict(zip(fed, good))))
            assert len(found[-1]) == 2 and len(found[-1][0]) == 5, found[-1]
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
