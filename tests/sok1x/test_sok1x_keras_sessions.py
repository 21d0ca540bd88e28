"""Keras' own session, and Estimators made of Keras models: what runs sok.Init there, and what trains."""
import pytest
from ranks import run_ranks

KERAS_SESSION = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
import sok1x as sok

backend = tf.keras.backend

def build():
    keys = tf.keras.Input([2, 1], dtype=tf.int64, name="keys")
    vectors = sok.All2AllDenseEmbedding(16, 4, 2, 1)(keys)
    model = tf.keras.Model(keys, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(vectors)))
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.Adam(0.1), average=False), "mse")
    return model

model = build()
data, labels = np.arange(8).reshape([4, 2, 1]), np.ones([4, 1])
backend.get_session()                       # initializes what can be
for call in (lambda: model.fit(data, labels, verbose=0), lambda: model.predict(data)):
    try:
        call()
    except tf.errors.FailedPreconditionError as error:
        assert "run the op made by sok1x.Init" in error.message, error.message
    else:
        raise AssertionError("ran before Init")
assert backend.get_session().run(sok.Init(global_batch_size=4)) == b"OK"
rows = model.get_weights()[0]               # and now the rest
assert rows.shape == (16, 4) and not rows.any()
losses = model.fit(data, labels, verbose=0, epochs=3,
                   callbacks=[sok.BroadcastGlobalVariablesCallback(0), sok.MetricAverageCallback()]).history["loss"]
assert losses[2] < losses[0]
assert np.count_nonzero(model.get_weights()[0].any(axis=1)) == 8

# Estimators made of Keras models: Keras' learning phase is that of the mode.
def batches(keys, labels=None):
    data = keys if labels is None else (keys, labels)
    return lambda: tf.data.Dataset.from_tensor_slices(data).batch(2)

used = []
class Count(tf.estimator.SessionRunHook):
    def end(self, session):
        used.append(int(session.run(session.graph.get_tensor_by_name("EmbeddingVariable/count/Read/ReadVariableOp:0"))))

backend.clear_session()
estimator = tf.keras.estimator.model_to_estimator(build(), model_dir=sys.argv[1])
hooks = [sok.InitHook(global_batch_size=4), Count()]
estimator.train(batches({"keys": data + 2}, labels), hooks=hooks)
estimator.evaluate(batches({"keys": data + 100}, labels), hooks=hooks)
list(estimator.predict(batches({"keys": data + 200}), hooks=hooks))
assert used == [8, 8, 8], used
print("done")
"""


def test_init_runs_in_keras_own_session_whenever_that_was_made(tmp_path):
    assert run_ranks(0, KERAS_SESSION, str(tmp_path)).out == "done\n"


# Before an Estimator trains a Keras model it saves the model's first values, and starts from these.
ESTIMATOR_OF_RANKS = """
import sys
import tensorflow.compat.v1 as tf
import sok1x as sok

sok.init()
keys = tf.keras.Input([1, 1], dtype=tf.int64, name="keys")
layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
model = tf.keras.Model(keys, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(layer(keys))))
model.compile(sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), average=False), "mse", loss_weights=[0.5])
estimator = tf.keras.estimator.model_to_estimator(model, model_dir=sys.argv[1])
rows = lambda: tf.data.Dataset.range(8).map(lambda i: ({"keys": tf.reshape(i, [1, 1])}, tf.ones([1]))).batch(4).repeat()
estimator.train(rows, steps=1)
first = estimator.evaluate(rows, steps=2)["loss"]
estimator.train(rows, steps=20)
assert estimator.evaluate(rows, steps=2)["loss"] < first
print("done", flush=True)
"""


def test_an_estimator_of_a_keras_model_on_several_ranks(tmp_path):
    assert run_ranks(2, ESTIMATOR_OF_RANKS, str(tmp_path)).out.count("done") == 2


# TensorFlow 2's default is a checkpoint of objects, whose names are others.
ESTIMATOR_OF_OBJECTS = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok

sok.init()
KINDS = {"fixed": dict(max_vocabulary_size_per_gpu=16),
         "grows": dict(max_vocabulary_size_per_gpu=None, init_capacity=4),
         "forgets": dict(max_vocabulary_size_per_gpu=None, init_capacity=4, max_capacity=16, evict_strategy="lru")}

def build(kind):
    tf.keras.backend.clear_session()
    keys = tf.keras.Input([2, 1], dtype=tf.int64, name="keys")
    rows = tf.keras.layers.Embedding(16, 4, embeddings_initializer="ones") if kind == "stock" else \
        sok.All2AllDenseEmbedding(embedding_vec_size=4, slot_num=2, nnz_per_slot=1, embedding_initializer="ones",
                                  **KINDS[kind])
    head = tf.keras.layers.Dense(1, kernel_initializer="ones")
    model = tf.keras.Model(keys, head(tf.keras.layers.Flatten()(rows(keys))))
    optimizer = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers).Adagrad(0.05)
    model.compile(optimizer if kind == "stock" else sok.DistributedOptimizer(optimizer, average=False), "mse")
    return model

def batches():
    return tf.data.Dataset.range(16).map(lambda i: (
        {"keys": tf.reshape([i, 3 * i % 16], [2, 1])}, tf.reshape(tf.cast(i, tf.float32) / 16, [1]))).batch(4).repeat()

def made(model, name):
    return tf.keras.estimator.model_to_estimator(
        model, model_dir=sys.argv[1] + "/" + name, checkpoint_format="checkpoint")

def losses(kind):
    found = []
    for steps in 3, 4:  # the second goes on from the first one's checkpoint
        estimator = made(build(kind), kind)
        estimator.train(batches, steps=steps)
        found.append(estimator.evaluate(batches, steps=4)["loss"])
    return found

if sys.argv[2] == "2":
    try:
        losses("fixed")
    except RuntimeError as error:
        assert "give tf.keras.estimator.model_to_estimator checkpoint_format='saver'" in str(error), error
        print("done", flush=True)
    sys.exit()
expected = losses("stock")
assert expected[1] < expected[0], expected
for kind in KINDS:
    np.testing.assert_allclose(losses(kind), expected, rtol=1e-5, err_msg=kind)
model = build("fixed")
if not tf.executing_eagerly():
    tf.keras.backend.get_session().run(sok.Init(global_batch_size=4))
model.fit(np.arange(8).reshape([4, 2, 1]), np.ones([4, 1]), verbose=0)
try:
    made(model, "trained").train(batches, steps=1)
except ValueError as error:
    assert "a model that has not been trained" in str(error), error
else:
    raise AssertionError("its rows have no keys")
print("done", flush=True)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_estimator_of_a_keras_model_whose_checkpoints_are_of_objects(ranks, tmp_path):
    assert run_ranks(ranks, ESTIMATOR_OF_OBJECTS, str(tmp_path), str(ranks)).out.count("done") == ranks
