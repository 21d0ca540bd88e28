"""Run by test_eager.py: checkpoints of eager programs, Horovod's functions, loss scales, and what is refused.

Each run goes on where the one before has ended, on another number of ranks.
"""
import importlib.util
import os
import pickle
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.session.tables import tables_of  # noqa: E402
from sok1x.core.eagerly import eager  # noqa: E402

DIM, KEYS, BATCH = 3, 20, 8
KERAS = tf.keras.optimizers


def rows(table):
    keys, values = sok.export(table)
    return dict(zip(keys.numpy().tolist(), values.numpy()))


class Model:
    def __init__(self, world):
        self.layer = sok.All2AllDenseEmbedding(None, DIM, 1, 1, init_capacity=2)
        self.bags = sok.DistributedEmbedding("sum", 64, DIM, 1, 2)
        self.static = sok.Variable(np.ones([KEYS, DIM], np.float32))
        self.tables = [self.layer.embedding_variable, self.bags.embedding_variable, self.static]
        self.kernel, self.counter = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(0, dtype=tf.int64)
        self.optimizer = sok.DistributedOptimizer(KERAS.legacy.Adam(0.05), average=False)
        self.world = world

    def step(self, random):
        keys, factors = random.randint(0, KEYS, BATCH), random.normal(size=BATCH).astype(np.float32)
        part = slice(self.world.rank, None, self.world.size)
        keys, factors = tf.constant(keys[part], tf.int64), tf.constant(factors[part])
        with tf.GradientTape() as tape:
            one_each = tf.SparseTensor(tf.stack([tf.range(len(keys), dtype=tf.int64), tf.zeros_like(keys)], axis=1),
                                       keys, [len(keys), 2])
            vectors = [tf.reshape(self.layer(tf.reshape(keys, [-1, 1, 1]), training=True), [-1, DIM]),
                       tf.reshape(self.bags(one_each, training=True), [-1, DIM]),
                       sok.lookup_sparse(self.static, one_each, combiners="sum")]
            loss = tf.reduce_sum(tf.add_n(vectors) ** 2 * self.kernel * factors[:, None])
        variables = self.tables + [self.kernel]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.counter.assign_add(1)

    def state(self):
        return [rows(table) for table in self.tables] + [{0: self.kernel.numpy()}]


class Wrapped:
    """Tables that grow, and others, each under a wrapper whose every step has a gradient of ones."""

    def __init__(self, world):
        self.keys = tf.constant(np.arange(KEYS)[world.rank::world.size])
        self.pairs = []
        for made in (KERAS.SGD(0.1, momentum=0.9), KERAS.legacy.SGD(0.1, momentum=0.9),
                     tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)):
            for table in (sok.Variable(np.ones([KEYS, DIM], np.float32)),
                          sok.DynamicVariable(dimension=DIM, initializer="ones", init_capacity=2)):
                self.pairs.append((sok.OptimizerWrapper(made), table))

    def build(self):
        for optimizer, table in self.pairs:
            optimizer.build([table])

    def step(self):
        for optimizer, table in self.pairs:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.all2all_dense_embedding(table, self.keys))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    def check(self, steps):
        row, velocity = np.ones(DIM), 0.0
        for _ in range(steps):
            velocity = 0.9 * velocity - 0.1
            row += velocity
        for _, table in self.pairs:
            for values in rows(table).values():
                np.testing.assert_allclose(values, row, rtol=1e-5)


def check_checkpoints(world, random, folder, rounds):
    model, wrapped = Model(world), Wrapped(world)
    if rounds:
        model.step(np.random.RandomState(0))  # makes the slots
        wrapped.build()
    manager = sok.CheckpointManager(os.path.join(folder, "run"), 2, checkpoint=tf.train.Checkpoint(
        layer=model.layer, bags=model.bags, kernel=model.kernel, counter=model.counter, optimizer=model.optimizer))
    assert manager.restore() == (3 * rounds or None)
    assert int(model.counter) == 3 * rounds
    if rounds:
        check_restored(model, folder, rounds)
        wrapped.check(3 * rounds)
    batches = [np.random.RandomState(seed) for seed in random.randint(0, 10 ** 6, 3 * rounds + 3)]
    for batch in batches[3 * rounds:]:
        model.step(batch)
        wrapped.step()
    wrapped.check(3 * rounds + 3)
    assert manager.save(step=int(model.counter)).endswith(str(3 * rounds + 3))
    saved = model.state()
    model.step(np.random.RandomState(1))
    assert manager.restore() == 3 * rounds + 3
    for before, after in zip(saved, model.state()):
        assert sorted(before) == sorted(after)
        for key, row in after.items():
            np.testing.assert_array_equal(row, before[key])
    with open(os.path.join(folder, "state-{}-{}.pickle".format(rounds, world.rank)), "wb") as file:
        pickle.dump(saved, file)


