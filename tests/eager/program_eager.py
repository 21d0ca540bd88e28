"""Run by test_eager.py: tables in eager execution and in tf.functions, against TensorFlow's own variables.

Every rank has a part of each batch; TensorFlow's model sees all of it, on each rank, and the gradients of a table are
summed over the ranks: so both are equal, whatever the number of ranks.
"""
import sys
import threading

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, SLOTS, BATCH = 30, 3, 2, 12
KERAS = tf.keras.optimizers
OPTIMIZERS = {
    "SGD": lambda: KERAS.SGD(0.1), "Adam": lambda: KERAS.Adam(0.05), "Adagrad": lambda: KERAS.Adagrad(0.1),
    "legacy SGD": lambda: KERAS.legacy.SGD(0.1, momentum=0.9), "legacy Adam": lambda: KERAS.legacy.Adam(0.05),
    "train": lambda: tf.compat.v1.train.AdagradOptimizer(0.1),
    "compiled": lambda: KERAS.SGD(0.1), "compiled Adam": lambda: KERAS.Adam(0.05)}


def bags(keys):
    """[B, S, 2] of keys as a SparseTensor [B S, 2]."""
    return tf.sparse.from_dense(tf.reshape(keys, [-1, 2]) + 1), tf.reshape(keys, [-1, 2])


class Ours(tf.Module):
    def __init__(self, first, kernel):
        super().__init__()
        self.dense = sok.All2AllDenseEmbedding(KEYS, DIM, SLOTS, 2, use_hashtable=False)
        self.sparse = sok.DistributedEmbedding("mean", KEYS, DIM, SLOTS, 2)
        self.table = sok.Variable(first)
        self.kernel = tf.Variable(kernel)

    def start(self, first):
        every = tf.range(KEYS, dtype=tf.int64)
        for table in (self.dense.embedding_variable, self.sparse.embedding_variable):
            sok.assign(table, every, first)

    def __call__(self, keys):
        sparse, _ = bags(keys)
        found = [tf.reduce_sum(self.dense(keys, training=True), axis=2),
                 self.sparse(tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape), training=True),
                 tf.reshape(sok.lookup_sparse(self.table, tf.SparseTensor(
                     sparse.indices, sparse.values - 1, sparse.dense_shape), combiners="sum"), [-1, SLOTS, DIM])]
        return tf.reduce_sum(tf.concat(found, axis=2) * self.kernel, axis=[1, 2])

    def tables(self):
        return [self.dense.embedding_variable, self.sparse.embedding_variable, self.table]


class Stock(tf.Module):
    def __init__(self, first, kernel):
        super().__init__()
        self.tables = [tf.Variable(first) for _ in range(3)]
        self.kernel = tf.Variable(kernel)

    def __call__(self, keys):
        found = [tf.reduce_sum(tf.gather(self.tables[0], keys), axis=2),
                 tf.reduce_mean(tf.gather(self.tables[1], keys), axis=2),
                 tf.reduce_sum(tf.gather(self.tables[2], keys), axis=2)]
        return tf.reduce_sum(tf.concat(found, axis=2) * self.kernel, axis=[1, 2])


def rows(table):
    """Of this rank: {key: row}."""
    keys, values = sok.export(table)
    return dict(zip(keys.numpy().tolist(), values.numpy()))


