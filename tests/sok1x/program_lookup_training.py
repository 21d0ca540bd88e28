"""When a lookup that is a function, and no layer, gives new keys rows: in Keras, in Estimators, and where it is told.

    python program_lookup_training.py [eager]
"""
import sys
import tempfile

import numpy as np
import tensorflow as tf

EAGER = "eager" in sys.argv
if EAGER:
    tf.compat.v1.enable_v2_behavior()
else:
    tf.compat.v1.disable_v2_behavior()
import sok1x as sok  # noqa: E402

tf.get_logger().setLevel("ERROR")
v1 = tf.compat.v1
BATCH, D = 10, 4


def looked_up(table, keys, way, **options):
    """[B, D] of keys [B], by one of the lookups."""
    if way == "dense":
        return sok.all2all_dense_embedding(table, keys, **options)
    ones = tf.ones_like(keys)
    bags = tf.RaggedTensor.from_row_lengths(keys, ones, validate=False)
    if way == "sparse":
        return sok.lookup_sparse(table, bags, combiners="sum", **options)
    return sok.deeprec.group_embedding_lookup_sparse([table], [bags], ["sum"])[0]


class Model(tf.keras.Model):
    def __init__(self, way):
        super().__init__()
        self.way = way
        self.table = sok.DynamicVariable(dimension=D, initializer="normal", init_capacity=512, name="items_" + way)
        self.top = tf.keras.layers.Dense(1)

    def call(self, keys):
        rows = looked_up(self.table, tf.cast(tf.reshape(keys, [-1]), tf.int64), self.way)
        return self.top(tf.reshape(rows, [-1, D]))


def rows_in_use(table):
    size = table.size
    return int((size.numpy() if EAGER else v1.keras.backend.get_session().run(size))[0])


def keras(way):
    model = Model(way)
    model.compile("sgd", "mse")
    keys, labels = np.arange(40), np.ones(40)
    model.fit(keys, labels, batch_size=BATCH, verbose=0)
    assert rows_in_use(model.table) == 40
    before = model.predict(keys, batch_size=BATCH, verbose=0)
    first = model.predict(keys + 100, batch_size=BATCH, verbose=0)
    model.evaluate(keys + 200, labels, batch_size=BATCH, verbose=0)
    assert rows_in_use(model.table) == 40, way
    assert (model.predict(keys, batch_size=BATCH, verbose=0) == before).all()
    model.fit(keys, labels, batch_size=BATCH, verbose=0, validation_data=(keys + 300, labels))
    assert rows_in_use(model.table) == 40, way
    model.fit(keys + 100, 0 * labels, batch_size=BATCH, verbose=0, epochs=3)
    assert rows_in_use(model.table) == 80, way
    assert (model.predict(keys + 100, batch_size=BATCH, verbose=0) != first).all()
    if EAGER:  # a loop of one's own: what is told, and what is not
        batch = tf.constant(keys[:BATCH] + 400)
        model(batch, training=False)
        assert rows_in_use(model.table) == 80, way
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch) ** 2)
        assert rows_in_use(model.table) == 90, way
        assert tape.gradient(loss, model.trainable_weights)[0] is not None
        model(batch + 100, training=True)
        assert rows_in_use(model.table) == 100, way


def symbols():
    table = sok.DynamicVariable(dimension=D, name="refused")
    for lookup, given in ((sok.all2all_dense_embedding, tf.keras.Input([], dtype=tf.int64)),
                          (sok.lookup_sparse, tf.keras.Input([None], dtype=tf.int64, ragged=True)),
                          (sok.lookup_sparse, tf.keras.Input([None], dtype=tf.int64, sparse=True))):
        try:
            lookup(table, given)
        except TypeError as error:
            assert "got a symbol of a Keras model" in str(error) and "'refused'" in str(error), error
        else:
            raise AssertionError("not refused")
    inputs = tf.keras.Input([], dtype=tf.int64)
    model = tf.keras.Model(inputs, Model("dense")(inputs))
    assert len(model.trainable_weights) == 3


def estimator(way):
    """Evaluation and prediction of other keys than were trained, in a table without room for both."""
    def model_fn(features, labels, mode):
        table = sok.DynamicVariable(dimension=D, initializer="ones", init_capacity=32, name="items")
        out = tf.reduce_sum(looked_up(table, features["key"], way), 1)
        size = tf.identity(table.size[0])
        if mode == tf.estimator.ModeKeys.PREDICT:
            with tf.control_dependencies([out]):
                size = tf.identity(size)
            sizes = tf.cast(size, tf.float32) * tf.ones_like(out)
            return tf.estimator.EstimatorSpec(mode, predictions={"out": out, "size": sizes})
        loss = tf.reduce_mean((out - 1) ** 2)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops={
            "size": v1.metrics.mean(table.size[0])}, scaffold=sok.Scaffold())

    def input_fn(first):
        return lambda: tf.data.Dataset.from_tensors({"key": np.arange(first, first + 20, dtype=np.int64)}).map(
            lambda features: (features, tf.zeros([20])))

    with tempfile.TemporaryDirectory() as folder:
        made = tf.estimator.Estimator(model_fn, folder)
        made.train(input_fn(0), steps=1)
        assert made.evaluate(input_fn(100))["size"] == 20, way
        assert {one["size"] for one in made.predict(input_fn(200))} == {20}, way


def told(way):
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.DynamicVariable(dimension=D, initializer="ones", init_capacity=64, name="items")
        fed, flag = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.bool, [])
        fetches = [looked_up(table, fed, way, training=training) for training in (False, flag, True, None)]
        session.run(v1.global_variables_initializer())
        for fetch, value, expected in zip(fetches + fetches[1:2], (False, False, True, True, True), (0, 0, 5, 10, 15)):
            session.run(fetch, {fed: np.arange(expected, expected + 5), flag: value})
            assert session.run(table.size)[0] == expected, (way, expected)
        for wrong, error in (("yes", TypeError), (tf.constant([True]), ValueError)):
            try:
                looked_up(table, fed, way, training=wrong)
            except error as found:
                assert str(found).startswith("sok1x.") and "training: got" in str(found), found
            else:
                raise AssertionError("not refused")


sok.init()
for each in ("dense", "sparse", "group"):
    keras(each)
    if not EAGER and hasattr(tf, "estimator"):
        estimator(each)
for each in () if EAGER else ("dense", "sparse"):
    told(each)
if EAGER and int(tf.__version__[0]) > 1:
    symbols()
print("ok")
