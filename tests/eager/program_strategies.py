"""Run by test_eager_strategies.py: tables in the scope of strategies with one replica, against the same without one."""
import contextlib
import os
import shutil
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KERAS = tf.keras.optimizers
CPU = "/cpu:0"
KEYS, SLOTS, DIM = 12, 2, 3
STEPS = [  # strategy, optimizer, whether in a tf.function
    (lambda: tf.distribute.MirroredStrategy([CPU]), lambda: KERAS.Adagrad(0.1), True),
    (lambda: tf.distribute.MirroredStrategy([CPU]), lambda: KERAS.legacy.SGD(0.01, momentum=0.5), False),
    (tf.distribute.MultiWorkerMirroredStrategy, lambda: KERAS.legacy.Adagrad(0.1), True)]


def scope(strategy):
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def rows(table):
    """Of this rank, in the order of keys."""
    keys, values = sok.export(table)
    return values.numpy()[keys.numpy().argsort()]


def trained(strategy, made, in_function, seed, outside=False):
    """Losses, and what has been trained. All rows begin alike: tables of another name have other rows.

    outside: whether the tables are made before the scope is entered."""
    with scope(None if outside else strategy):
        layer = sok.All2AllDenseEmbedding(2 * KEYS, DIM, SLOTS, 1, embedding_initializer="ones")
        grown = sok.DynamicVariable(dimension=DIM, init_capacity=2, initializer="ones")
    with scope(strategy):
        kernel = tf.Variable(np.linspace(0, 1, 3 * DIM, dtype=np.float32)[:, None])
        optimizer = sok.DistributedOptimizer(made(), average=False)
    variables = [layer.embedding_variable, grown, kernel]

    def step(keys):
        one_each = tf.sparse.from_dense(keys[:, 0] + 1)
        one_each = tf.SparseTensor(one_each.indices, one_each.values - 1, one_each.dense_shape)
        with tf.GradientTape() as tape:
            vectors = tf.concat([tf.reshape(layer(keys, training=True), [-1, SLOTS * DIM]),
                                 sok.lookup_sparse(grown, one_each, combiners="sum")], axis=1)
            loss = tf.reduce_sum((tf.matmul(vectors, kernel) - 1.0) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def run(keys):
        return step(keys) if strategy is None else strategy.run(step, args=(keys,))

    call, random = tf.function(run) if in_function else run, np.random.RandomState(seed)
    losses = [float(call(tf.constant(random.randint(0, KEYS, [6, SLOTS, 1]), tf.int64))) for _ in range(3)]
    return [np.array(losses), rows(variables[0]), rows(variables[1]), kernel.numpy()]


def scaled(strategy, made, distributed, in_function, world):
    """What is left of steps whose loss is scaled, and which the last rank cannot take twice, for its table alone."""
    with scope(strategy):
        layer = sok.All2AllDenseEmbedding(2 * KEYS, DIM, SLOTS, 1, embedding_initializer="ones")
        kernel = tf.Variable(np.linspace(1, 2, DIM, dtype=np.float32))
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
            sok.DistributedOptimizer(made(), average=False) if distributed else made(), initial_scale=64,
            dynamic_growth_steps=2)
    variables = [layer.embedding_variable, kernel]

    def step(keys, factor):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(keys, training=True)) * factor + tf.reduce_sum(kernel ** 2)
            loss = optimizer.get_scaled_loss(loss)
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(tape.gradient(loss, variables)), variables))

    def run(keys, factor):
        return step(keys, factor) if strategy is None else strategy.run(step, args=(keys, factor))

    call, keys = tf.function(run) if in_function else run, np.full([2, SLOTS, 1], world.rank)  # a row of this rank's
    for number in range(6):
        is_bad = number in (1, 3) and world.rank == world.size - 1
        call(tf.constant(keys, tf.int64), tf.constant(np.inf if is_bad else 0.5, tf.float32))
    assert float(tf.convert_to_tensor(optimizer.loss_scale)) == 32, optimizer.loss_scale  # two halvings, one doubling
    return [rows(variables[0]), kernel.numpy(), optimizer.iterations.numpy()]


