"""Run on two ranks: whose gradients are averaged, clipped and exchanged how, right or refused.

    mpiexec -np 2 python program_gradients.py SEED

First over sok1x's own communicator, then over Horovod, which is initialized in between.
"""
import os
import sys

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
RANK, RANKS = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
KEYS, DIM, BATCH = 20, 3, 4


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def session():
    run = v1.Session()
    run.run(sok.Init(global_batch_size=RANKS * BATCH, seed=3))
    run.run(v1.global_variables_initializer())
    return run


def equal_on_all_ranks(values):
    """The bits of a list of arrays."""
    every = MPI.COMM_WORLD.allgather([np.asarray(value).tobytes() for value in values])
    check(all(other == every[0] for other in every), "replicas differ")


class Model:
    """A table that is looked up twice, and dense variables; `stock` is the same on one rank, with all ranks' batch."""

    def __init__(self):
        # Rows of 20 keys on every rank, whichever it owns.
        self.layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 2, embedding_initializer="normal", use_hashtable=False)
        self.keys = v1.placeholder(tf.int64, [None, 1, 2])
        self.every = v1.placeholder(tf.int64, [None, 1, 2])
        start = np.random.RandomState(7).randn(DIM, 2).astype(np.float32)
        self.dense = [v1.get_variable("w", initializer=start, use_resource=True),
                      v1.get_variable("b", initializer=np.float32(0.5), use_resource=True)]
        self.stock_dense = [v1.get_variable("stock_w", initializer=start, use_resource=True),
                            v1.get_variable("stock_b", initializer=np.float32(0.5), use_resource=True)]
        self.stock_table = v1.get_variable("stock_table", [KEYS, DIM], use_resource=True)
        self.table = self.layer.embedding_variable
        self.variables = [self.table] + self.dense
        self.stock = [self.stock_table] + self.stock_dense
        self.loss = self._loss(self.layer, self.keys, self.dense)
        self.stock_loss = self._loss(lambda keys: tf.gather(self.stock_table, keys), self.every, self.stock_dense)
        self.rows = self.layer(tf.constant(np.arange(KEYS).reshape(-1, 1, 2)), training=False)

    @staticmethod
    def _loss(look, keys, dense):
        """A sum over samples, so that the ranks' losses add up to that of all."""
        vectors = tf.reduce_sum(look(keys), [1, 2]) * tf.reduce_sum(look((keys + 1) % KEYS), [1, 2])
        return tf.reduce_sum(tf.square(tf.matmul(vectors, dense[0]) + dense[1] - 1.0)) / (RANKS * BATCH)

    def stock_gradients(self):
        """Of the whole batch, dense: no row twice."""
        return [tf.convert_to_tensor(gradient) for gradient in tf.gradients(self.stock_loss, self.stock)]

    def start(self, run):
        self.stock_table.load(run.run(self.rows).reshape(KEYS, DIM), run)

    def feed(self, random):
        batches = [random.randint(0, KEYS, [BATCH, 1, 2]) for _ in range(RANKS)]
        return {self.keys: batches[RANK], self.every: np.concatenate(batches)}

    def compare(self, run, tolerance):
        ours, stock = run.run([self.rows, self.dense]), run.run([self.stock_table, self.stock_dense])
        np.testing.assert_allclose(ours[0].reshape(KEYS, DIM), stock[0], rtol=tolerance, atol=tolerance)
        for one, other in zip(ours[1], stock[1]):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def by_function(model, norms):
    optimizer = sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.05, 0.5), average=False)
    gradients, variables = zip(*optimizer.compute_gradients(model.loss, model.variables))
    clipped, norm = sok.clip_by_global_norm(list(gradients) + [None], 0.3)
    check(clipped.pop() is None and isinstance(clipped[0], tf.IndexedSlices))
    norms.append(norm)
    before = exchanges()
    step = optimizer.apply_gradients(zip(clipped, variables))
    check(exchanges() == before, "what is clipped is summed already", exchanges())
    return step


def by_keyword(model, norms):
    return sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.05, 0.5), average=False,
                                    clip_norm=0.3).minimize(model.loss, var_list=model.variables)