def check_restored(model, folder, rounds):
    """This rank has what the ranks of the round before had, as far as it is its own."""
    there = [{} for _ in model.state()]
    for name in os.listdir(folder):
        if name.startswith("state-{}-".format(rounds - 1)):
            with open(os.path.join(folder, name), "rb") as file:
                for every, some in zip(there, pickle.load(file)):
                    every.update(some)
    for every, mine in zip(there[:-1], model.state()):
        assert sorted(mine) == [key for key in sorted(every) if key % model.world.size == model.world.rank]
        for key, row in mine.items():
            np.testing.assert_array_equal(row, every[key])
    np.testing.assert_array_equal(model.kernel.numpy(), there[-1][0])


def check_horovod(world):
    import horovod.tensorflow as hvd
    hvd.init()
    table, weight = sok.Variable(np.arange(8).reshape(4, 2).astype(np.float32)), tf.Variable([0.0])
    before, optimizer = rows(table), KERAS.SGD(1.0)
    for inplace in (False, True):
        weight.assign([1.0 + world.rank])
        hvd.broadcast_variables([table, weight], 0, inplace=inplace)
        assert weight.numpy().tolist() == [1.0]
        for key, row in rows(table).items():
            np.testing.assert_array_equal(row, before[key])

    def step():
        ids = tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [1, 1])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.lookup_sparse(table, ids, combiners="sum")) * weight[0] * (world.rank + 1)
        found, of_weight = hvd.DistributedGradientTape(tape).gradient(loss, [table, weight])
        optimizer.apply_gradients([(found, table)])
        return of_weight
    for call, first in ((step, [2.0, 3.0]), (tf.function(step), [-1.0, 0.0])):
        of_weight = call()
        # Of the table the sum over the ranks, 1 + 2; of the weight what Horovod makes of it, the average.
        np.testing.assert_allclose(of_weight.numpy(), [sum(first) * 1.5])
        for key, row in rows(table).items():
            if key == 1:
                np.testing.assert_allclose(row, np.array(first) - 3.0)


def check_loss_scales(world):
    for made in (KERAS.SGD, KERAS.legacy.SGD):
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(made(0.5), dynamic=True, initial_scale=64)
        table, weight = sok.Variable(np.ones([4, 2], np.float32)), tf.Variable([1.0, 1.0])

        @tf.function
        def step(factor):
            ids = tf.SparseTensor([[0, 0]], tf.constant([world.rank], tf.int64), [1, 1])
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.lookup_sparse(table, ids, combiners="sum") * weight) * factor
                scaled = optimizer.get_scaled_loss(loss)
            pairs = zip(optimizer.get_unscaled_gradients(tape.gradient(scaled, [table, weight])), [table, weight])
            optimizer.apply_gradients(pairs)
        for factor, scale in ((1.0, 64.0), (np.inf if world.rank == world.size - 1 else 1.0, 32.0)):
            step(tf.constant(factor))
            assert float(optimizer.loss_scale) == scale, (float(optimizer.loss_scale), scale)
            assert weight.numpy().tolist() == [0.5, 0.5], weight
            assert rows(table)[world.rank].tolist() == [0.5, 0.5], rows(table)


def check_summed_once(world):
    """A dense gradient that `minimize` computes, which sums it, and then divides by the loss scale."""
    for made in (KERAS.SGD, KERAS.legacy.SGD):
        for in_function in (False, True):
            weight = tf.Variable([1.0, 2.0])
            optimizer = tf.keras.mixed_precision.LossScaleOptimizer(sok.DistributedOptimizer(made(0.5), average=False))

            def step():
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(weight) * (world.rank + 1.0)
                optimizer.minimize(loss, [weight], tape=tape)
            (tf.function(step) if in_function else step)()
            total = world.size * (world.size + 1) / 2
            np.testing.assert_allclose(weight.numpy(), np.array([1.0, 2.0]) - 0.5 * total)