def fitted(strategy, seed):
    """What Keras has made of a model that was compiled in the scope."""
    tf.keras.utils.set_random_seed(1)
    with scope(strategy):
        layer = sok.All2AllDenseEmbedding(2 * KEYS, DIM, SLOTS, 1, embedding_initializer="ones")
        inputs = tf.keras.Input([SLOTS, 1], dtype=tf.int64)
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(layer(inputs))))
        model.compile(sok.DistributedOptimizer(KERAS.Adagrad(0.1), average=False), "mse")
    random = np.random.RandomState(seed)
    keys, labels = random.randint(0, KEYS, [12, SLOTS, 1]), random.normal(size=[12, 1]).astype(np.float32)
    history = model.fit(keys, labels, batch_size=6, epochs=2, shuffle=False, verbose=0)
    return [np.array(history.history["loss"]), rows(layer.embedding_variable),
            np.array(model.evaluate(keys, labels, batch_size=6, verbose=0)),
            model.predict(keys, batch_size=6, verbose=0)]


def restored(strategy, folder):
    """Rows of a table that grows, trained on by an optimizer that was restored before its first step."""
    def build():
        with scope(strategy):
            table = sok.DynamicVariable(dimension=DIM, init_capacity=2, initializer="ones", name="restored")
            optimizer = KERAS.legacy.Adagrad(0.1)
        checkpoint = tf.train.Checkpoint(table=table, optimizer=optimizer)

        def step(keys):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant(keys, tf.int64)) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        return table, checkpoint, step

    table, checkpoint, step = build()
    step([0, 1, 2, 3])
    path = checkpoint.write(folder)
    table, checkpoint, step = build()
    checkpoint.read(path)
    step([2, 3, 4, 5])
    return [rows(table)]


def expect_equal(expected, found):
    for one, other in zip(expected, found):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def check_refused(strategy):
    """A table, and the slots of one that has been made outside."""
    table = sok.All2AllDenseEmbedding(8, 2, 1, 1).embedding_variable
    for make in (lambda: sok.All2AllDenseEmbedding(8, 2, 1, 1), lambda: KERAS.SGD(0.1).build([table])):
        try:
            with strategy.scope():
                make()
        except ValueError as error:
            assert all(word in str(error) for word in ("mpiexec", type(strategy).__name__, "2 replicas")), error
        else:
            raise AssertionError("no error")


def check_steps_refused(strategy):
    """A step that needs no slots, of a table made outside: each replica would take it."""
    table = sok.All2AllDenseEmbedding(8, 2, 1, 1, embedding_initializer="ones").embedding_variable
    sok.assign(table, [launch.current().rank], [[2.0, 3.0]])
    before = rows(table)
    try:
        with strategy.scope():
            strategy.extended.update(table, lambda shard: shard.assign(shard + 1.0))
    except ValueError as error:
        assert all(word in str(error) for word in ("mpiexec", type(strategy).__name__, "2 replicas")), error
    else:
        raise AssertionError("no error")
    np.testing.assert_array_equal(rows(table), before)


def check_merge_call():
    """Of replicas, with TensorFlow's own names of its arguments, outside of all strategies and inside of one."""
    def doubled():
        return tf.distribute.get_replica_context().merge_call(
            merge_fn=lambda strategy, x, factor: x * factor, args=(3,), kwargs={"factor": 2})

    assert doubled() == 6 and tf.distribute.MirroredStrategy([CPU]).run(doubled) == 6


def main(seed):
    # Before anything runs: a second CPU, of the kind of which there are several in a process.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    sok.init()
    world = launch.current()
    seed += world.rank
    check_refused(tf.distribute.MirroredStrategy([CPU, "/cpu:1"]))
    check_steps_refused(tf.distribute.MirroredStrategy([CPU, "/cpu:1"]))
    for strategy, optimizer, in_function in STEPS:
        if "legacy" not in optimizer().__module__:  # which refuse slots of variables that are not of their scope
            expect_equal(trained(None, optimizer, False, seed), trained(strategy(), optimizer, in_function, seed, True))
        expect_equal(trained(None, optimizer, False, seed), trained(strategy(), optimizer, in_function, seed))
    for number, made in enumerate([lambda: KERAS.SGD(0.1), lambda: KERAS.legacy.SGD(0.1),
                                   lambda: KERAS.SGD(0.1, clipnorm=0.5), lambda: KERAS.legacy.SGD(0.1, clipnorm=0.5)]):
        for distributed in (False, True) if number < 2 else (True,):
            expect_equal(*[scaled(strategy, made, distributed, number % 2 == 0, world)
                           for strategy in (None, tf.distribute.MirroredStrategy([CPU]))])
    expect_equal(fitted(None, seed), fitted(tf.distribute.MirroredStrategy([CPU]), seed))
    if world.size == 1:
        folder = tempfile.mkdtemp()
        expect_equal(*[restored(strategy, os.path.join(folder, "of_both")) for strategy in (
            None, tf.distribute.MirroredStrategy([CPU]))])
        shutil.rmtree(folder)
    check_merge_call()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