def by_keras(model, norms):
    optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, momentum=0.5), average=False,
                                         clip_norm=tf.constant(0.3))
    return tf.group(*optimizer.get_updates(model.loss, model.variables))


def check_clipping(make, steps, random):
    """The same as one rank with the whole batch; dense replicas equal bit for bit, and so is the norm."""
    with tf.Graph().as_default():
        model, norms = Model(), []
        step = make(model, norms)
        clipped, norm = tf.clip_by_global_norm(model.stock_gradients(), 0.3)
        stock_step = v1.train.MomentumOptimizer(0.05, 0.5).apply_gradients(zip(clipped, model.stock))
        with session() as run:
            model.start(run)
            clips = 0
            for i in range(steps):
                found = run.run([step, stock_step, norm] + norms, model.feed(random))
                clips += found[2] > 0.3
                if norms:
                    # Later gradients are small differences of large values.
                    np.testing.assert_allclose(found[3], found[2], rtol=1e-4 if i < 10 else 0, atol=1e-3 * (i >= 10))
                    equal_on_all_ranks(found[3:])
            check(clips > 1, "nothing was clipped")
            model.compare(run, 1e-3)
            equal_on_all_ranks(run.run(model.dense + [
                variable for variable in v1.global_variables() if variable.name in ("w/Momentum:0", "b/Momentum:0")]))


def check_keras_clips(random):
    """clipnorm and clipvalue of a Keras optimizer, of each variable by itself, as on one rank."""
    for options in ({"clipnorm": 0.1}, {"clipvalue": 0.02}):
        for minimize in (False, True):
            with tf.Graph().as_default():
                model = Model()
                optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, **options), average=False)
                if minimize:
                    step = optimizer.minimize(lambda: Model._loss(model.layer, model.keys, model.dense),
                                              model.variables)
                else:
                    step = optimizer.get_updates(model.loss, model.variables)
                check(optimizer.get_config().items() >= options.items(), "the limits are gone")
                stock = tf.keras.optimizers.SGD(0.05)
                limit = (lambda g: tf.clip_by_norm(g, 0.1)) if "clipnorm" in options else (
                    lambda g: tf.clip_by_value(g, -0.02, 0.02))
                stock_step = stock.apply_gradients([
                    (limit(g), v) for g, v in zip(model.stock_gradients(), model.stock)])
                with session() as run:
                    model.start(run)
                    for _ in range(4):
                        run.run([step, stock_step], model.feed(random))
                    if "clipnorm" in options:  # by value, TensorFlow clips each part of a row that occurs twice
                        model.compare(run, 1e-3)
                    equal_on_all_ranks(run.run(model.dense))


def exchanges():
    """How many ops of the graph add values up over the ranks."""
    return sum(op.type.startswith("HorovodAllreduce") or op_types.is_ours(op) and op.get_attr(
        "function") == b"operations.collectives.all_reduce" for op in v1.get_default_graph().get_operations())


def expect(error, words, make):
    try:
        make()
    except error as caught:
        for word in words:
            check(word in str(caught), word, str(caught))
    else:
        raise AssertionError("nothing was refused: {}".format(words))


