"""Run on two ranks: whose gradients are averaged, clipped and exchanged how, right or refused.

    mpiexec -np 2 python program_gradients.py SEED

First over sok1x's own communicator, then over Horovod, which is initialized in between.
"""
import sys

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow.compat.v1 as tf
from gradients_clipping import (
    by_function,
    by_keras,
    by_keyword,
    check_clipping,
    check_keras_clips,
    check_local_clipping_is_refused,
    check_replicas_stay_equal,
)
from gradients_model import RANK, RANKS, Model, check, equal_on_all_ranks, exchanges, expect, session
from tensorflow.python.ops import data_flow_ops

import sok1x as sok


def check_inner_steps(average):
    """The gradient of a loss in which an averaged gradient occurs, from all the ways that make one."""
    reduce = np.mean if average else np.sum
    data = np.random.RandomState(11).randn(2, RANKS, 3)
    ways = {
        "minimize": lambda optimizer, loss, w: optimizer.minimize(loss, var_list=[w]),
        "tf.gradients": lambda optimizer, loss, w: optimizer.apply_gradients(zip(tf.gradients(loss, [w]), [w])),
        "clipped": lambda optimizer, loss, w: optimizer.apply_gradients(
            zip(tf.clip_by_global_norm(tf.gradients(loss, [w]), 100.0)[0], [w])),
        "keras": lambda optimizer, loss, w: tf.group(*optimizer.get_updates(loss, [w])),
        "tape": None,
    }
    for name, way in ways.items():
        if name == "tape" and not average:
            continue
        with tf.Graph().as_default():
            w = tf.get_variable("w", initializer=np.array([1.0, 2.0, 3.0]), use_resource=True)
            inner, outer = tf.constant(data[0, RANK]), tf.constant(data[1, RANK])
            base = tf.keras.optimizers.SGD(1.0) if name == "keras" else tf.train.GradientDescentOptimizer(1.0)
            optimizer = sok.DistributedOptimizer(base, average=average)
            train = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), average=average)

            def losses():
                (gradient, _), = train.compute_gradients(0.5 * tf.reduce_sum(inner * tf.square(w)), [w])
                return 0.5 * tf.reduce_sum(tf.square(w - 0.1 * gradient - outer))
            if name == "tape":
                with tf.GradientTape() as tape:
                    loss = losses()
                step = optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            else:
                step = way(optimizer, losses(), w)
            with session() as run:
                run.run(step)
                value = run.run(w)
        start = np.array([1.0, 2.0, 3.0])
        moved = start - 0.1 * reduce(data[0], axis=0) * start
        # d/dw of each rank's loss, also through the exchanged gradient: the others' losses depend on this rank's w.
        direct = [moved - data[1, rank] for rank in range(RANKS)]
        through = [-0.1 * data[0, rank] * reduce(direct, axis=0) for rank in range(RANKS)]
        expected = start - reduce([one + other for one, other in zip(direct, through)], axis=0)
        np.testing.assert_allclose(value, expected, rtol=1e-6, err_msg="{} average={}".format(name, average))


