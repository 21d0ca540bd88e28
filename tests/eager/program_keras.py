"""Run by test_eager_keras.py: what Keras and tapes do with a table besides `fit`, in eager programs."""
import copy
import os
import pickle
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, BATCH = 40, 3, 6
CUSTOM = {"All2AllDenseEmbedding": sok.All2AllDenseEmbedding}


def rows(table):
    """Of this rank: {key: row}."""
    keys, values = sok.export(table)
    return dict(zip(keys.numpy().tolist(), values.numpy()))


def expect_equal(one, other):
    assert sorted(one) == sorted(other)
    for key, row in one.items():
        np.testing.assert_allclose(row, other[key], rtol=1e-5, atol=1e-6)


def growing_model(optimizer):
    layer = sok.All2AllDenseEmbedding(None, DIM, 1, 1, init_capacity=2, embedding_initializer="ones")
    model = tf.keras.Sequential([tf.keras.Input([1, 1], dtype=tf.int64), layer, tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(sok.DistributedOptimizer(optimizer(), average=False), "mse")
    return model, layer.embedding_variable


def fit(model, first, end):
    keys = np.arange(first, end).reshape(-1, 1, 1)
    model.fit(keys, np.cos(keys[:, 0]), batch_size=BATCH, shuffle=False, verbose=0)


def check_weights_of_fewer_rows():
    """What EarlyStopping does with the best weights: since then the table has grown, and its slots with it."""
    for optimizer in (tf.keras.optimizers.Adam, tf.keras.optimizers.legacy.Adam):
        model, table = growing_model(optimizer)
        fit(model, 0, 12)
        weights, before = model.get_weights(), rows(table)
        fit(model, 0, KEYS)
        model.set_weights(weights)
        expect_equal(before, rows(table))
        for end in (12, KEYS):
            fit(model, 0, end)
        found = rows(table)
        assert sorted(found) == [key for key in range(KEYS) if key % launch.current().size == launch.current().rank]


def check_whole_models(folder):
    """Keras makes the optimizer's slots of a table that has no rows yet, and loads them before the rows or after."""
    newer, older = tf.keras.optimizers.Adam, tf.keras.optimizers.legacy.Adam
    with_slots = [("model.keras", newer), ("model.h5", newer), ("model.h5", older)]  # Keras loses those of the others
    for name in ("model.keras", "model.h5", "model"):
        for optimizer in (newer, older):
            model, table = growing_model(optimizer)
            fit(model, 0, 30)
            path = os.path.join(folder, name)
            model.save(path)
            loaded = tf.keras.models.load_model(path, custom_objects=CUSTOM)
            other = loaded.layers[0].embedding_variable
            expect_equal(rows(table), rows(other))
            check_own_parts(table, other, folder)
            if name == "model":
                keys = tf.reshape(tf.range(30, dtype=tf.int64), [-1, 1, 1])
                np.testing.assert_allclose(tf.saved_model.load(path)(keys), model(keys), rtol=1e-6)
            for one in (model, loaded):
                fit(one, 20, KEYS)
            if (name, optimizer) in with_slots:
                expect_equal(rows(table), rows(other))
            assert sorted(rows(other)) == list(range(KEYS))


def check_own_parts(table, loaded, folder):
    """What lies beside the rows of a loaded table is where it was, and so are other tables."""
    assert [type(one) for one in loaded.index] == [type(one) for one in table.index], loaded.index
    assert loaded.op.name == loaded.table.name and not hasattr(loaded, "count")
    for one in (table, loaded):
        assert int(sok.table_stats(one).rows_in_use) == len(rows(one)) == int(one.rows_in_use())
    before, manager = [rows(one) for one in (table, loaded)], sok.CheckpointManager(os.path.join(folder, "manager"))
    manager.save(step=1)
    for one in (table, loaded):
        sok.assign(one, tf.constant([0, 100], tf.int64), tf.zeros([2, DIM]))
    manager.restore()
    for one, expected in zip((table, loaded), before):
        expect_equal(expected, rows(one))


def check_jacobians():
    """Whose tape eager calls have filled, and whose gradients are taken in a function."""
    first = np.random.RandomState(0).normal(size=[KEYS, DIM]).astype(np.float32)
    table, stock = sok.Variable(first), tf.Variable(first)
    keys = tf.constant([[3, 4], [5, 3]], tf.int64)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(sok.lookup_sparse(table, tf.sparse.from_dense(keys), combiners="sum") ** 2, axis=0)
    found = tape.jacobian(value, table)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(tf.reduce_sum(tf.gather(stock, keys), axis=1) ** 2, axis=0)
    expected = tape.jacobian(value, stock).numpy() * launch.current().size  # each rank's batch is this one
    for key in rows(table):
        number = key // launch.current().size
        np.testing.assert_allclose(found[:, number], expected[:, key], rtol=1e-5, atol=1e-5)


def check_forward_mode():
    """Of lookups it is refused; a table's value, and what goes past tables, it differentiates as TensorFlow's."""
    first = np.random.RandomState(0).normal(size=[KEYS, DIM]).astype(np.float32)
    table, grown, factor = sok.Variable(first), sok.DynamicVariable(dimension=DIM, initializer="1"), tf.Variable(3.0)
    layer, keys = sok.All2AllDenseEmbedding(8, DIM, 1, 1), tf.constant([1, 2], tf.int64)
    bags, weights = tf.RaggedTensor.from_row_lengths(keys, [1, 1]), tf.constant([2.0, 4.0])

    def looked_up():
        return tf.reduce_sum(sok.lookup_sparse(table, bags, combiners="sum"))

    def weighted():
        given = tf.RaggedTensor.from_row_lengths(weights * factor, [1, 1])
        return sok.lookup_sparse(table, bags, sp_weights=given, combiners="sum")

    for what, variable in ((looked_up, table), (tf.function(looked_up), table), (weighted, factor),
                           (lambda: sok.all2all_dense_embedding(table, keys), table),
                           (lambda: layer(keys[:, None, None]), layer.embedding_variable),
                           (lambda: tf.nn.embedding_lookup(grown, keys), grown)):
        try:
            with tf.autodiff.ForwardAccumulator(variable, tf.ones(variable.value().shape)):
                what()
        except NotImplementedError as error:
            assert "tf.autodiff.ForwardAccumulator, expected a tf.GradientTape" in str(error), error
            assert "embedding table '" in str(error), error
        else:
            raise AssertionError("no error")

    def derivative(what, variable):
        with tf.autodiff.ForwardAccumulator(variable, tf.ones(variable.value().shape)) as accumulator:
            found = what()
        return accumulator.jvp(found).numpy()

    def gradient():
        with tf.GradientTape() as tape:
            loss = factor ** 2 * looked_up()
        return tf.reduce_sum(tape.gradient(loss, table).values)

    np.testing.assert_allclose(derivative(lambda: tf.nn.l2_loss(table), table), table.numpy().sum(), rtol=1e-4)

    def scaled():
        return factor ** 2 * looked_up()

    for found in (scaled, tf.function(scaled)):
        np.testing.assert_allclose(derivative(found, factor), 6 * looked_up(), rtol=1e-5)
    ranks = launch.current().size
    mine = sum(1 for key in (1, 2) if key % ranks == launch.current().rank)
    for found in (gradient, tf.function(gradient)):
        np.testing.assert_allclose(derivative(found, factor), 6 * DIM * ranks * mine, rtol=1e-5)


def check_copies():
    """A copy of the rows alone would be looked up in by nobody."""
    layer = sok.All2AllDenseEmbedding(8, DIM, 1, 1)
    tables = layer.embedding_variable, sok.Variable(np.ones([4, DIM], np.float32))
    assert all(copy.copy(table) is table for table in tables), "as of TensorFlow's variables"
    for kind, call in (("copy.deepcopy", copy.deepcopy), ("pickle", pickle.dumps)):
        for one in (layer, *tables):
            try:
                call(one)
            except TypeError as error:
                assert "got {} of it".format(kind) in str(error) and "from_config" in str(error), error
            else:
                raise AssertionError("no error")


class Module(tf.Module):
    """Tables of their own, of no layer."""

    def __init__(self):
        super().__init__()
        self.static = sok.Variable(np.random.RandomState(1).normal(size=[KEYS, DIM]).astype(np.float32))
        self.grown = sok.DynamicVariable(dimension=DIM, init_capacity=2)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int64)])
    def serve(self, keys):
        found = sok.lookup_sparse([self.static, self.grown], [tf.RaggedTensor.from_tensor(keys)] * 2,
                                  combiners=["sum"] * 2)
        return {"found": tf.concat(found, axis=1)}

    @tf.function(input_signature=[])
    def pull(self):
        """The gradient of a regularizer, of which a SavedModel keeps how it is made."""
        with tf.GradientTape() as tape:
            loss = tf.nn.l2_loss(tf.convert_to_tensor(self.grown))
        return tape.gradient(loss, self.grown)


def check_saved_modules(folder):
    module, keys = Module(), tf.constant([[1, 2], [30, 1]], tf.int64)
    expected = module.serve(keys)["found"].numpy()
    assert module.pull().shape[1] == DIM
    path = os.path.join(folder, "module")
    tf.saved_model.save(module, path, signatures={"serving_default": module.serve})
    loaded = tf.saved_model.load(path)
    for call in (loaded.serve, loaded.signatures["serving_default"]):
        np.testing.assert_array_equal(call(keys)["found"], expected)


def main(folder):
    sok.init()
    check_weights_of_fewer_rows()
    if launch.current().size == 1:
        check_whole_models(folder)
        check_saved_modules(folder)
    check_copies()
    check_jacobians()
    check_forward_mode()
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