def check_names():
    """A slot has one name in checkpoints, wherever it was made: tf.functions and `fit` open scopes, `build` none."""
    def step(optimizer, table):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([1])))
        optimizer.minimize(loss, [table], tape=tape)

    class OneTable(tf.keras.Model):
        def __init__(self, table):
            super().__init__()
            self.table, self.last = table, tf.keras.layers.Dense(1)

        def call(self, keys):
            return self.last(sok.all2all_dense_embedding(self.table, tf.reshape(keys, [-1])))

    def fit(optimizer, table):
        model = OneTable(table)
        model.compile(optimizer, "mse")
        model.fit(np.ones([2, 1], np.int64), np.ones([2, 1]), batch_size=2, verbose=0)

    def build(optimizer, table):
        getattr(optimizer, "build", getattr(optimizer, "_create_all_weights", None))([table])

    for made, expected in ((KERAS.Adam, ["Adam/m/{}", "Adam/v/{}"]), (KERAS.legacy.Adam, ["Adam/{}/m", "Adam/{}/v"]),
                           (lambda: tf.keras.mixed_precision.LossScaleOptimizer(KERAS.SGD(0.1, momentum=0.9)),
                            ["SGD/m/{}"])):
        for make_slots in (step, tf.function(step), fit, build):
            table, optimizer = sok.Variable(np.ones([4, 2], np.float32)), made()
            make_slots(optimizer, table)
            found, = [one.parts for one in tables_of(eager.graph()) if one.variable is table]
            assert sorted(part for part in found if part.startswith("slot:")) == [
                "slot:" + name.format(table.table.name) for name in expected], sorted(found)


def check_refusals(folder):
    """Before a file is written."""
    table = sok.DynamicVariable(dimension=2, cache_rows=16)
    try:
        tf.train.Checkpoint(table=table).write(os.path.join(folder, "refused", "all"))
    except RuntimeError as error:
        assert "has a cache" in str(error) and "CheckpointManager" in str(error), error
        assert not os.path.exists(os.path.join(folder, "refused", "all.index"))
    else:
        raise AssertionError("no error")
    layer = sok.All2AllDenseEmbedding(16, 2, 1, 1)
    try:
        tf.function(lambda: layer(tf.constant([[[1]]], tf.int64), training=True), jit_compile=True)()
    except ValueError as error:
        assert "XLA" in str(error) and "jit_compile" in str(error), error
    else:
        raise AssertionError("no error")
    check_unfit_optimizers(layer.embedding_variable)


def check_unfit_optimizers(hashed):
    """Averages of rows that have not come yet, and means over rows that other ranks have, would be wrong."""
    for made, table, words in ((lambda: KERAS.SGD(0.1, use_ema=True), hashed, "use_ema"),
                               (lambda: KERAS.Adafactor(0.1), hashed, "Adafactor"),
                               (lambda: KERAS.Adafactor(0.1), sok.Variable(np.ones([4, 2], np.float32)), "Adafactor")):
        before = table.numpy()
        try:
            made().apply_gradients([(tf.ones_like(table), table)])
        except ValueError as error:
            assert words in str(error) and table.table.name in str(error), error
        else:
            raise AssertionError("no error: {}".format(words))
        np.testing.assert_array_equal(table.numpy(), before)


def check_averages(random):
    """Those of use_ema are put in place, by a wrapper too, as of a variable that begins as this shard."""
    ours, ends = sok.Variable(random.randn(4, 2).astype(np.float32)), []
    gradient = tf.constant(random.randn(*ours.shape).astype(np.float32))
    for variable, wrap in ((tf.Variable(ours.numpy()), lambda made: made), (ours, sok.OptimizerWrapper)):
        optimizer = wrap(KERAS.SGD(0.1, use_ema=True, ema_momentum=0.5))
        for _ in range(2):
            optimizer.apply_gradients([(gradient, variable)])
        stepped = variable.numpy()
        optimizer.finalize_variable_values([variable])
        ends.append(variable.numpy())
        assert (stepped != ends[-1]).any()
    np.testing.assert_array_equal(*ends)


def main(seed, folder, rounds):
    sok.init()
    world = launch.current()
    check_checkpoints(world, np.random.RandomState(seed), folder, rounds)
    if not rounds:
        if importlib.util.find_spec("horovod") or tf.__version__.startswith("2.15."):  # later ones have none
            check_horovod(world)
        check_loss_scales(world)
        check_summed_once(world)
        check_names()
        check_refusals(folder)
        check_averages(np.random.RandomState(seed))
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
