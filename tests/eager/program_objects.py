"""Run by test_eager_objects.py: tf.train.Checkpoint, its manager, and Keras' save_weights, in eager programs.

What comes back is compared with NumPy's copies. One job saves; another, of another number of ranks, is refused.
"""
import os
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint import CheckpointError  # noqa: E402
from sok1x.checkpoint.errors import MismatchError  # noqa: E402
from sok1x.checkpoint.session.tables import tables_of  # noqa: E402
from sok1x.checkpoint.session.talk import talk  # noqa: E402
from sok1x.core.eagerly import eager  # noqa: E402

DIM, KEYS = 3, 40
OPTIMIZERS = {"legacy": lambda: tf.keras.optimizers.legacy.Adagrad(0.1), "new": lambda: tf.keras.optimizers.Adam(0.1)}


class Model:
    """New rows begin alike in all tables, whose names differ: so that a twin can be compared."""

    def __init__(self, optimizer):
        # Half of its rows are free, so that there is room in any shard for keys that come later.
        self.layer = sok.All2AllDenseEmbedding(2 * KEYS, DIM, 1, 1, embedding_initializer="ones")
        self.grown = sok.DynamicVariable(dimension=DIM, init_capacity=2, initializer="ones")
        self.static = sok.Variable(np.ones([KEYS, DIM], np.float32))
        self.tables = [self.layer.embedding_variable, self.grown, self.static]
        self.kernel = tf.Variable(np.ones([DIM], np.float32))
        self.optimizer = sok.DistributedOptimizer(OPTIMIZERS[optimizer](), average=False)
        self.checkpoint = tf.train.Checkpoint(layer=self.layer, grown=self.grown, static=self.static,
                                              kernel=self.kernel, optimizer=self.optimizer)

    def step(self, keys):
        keys = tf.constant(keys, tf.int64)
        one_each = tf.SparseTensor(tf.stack([tf.range(len(keys), dtype=tf.int64), tf.zeros_like(keys)], axis=1),
                                   keys, [len(keys), 1])
        with tf.GradientTape() as tape:
            vectors = [tf.reshape(self.layer(tf.reshape(keys, [-1, 1, 1]), training=True), [-1, DIM])]
            vectors += sok.lookup_sparse([self.grown, self.static], [one_each] * 2, combiners=["sum"] * 2)
            loss = tf.reduce_sum(tf.add_n(vectors) ** 2 * self.kernel)
        variables = self.tables + [self.kernel]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    def values(self):
        """All that is saved."""
        found = [self.kernel]
        for table in tables_of(eager.graph()):
            if any(table.variable is one for one in self.tables):
                found += table.variables() + [table.variable.steps]
        return [one.numpy() for one in found]

    def by_key(self, since):
        """Rows, and the keys whose rows have changed since steps."""
        found = []
        for table, step in zip(self.tables, since):
            keys, rows = sok.export(table)
            found.append((dict(zip(keys.numpy().tolist(), rows.numpy())),
                          sorted(np.asarray(sok.incremental_dump(table, step)[0]).tolist())))
        return found


def expect_equal(before, after):
    assert len(before) == len(after), (len(before), len(after))
    for one, other in zip(before, after):
        np.testing.assert_array_equal(one, other)


def expect_error(kind, words, call):
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
    else:
        raise AssertionError("no error with {}".format(words))


def barrier():
    talk().exchange(None, None)