def check_local_clipping_is_refused():
    """TensorFlow's own clipping by norms over a table's gradient, before any optimizer applies it."""
    train = v1.train.GradientDescentOptimizer
    for apply_table in (True, False):
        with tf.Graph().as_default():
            model = Model()
            optimizer = sok.DistributedOptimizer(train(0.1))
            gradients, variables = zip(*optimizer.compute_gradients(model.loss, model.variables))
            clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
            apply = (lambda: train(0.1).apply_gradients([(clipped[0], variables[0])])) if apply_table else (
                lambda: optimizer.apply_gradients(zip(clipped[1:], variables[1:])))
            expect(ValueError, ["sok1x.clip_by_global_norm", "w:0" if not apply_table else "EmbeddingVariable"], apply)
            expect(ValueError, ["use_norm"], lambda: sok.clip_by_global_norm(gradients, 1.0, use_norm=norm))
    with tf.Graph().as_default():  # weights have a gradient too, and an optimizer has it wait for the table's
        table, ids = sok.DynamicVariable(2, name="items"), tf.ragged.constant([[RANK], [7]], dtype=tf.int64)
        out = sok.lookup_sparse(table, ids, tf.ragged.constant([[2.0], [3.0]]), "sum")
        pairs = train(0.1).compute_gradients(tf.reduce_sum(out), [table])
        assert "control_dependency" in pairs[0][0].values.name
        expect(ValueError, ["table 'items'", "scaled"], lambda: train(0.1).apply_gradients(
            [(tf.clip_by_global_norm([pairs[0][0]], 1.0)[0][0], table)]))
        sok.clip_by_global_norm([pairs[0][0]], 1.0)
    with tf.Graph().as_default():
        model = Model()
        expect(ValueError, ["not averaged"], lambda: sok.clip_by_global_norm(
            tf.gradients(model.loss, model.variables), 1.0))
        expect(ValueError, ["sok1x.DistributedOptimizer"], lambda: tf.keras.optimizers.SGD(
            0.1, clipnorm=1.0).get_updates(model.loss, [model.table]))
    with tf.Graph().as_default():  # what merely looks at norms is nobody's harm
        model = Model()
        optimizer = sok.DistributedOptimizer(train(0.1))
        pairs = optimizer.compute_gradients(model.loss, model.variables)
        tf.summary.scalar("norm", tf.linalg.global_norm([gradient for gradient, _ in pairs]))
        penalty = tf.reduce_sum(tf.square(pairs[1][0]))
        optimizer.apply_gradients(pairs)
        optimizer.minimize(model.loss + 0.1 * penalty, var_list=model.dense)
        sok.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0, use_norm=sok.global_norm(
            [gradient for gradient, _ in pairs]))


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
            w = v1.get_variable("w", initializer=np.array([1.0, 2.0, 3.0]), use_resource=True)
            inner, outer = tf.constant(data[0, RANK]), tf.constant(data[1, RANK])
            base = tf.keras.optimizers.SGD(1.0) if name == "keras" else v1.train.GradientDescentOptimizer(1.0)
            optimizer = sok.DistributedOptimizer(base, average=average)
            train = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), average=average)

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
        w = v1.get_variable("w", initializer=np.zeros(2), use_resource=True)
        kept = v1.get_variable("kept", initializer=np.zeros(2), trainable=False, use_resource=True)
        slow = v1.get_variable("slow", initializer=np.zeros(2), trainable=False, use_resource=True)
        factor = v1.placeholder_with_default(tf.constant(0.5, tf.float64), [])
        optimizer = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), average=average)
        (g, _), = optimizer.compute_gradients(tf.reduce_sum(w * own[RANK]), [w])
        accumulate = kept.assign_add(g)
        with tf.control_dependencies([accumulate]):
            accumulated = kept.read_value()
        with tf.control_dependencies([slow.assign(0.5 * slow + g)]):
            decayed = slow.read_value()
        dense, sparse = (kind(tf.float64, [2]) for kind in (v1.ConditionalAccumulator, v1.SparseConditionalAccumulator))
        with tf.control_dependencies([dense.apply_grad(g)]):
            taken = dense.take_grad(1)
        with tf.control_dependencies([sparse.apply_indexed_slices_grad(
                tf.IndexedSlices(g, tf.constant([0, 1], tf.int64), [2]))]):
            taken_slices = sparse.take_indexed_slices_grad(1)
        count = exchanges()
        ways = [(tf.clip_by_norm(g, 1.0), total / np.linalg.norm(total)), (g * factor, 0.5 * total),
                (tf.clip_by_value(g, -5.0, 5.0), np.minimum(total, 5)), (g + 0.1 * w, total),
                (tf.where(tf.math.is_nan(g), tf.zeros_like(g), g), total), (accumulated, total),
                (decayed, total), (taken, total), (taken_slices, total),
                (tf.cast(tf.cast(g, tf.float32), tf.float64), total)]
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
    train = v1.train.AdamOptimizer
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
        local = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
        local.register_local_var(model.table)
        step = local.minimize(model.loss, var_list=model.variables)
        with session() as run:
            run.run(step, model.feed(np.random.RandomState(5)))


def main():
    random = np.random.RandomState(int(sys.argv[1]))
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