def check_what_is_averaged_already(average):
    """Clipped, scaled, accumulated, decayed: averaged once. Of a mixture no sum can be told."""
    reduce = np.mean if average else np.sum
    with tf.Graph().as_default():
        own = [np.array([3.0, 4.0]) * (1 + rank) for rank in range(RANKS)]
        total = reduce(own, axis=0)
        w = tf.get_variable("w", initializer=np.zeros(2), use_resource=True)
        kept = tf.get_variable("kept", initializer=np.zeros(2), trainable=False, use_resource=True)
        slow = tf.get_variable("slow", initializer=np.zeros(2), trainable=False, use_resource=True)
        factor = tf.placeholder_with_default(tf.constant(0.5, tf.float64), [])
        optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), average=average)
        (g, _), = optimizer.compute_gradients(tf.reduce_sum(w * own[RANK]), [w])
        accumulate = kept.assign_add(g)
        with tf.control_dependencies([accumulate]):
            accumulated = kept.read_value()
        with tf.control_dependencies([slow.assign(0.5 * slow + g)]):
            decayed = slow.read_value()
        dense, sparse = (kind(tf.float64, [2]) for kind in (tf.ConditionalAccumulator, tf.SparseConditionalAccumulator))
        with tf.control_dependencies([dense.apply_grad(g)]):
            taken = dense.take_grad(1)
        with tf.control_dependencies([sparse.apply_indexed_slices_grad(
                tf.IndexedSlices(g, tf.constant([0, 1], tf.int64), [2]))]):
            taken_slices = sparse.take_indexed_slices_grad(1)
        queue = tf.FIFOQueue(2, [tf.float64, tf.float64], [[], [2]])
        with tf.control_dependencies([queue.enqueue([own[RANK][0], g])]):
            queued = queue.dequeue()[1]
        with tf.control_dependencies([queue.enqueue([0.0, g])]):
            queued_many = queue.dequeue_many(1)[1][0]
        area, by_key = (kind([tf.float64], [[2]]) for kind in (data_flow_ops.StagingArea, data_flow_ops.MapStagingArea))
        with tf.control_dependencies([area.put([g])]):
            staged, = area.get()
        with tf.control_dependencies([by_key.put(tf.constant(1, tf.int64), [g], [0])]):
            staged_by_key = by_key.get(tf.constant(1, tf.int64))[1][0]
        area.put([tf.zeros(tf.constant([2]), tf.float64)])  # to begin with
        count = exchanges()
        ways = [(tf.clip_by_norm(g, 1.0), total / np.linalg.norm(total)), (g * factor, 0.5 * total),
                (tf.clip_by_value(g, -5.0, 5.0), np.minimum(total, 5)), (g + 0.1 * w, total),
                (tf.where(tf.math.is_nan(g), tf.zeros_like(g), g), total), (accumulated, total),
                (queued, total), (queued_many, total), (staged, total), (staged_by_key, total),
                (decayed, total), (taken, total), (taken_slices, total),
                (tf.cast(tf.cast(g, tf.float32), tf.float64), total), (g - tf.reduce_mean(g), total - total.mean()),
                (tf.clip_by_norm(g, 1.0, axes=[0]), total / np.linalg.norm(total)),
                (g / tf.reduce_max(tf.abs(g), axis=0, keepdims=True), total / total.max())]
        steps = [optimizer.apply_gradients([(gradient, w)]) for gradient, _ in ways]
        check(exchanges() == count, "averaged twice")
        with session() as run:
            for step, (_, expected) in zip(steps, ways):
                run.run([w.initializer, kept.initializer, slow.initializer])
                run.run(step)
                np.testing.assert_allclose(run.run(w), -expected, rtol=1e-6)
        mixed = g * (1.0 + tf.reduce_sum(tf.gradients(tf.reduce_sum(tf.square(w) * own[RANK]), [w])[0]))
        noisy = g + tf.random.normal([2], dtype=tf.float64)
        for gradient in (mixed, noisy):
            if average:
                step = optimizer.apply_gradients([(gradient, w)])
                with session() as run:
                    run.run(step)
                    equal_on_all_ranks(run.run([w]))
            else:
                expect(ValueError, ["'w:0'", "compute_gradients"],
                       lambda gradient=gradient: optimizer.apply_gradients([(gradient, w)]))