def batch(random, keys=KEYS // 2):
    """This rank's, of the keys that come in the beginning, or of all."""
    return random.randint(0, keys, 6)


def check_manager(model, world, random, folder, kind):
    folder = os.path.join(folder, kind)
    manager = tf.train.CheckpointManager(model.checkpoint, folder, 2)
    saved = []
    for number in range(3):
        model.step(batch(random))
        assert manager.save() == os.path.join(folder, "ckpt-{}".format(number + 1))
        assert tf.train.latest_checkpoint(folder) == manager.latest_checkpoint
        saved.append(model.values())
    # Rank 0 deletes what is not kept, for all; and nobody is on the way to save here.
    assert [name for name in sorted(os.listdir(folder)) if "ckpt-1" in name] == []
    assert os.path.exists(os.path.join(folder, "ckpt-2.ranks")) == (world.size > 1)
    model.step(batch(random, KEYS))
    model.checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    expect_equal(saved[-1], model.values())
    model.checkpoint.restore(manager.checkpoints[0]).assert_consumed()
    expect_equal(saved[-2], model.values())
    manager.restore_or_initialize()
    expect_equal(saved[-1], model.values())

    # Restored before the first step, when there are no slots; keys that are new come with it.
    twin, keys = Model(kind), batch(random, KEYS)
    status = twin.checkpoint.restore(tf.train.latest_checkpoint(folder))
    since = [int(table.steps.numpy()) for table in twin.tables]
    for one in (model, twin):
        one.step(keys)
    status.assert_consumed()
    for (rows, changed), (others, others_changed) in zip(model.by_key(since), twin.by_key(since)):
        assert changed == others_changed
        assert sorted(rows) == sorted(others)
        for key, row in rows.items():
            np.testing.assert_allclose(row, others[key], rtol=1e-5, atol=1e-6)
    return manager


def check_failures(model, world, manager):
    """A save that fails on one rank has failed on all, and so has a restore: nothing has changed."""
    latest = manager.latest_checkpoint
    path = os.path.join(manager.directory, "full")
    if world.rank == 0:
        with open(path + ".ranks", "w"):
            pass
    barrier()
    expect_error(Exception, ["full.ranks"], lambda: model.checkpoint.write(path))
    assert not os.path.exists(path + ".index")
    assert tf.train.latest_checkpoint(manager.directory) == latest

    model.checkpoint.write(os.path.join(manager.directory, "twice"))
    path = model.checkpoint.write(os.path.join(manager.directory, "twice"))
    names = os.listdir(path + ".ranks")
    assert len(names) == 2, names  # an index and data: what the first one had is gone
    values = model.values()
    barrier()
    if world.rank == 0:
        for name in names:
            os.remove(os.path.join(path + ".ranks", name))
    barrier()
    expect_error(CheckpointError, ["twice.ranks", "missing or damaged"], lambda: model.checkpoint.read(path))
    expect_equal(values, model.values())



def check_own_paths(model, world, folder):
    """Each rank's own path: as TensorFlow has it, of this rank alone."""
    path = os.path.join(folder, "own", "of-{}".format(world.rank))
    values = model.values()
    model.checkpoint.write(path)
    other = os.path.join(folder, "own", "of-{}".format((world.rank + 1) % world.size))
    barrier()
    if world.size > 1:
        expect_error(MismatchError, ["has the shards of rank", "nothing has changed"],
                     lambda: model.checkpoint.read(other))
    model.static.assign(model.static.read_value() + 1.0)
    model.checkpoint.read(path).assert_consumed()
    expect_equal(values, model.values())


def check_otherwise(world, folder):
    """A table whose rows are dealt out otherwise takes none; the same, of which some have other ranks' keys, does."""
    path, keys = os.path.join(folder, "otherwise"), tf.range(6, dtype=tf.int64)
    table = sok.DynamicVariable(dimension=1, init_capacity=2, initializer="ones")
    read = tf.nn.embedding_lookup(table, keys + world.rank)  # this rank's own rows, of whichever keys
    table.assign_add(tf.ones_like(table))
    static = sok.Variable(np.ones([world.size, 1], np.float32))
    tf.train.Checkpoint(table=table, static=static).write(path)
    table.assign_add(tf.ones_like(table))
    later = tf.train.Checkpoint()
    for again in table, sok.DynamicVariable(dimension=1, init_capacity=2, initializer="ones"):
        tf.train.Checkpoint(table=again).read(path)
        assert (tf.nn.embedding_lookup(again, keys + world.rank).numpy() == read.numpy() + 1).all()
    later.read(path)
    later.table = sok.DynamicVariable(dimension=1, init_capacity=2, initializer="ones")
    assert (tf.nn.embedding_lookup(later.table, keys + world.rank).numpy() == read.numpy() + 1).all()
    if world.size == 1:
        return
    for mode, attribute in ("localized:0", "table"), ("localized:1", "table"), ("localized:1", "static"):
        other = sok.DynamicVariable(dimension=1, mode=mode) if attribute == "table" else sok.Variable(
            np.ones([world.size, 1], np.float32), mode=mode)
        later = tf.train.Checkpoint()
        later.read(path).expect_partial()
        for restore in (lambda: tf.train.Checkpoint(**{attribute: other}).read(path),
                        lambda: setattr(later, attribute, other)):
            before = other.numpy()
            expect_error(MismatchError, ["got rows that were dealt out otherwise (by key) from ",
                                         "expected them all rows on rank " + mode[-1]], restore)
            expect_equal([before], [other.numpy()])


def check_urls(model, world, folder):
    """A file:// URL is a path; of others ranks could not see what they write together."""
    folder = os.path.join(folder, "by_url")
    manager = tf.train.CheckpointManager(model.checkpoint, "file://" + folder, 1)
    first, last = [os.path.basename(manager.save()) for _ in range(2)]
    assert manager.latest_checkpoint == "file://{}/{}".format(folder, last)
    barrier()
    assert not any(name.startswith(first) for name in os.listdir(folder))
    assert os.path.exists(os.path.join(folder, last + ".ranks")) == (world.size > 1)
    values = model.values()
    for path in (manager.latest_checkpoint, os.path.join(folder, last)):
        model.static.assign(model.static.read_value() + 1.0)
        model.checkpoint.restore(path).assert_consumed()
        expect_equal(values, model.values())
    if world.size > 1:
        expect_error(CheckpointError, ["Cannot save tables to hdfs://host/x, a URL"],
                     lambda: model.checkpoint.write("hdfs://host/x"))
    assert not os.path.exists("file:") and not os.path.exists("hdfs:")


def check_keras(world, random, folder):
    layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1)
    model = tf.keras.Sequential([tf.keras.Input([1, 1], dtype=tf.int64), layer, tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(1)])
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.1), average=False), "mse")
    keys = batch(random).reshape(6, 1, 1)
    model.fit(keys, np.ones([6, 1]), batch_size=3, epochs=2, verbose=0)
    before = model.get_weights()
    model.save_weights(os.path.join(folder, "weights"))
    model.fit(keys, np.ones([6, 1]), batch_size=3, verbose=0)
    model.load_weights(os.path.join(folder, "weights")).assert_consumed()
    expect_equal(before, model.get_weights())
    model.predict(keys, batch_size=3, verbose=0)
    saved = os.path.join(folder, "saved_model")
    if world.size > 1:
        expect_error(CheckpointError, ["save_weights", "sok.CheckpointManager", "sok.serving"],
                     lambda: model.save(saved, save_format="tf"))
        expect_error(CheckpointError, ["sok.CheckpointManager", "sok.serving"],
                     lambda: tf.saved_model.save(model, saved))
        expect_error(CheckpointError, ["TensorFlow's"], lambda: model.save_weights(os.path.join(folder, "weights.h5")))
        assert not os.path.exists(saved)
        return
    with mock.patch.object(tf.compat.v1.logging, "warning") as warned:
        model.save(saved, save_format="tf")
    said = [call[0][0] % call[0][1:] for call in warned.call_args_list]
    assert any("export_saved_model" in words and saved in words for words in said), said
    loaded = tf.saved_model.load(saved)
    np.testing.assert_allclose(loaded(tf.constant(keys), training=False).numpy(),
                               model.predict(keys, batch_size=6, verbose=0), rtol=1e-6)


