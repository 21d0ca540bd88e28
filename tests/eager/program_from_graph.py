"""Run by test_eager_from_graph.py: an eager program goes on from what a graph has saved, with its slots and all else.

Argument: seed, folder. The graph goes on as well, and says what is to come of it.
"""
import os
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint import CheckpointError  # noqa: E402

DIM, KEYS = 3, 12
LEGACY, NEWER, TRAIN = tf.keras.optimizers.legacy, tf.keras.optimizers, tf.compat.v1.train
OPTIMIZERS = {
    "train adam": lambda: TRAIN.AdamOptimizer(0.1),
    "train rmsprop": lambda: TRAIN.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "legacy adam": lambda: LEGACY.Adam(0.1),
    "legacy adamax": lambda: LEGACY.Adamax(0.1),
    "legacy adagrad": lambda: LEGACY.Adagrad(0.1),
    "newer adam": lambda: NEWER.Adam(0.1),
    "newer rmsprop": lambda: NEWER.RMSprop(0.1, momentum=0.5, centered=True),
    "wrapped": lambda: sok.OptimizerWrapper(LEGACY.Adam(0.1))}
TABLES = {"of V rows": 64, "growing": None}


class Model:
    """A table and a dense variable, trained one step after the other."""

    def __init__(self, optimizer, table, keys, name, dense="dense"):
        dense = name + "_" + dense
        self.keys, self.optimizer = keys, OPTIMIZERS[optimizer]()
        self.layer = sok.All2AllDenseEmbedding(TABLES[table], DIM, 1, 1, embedding_initializer="ones", name=name)
        self.dense = tf.compat.v1.get_variable(dense, [2], initializer=tf.compat.v1.ones_initializer(),
                                               use_resource=True) if not tf.executing_eagerly() else tf.Variable(
                                                   [1.0, 1.0], name=dense)

    def look_up(self, keys, training):
        return self.layer(tf.constant(keys.reshape(-1, 1, 1)), training=training)[:, 0, 0]

    def loss(self):
        return tf.reduce_sum(tf.sin(self.look_up(self.keys, True)) ** 2) + tf.reduce_sum(self.dense ** 2)

    @property
    def variables(self):
        return [self.layer.embedding_variable, self.dense]

    def step(self):
        with tf.GradientTape() as tape:
            loss = self.loss()
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.variables), self.variables))


def saved_by_a_graph(optimizer, table, keys, folder, name):
    """Trains twice, saves, trains twice: what has come of it."""
    with tf.Graph().as_default():
        model = Model(optimizer, table, keys, name)
        gradients = tf.gradients(model.loss(), model.variables)
        train = model.optimizer.apply_gradients(zip(gradients, model.variables))
        values = model.look_up(np.arange(KEYS), False), model.dense
        init, manager = sok.Init(global_batch_size=KEYS), sok.CheckpointManager(folder)
        with tf.compat.v1.Session() as session:
            session.run(init)
            session.run(tf.compat.v1.global_variables_initializer())
            for _ in range(2):
                session.run(train)
            manager.save(session, 2)
            for _ in range(2):
                session.run(train)
            return session.run(values)


def goes_on(optimizer, table, keys, folder):
    name = "ads_by_" + (optimizer + table).replace(" ", "_")
    expected = saved_by_a_graph(optimizer, table, keys, folder, name)
    model = Model(optimizer, table, keys, name)
    model.step()  # so that there are slots
    parts = dict(dense=model.dense, optimizer=model.optimizer)
    assert sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(**parts)).restore() == 2
    assert int(model.layer.embedding_variable.steps.numpy()) == 2
    for _ in range(2):
        model.step()
    for got, wanted in zip((model.look_up(np.arange(KEYS), False), model.dense), expected):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-6, err_msg="{}, {}".format(optimizer, table))


def refused(keys, folder, name, dense, optimizer, words, saved="legacy adam"):
    """An error with the words, and nothing changes."""
    saved_by_a_graph(saved, "growing", keys, folder, name)
    model = Model(optimizer, "growing", keys, name, dense)
    model.step()
    before = model.look_up(np.arange(KEYS), False).numpy(), model.dense.numpy()
    manager = sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(one=model.dense))
    try:
        manager.restore()
    except CheckpointError as error:
        assert words in str(error), error
    else:
        raise AssertionError("{} was expected".format(words))
    for now, then in zip((model.look_up(np.arange(KEYS), False), model.dense), before):
        np.testing.assert_array_equal(now.numpy(), then)


def by_names(keys, folder):
    """A variable gets what one of its name, dtype and shape had; what is not made yet is warned about."""
    with tf.Graph().as_default():
        v1 = tf.compat.v1
        layer = sok.All2AllDenseEmbedding(64, DIM, 1, 1, name="named")
        for name, value in (("large", 2 ** 40), ("small", 7), ("part", 1.75), ("dense/kernel", [1.0, 2.0])):
            v1.get_variable(name, initializer=tf.constant(value, tf.int64 if isinstance(value, int) else tf.float32),
                            use_resource=True)
        looked_up = layer(tf.constant(keys.reshape(-1, 1, 1)), training=True)
        init, manager = sok.Init(global_batch_size=KEYS), sok.CheckpointManager(folder)
        with v1.Session() as session:
            session.run(init)
            session.run(v1.global_variables_initializer())
            session.run(looked_up)
            manager.save(session, 1)
    layer = sok.All2AllDenseEmbedding(64, DIM, 1, 1, name="named")
    layer(tf.constant(keys.reshape(-1, 1, 1)), training=True)
    for name, first, fits in (("large", np.int32(0), False), ("large", np.int64(0), True), ("small", np.int32(0), True),
                              ("part", np.int32(0), False), ("tower2/dense/kernel", np.zeros(2, np.float32), False),
                              ("dense/kernel", np.zeros(2, np.float32), True)):
        variable = tf.Variable(first, name=name)
        manager = sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(one=variable))
        if fits:
            assert manager.restore() == 1 and (variable.numpy() != 0).all(), name
            continue
        try:
            manager.restore()
        except CheckpointError as error:
            assert "has nothing for '{}'".format(name) in str(error), error
        else:
            raise AssertionError(name)
    said = []
    tf.get_logger().addFilter(lambda record: said.append(record.getMessage()))
    tf.get_logger().setLevel("WARNING")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    assert sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(model=model)).restore() == 1
    assert ["dense/kernel, large, part, small" in one for one in said] == [True], said


def main(seed, folder):
    sok.Init(global_batch_size=KEYS)
    rank, ranks = launch.current().rank, launch.current().size
    keys = np.random.default_rng(seed).permutation(KEYS)[rank::ranks].astype(np.int64)
    for optimizer in OPTIMIZERS:
        for table in TABLES:
            goes_on(optimizer, table, keys, os.path.join(folder, optimizer + table))
    refused(keys, os.path.join(folder, "one"), "one", "other", "legacy adam", "has nothing for 'one_other'")
    by_names(keys, os.path.join(folder, "names"))
    for name, optimizer, saved in (("two", "newer rmsprop", "legacy adam"), ("three", "legacy adam", "legacy adamax")):
        refused(keys, os.path.join(folder, name), name, "dense", optimizer, "saved with another optimizer", saved)
    sys.stdout.write("ok\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