def check_horovod_over_a_table():
    """Refused while the graph is built, however Horovod got hold of the gradient; dense variables are Horovod's."""
    train = tf.train.AdamOptimizer
    words = ["EmbeddingVariable", "Horovod", "sok1x.DistributedOptimizer"]

    def by_hand(model, exchange):
        gradient, = tf.gradients(model.loss, [model.table])
        train(0.1).apply_gradients([(exchange(gradient), model.table)])

    ways = {
        "minimize": lambda model: hvd.DistributedOptimizer(train(0.1)).minimize(model.loss, var_list=model.variables),
        "sum, only tables": lambda model: hvd.DistributedOptimizer(train(0.1), op=hvd.Sum).minimize(
            model.loss, var_list=[model.table]),
        "dense": lambda model: hvd.DistributedOptimizer(train(0.1), sparse_as_dense=True).minimize(
            model.loss, var_list=model.variables),
        "fp16": lambda model: hvd.DistributedOptimizer(train(0.1), compression=hvd.Compression.fp16).minimize(
            model.loss, var_list=model.variables),
        "groups": lambda model: hvd.DistributedOptimizer(train(0.1), groups=1).minimize(
            model.loss, var_list=model.variables),
        "around ours": lambda model: hvd.DistributedOptimizer(sok.DistributedOptimizer(train(0.1))).minimize(
            model.loss, var_list=model.variables),
        "our LazyAdam": lambda model: hvd.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(
            0.1)).minimize(model.loss, var_list=model.variables),
        "keras": lambda model: hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)).get_updates(
            model.loss, model.variables),
        "by hand": lambda model: by_hand(model, hvd.allreduce),
        "by hand, dense": lambda model: by_hand(model, lambda g: hvd.allreduce(tf.convert_to_tensor(g))),
        "scaled first": lambda model: by_hand(model, lambda g: hvd.allreduce(tf.IndexedSlices(
            g.values * 0.5, g.indices, g.dense_shape), op=hvd.Sum)),
        "a regularizer's": lambda model: hvd.DistributedOptimizer(train(0.1)).minimize(
            tf.reduce_sum(tf.square(model.table)), var_list=[model.table]),
        "passes": lambda model: hvd.DistributedOptimizer(train(0.1), backward_passes_per_step=2,
                                                         sparse_as_dense=True).minimize(
            model.loss, var_list=[model.table]),
    }
    for name, way in ways.items():
        with tf.Graph().as_default():
            try:
                expect(ValueError, words, lambda: way(Model()))
            except Exception as error:
                raise AssertionError(name) from error
    with tf.Graph().as_default():
        model = Model()
        expect(TypeError, ["Horovod"], lambda: sok.DistributedOptimizer(hvd.DistributedOptimizer(train(0.1))))
        expect(TypeError, ["Horovod"], lambda: sok.DistributedOptimizer(
            hvd_keras.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))))
        expect(TypeError, ["Horovod", "plain"], lambda: hvd_keras.DistributedOptimizer(
            sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))).get_updates(model.loss, model.dense))
        # What is right is left alone: Horovod for the dense ones, an average of something of the table.
        pairs = hvd.DistributedOptimizer(train(0.1)).compute_gradients(model.loss, model.dense)
        gradient, = tf.gradients(model.loss, [model.table])
        hvd.allreduce(tf.reduce_sum(tf.square(gradient.values)))
        train(0.1).apply_gradients(pairs + [(gradient, model.table)])
        local = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
        local.register_local_var(model.table)
        step = local.minimize(model.loss, var_list=model.variables)
        with session() as run:
            run.run(step, model.feed(np.random.RandomState(5)))


def main():
    random = np.random.RandomState(int(sys.argv[1]))
    check_replicas_stay_equal(random)  # the first: a process has the threads of its first session
    check_clipping(by_function, 200, random)
    check_clipping(by_keyword, 20, random)
    check_clipping(by_keras, 20, random)
    check_keras_clips(random)
    check_local_clipping_is_refused()
    for average in (True, False):
        check_inner_steps(average)
        check_what_is_averaged_already(average)
    hvd.init()
    check_clipping(by_keyword, 20, random)
    check_inner_steps(True)
    check_what_is_averaged_already(False)
    check_horovod_over_a_table()
    sys.stdout.write("done-{}\n".format(RANK))


main()