def check_refusals(model, folder):
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    expect_error(CheckpointError, ["experimental_enable_async_checkpoint"],
                 lambda: model.checkpoint.save(os.path.join(folder, "later"), options))


def check_another_number(world, folder):
    """What a job of another number of ranks has saved, before there are tables; and then of the same model."""
    path = tf.train.latest_checkpoint(os.path.join(folder, "new"))
    expect_error(MismatchError, ["sok.CheckpointManager"], lambda: tf.train.Checkpoint().restore(path))
    model = Model("new")
    model.step([1, 2])
    before = model.values()
    expect_error(MismatchError, ["sok.CheckpointManager", "nothing has changed", "ranks"],
                 lambda: model.checkpoint.restore(path))
    expect_equal(before, model.values())


def check_all(world, random, folder):
    for kind in sorted(OPTIMIZERS):
        model = Model(kind)
        manager = check_manager(model, world, random, folder, kind)
    check_own_paths(model, world, folder)
    check_otherwise(world, folder)
    check_urls(model, world, folder)
    check_keras(world, random, folder)
    if world.size > 1:
        check_failures(model, world, manager)
        check_refusals(model, folder)


def main(seed, folder, former=None):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    random.seed(random.randint(10 ** 6) + world.rank)
    folder = os.path.join(folder, str(world.size))
    if former:
        check_another_number(world, os.path.join(os.path.dirname(folder), former))
    if former != "1":
        check_all(world, random, folder)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