def train(name, world, random, in_function):
    first = random.normal(size=[KEYS, DIM]).astype(np.float32)
    kernel = random.normal(size=[SLOTS, 3 * DIM]).astype(np.float32)
    ours, stock = Ours(first, kernel), Stock(first, kernel)
    ours.start(first)
    optimizer = sok.DistributedOptimizer(OPTIMIZERS[name](), average=False)
    if "compiled" in name:
        optimizer.jit_compile = True  # what Keras sets where there is a GPU, and XLA compiles for CPUs too
    other = OPTIMIZERS[name]()

    def step(model, taken, keys, targets, variables):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(keys) - targets) ** 2) / BATCH
        taken.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    our_step = tf.function(step, reduce_retracing=world.rank == 0) if in_function else step
    mine, theirs = ours.tables() + [ours.kernel], stock.tables + [stock.kernel]
    for number in range(4):
        # Parts differ in size, so that tf.functions are traced anew, each rank's in other steps.
        cuts = [0] + sorted(random.randint(1, BATCH, world.size - 1).tolist()) + [BATCH]
        keys = random.randint(0, KEYS, [BATCH, SLOTS, 2])
        targets = random.normal(size=[BATCH]).astype(np.float32)
        part = slice(cuts[world.rank], cuts[world.rank + 1])
        our_step(ours, optimizer, tf.constant(keys[part], tf.int64), tf.constant(targets[part]), mine)
        step(stock, other, tf.constant(keys, tf.int64), tf.constant(targets), theirs)
    for table, expected in zip(ours.tables(), stock.tables):
        found = {key: row for key, row in rows(table).items() if key < KEYS}
        assert found, "this rank has rows"
        for key, row in found.items():
            np.testing.assert_allclose(row, expected.numpy()[key], rtol=2e-4, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(ours.kernel.numpy(), stock.kernel.numpy(), rtol=2e-4, atol=2e-5, err_msg=name)
    return ours, optimizer


def check_dumps(ours, optimizer, folder, world):
    table = ours.table
    before = rows(table)
    sok.dump(folder, [table], optimizer)
    sok.assign(table, tf.range(KEYS, dtype=tf.int64), tf.zeros([KEYS, DIM]))
    assert not np.any(list(rows(table).values()))
    sok.load(folder, [table], optimizer)
    for key, row in rows(table).items():
        np.testing.assert_array_equal(row, before[key])


def check_stamps(ours):
    table = ours.dense.embedding_variable
    since = int(table.steps.numpy())
    assert len(sok.incremental_dump(table, since)[0]) == 0
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(ours.dense(tf.constant([[[1, 1], [2, 2]]], tf.int64), training=True))
    KERAS.legacy.SGD(0.1).apply_gradients(zip(tape.gradient(loss, [table]), [table]))
    found = sok.incremental_dump(table, since)[0].tolist()
    assert set(found) <= {1, 2} and found or launch.current().size > 1, found


def check_loops(world):
    table = sok.Variable(np.zeros([4, 1], np.float32))

    @tf.function
    def loop(keys):
        total = tf.zeros([])
        for _ in tf.range(3):
            ids = tf.SparseTensor([[0, 0]], keys, [1, 1])
            total += tf.reduce_sum(sok.lookup_sparse(table, ids, combiners="sum"))
            sok.assign(table, keys, tf.fill([1, 1], total + 1.0))
        return total
    assert float(loop(tf.constant([2], tf.int64))) in (0.0 + 1.0 + 2.0,)


def check_strategies():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        layer, optimizer = sok.All2AllDenseEmbedding(8, 2, 1, 1), KERAS.Adam(0.1)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant([[[1]]], tf.int64), training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, [layer.embedding_variable]), [layer.embedding_variable]))
        return loss
    assert float(strategy.run(step)) > float(strategy.run(step))


def check_names():
    """Two threads that make the process's first tables have names of their own for them."""
    made, begin = [], threading.Barrier(2)

    def make():
        begin.wait()
        made.append(sok.DynamicVariable(DIM, initializer="1", init_capacity=4))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({table.table.name for table in made}) == 2, [table.table.name for table in made]


def main(seed, folder):
    assert sok.Init(global_batch_size=BATCH) == b"OK"
    world, random = launch.current(), np.random.RandomState(seed)
    if world.size == 1:
        check_names()
    for number, name in enumerate(OPTIMIZERS):
        made = train(name, world, random, in_function=number % 2 == 1 and name != "train")
        if name == "legacy Adam":
            check_dumps(*made, folder, world)
    check_stamps(made[0])
    check_loops(world)
    check_strategies()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
