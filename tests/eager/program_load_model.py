"""Files of whole Keras models, which have one rank's rows: several ranks refuse them. And what optimizers of
TensorFlow 1, of which Keras knows no variables, do beside a broadcast.

    python program_load_model.py FOLDER; mpiexec -np 2 python program_load_model.py FOLDER
"""
import os
import pickle
import sys
import warnings

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

warnings.simplefilter("ignore", UserWarning)  # Keras' of its older format
tf.get_logger().setLevel("ERROR")
KEYS = np.arange(60).reshape(20, 3, 1) % 20


def refused(call, *words):
    """A CheckpointError, with these words."""
    try:
        call()
    except sok.checkpoint.CheckpointError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("no error: {}".format(words))


def small(**options):
    """A model that is not trained."""
    keys = tf.keras.Input([3, 1], dtype=tf.int64)
    return tf.keras.Model(keys, sok.All2AllDenseEmbedding(None, 4, 3, 1, **options)(keys))


def not_written(folder, model, *words):
    """Nobody writes some of the rows, on whatever way Keras has there; and the model has its rows as before."""
    before = model.predict(KEYS, verbose=0)
    for name in ("refused.keras", "refused.h5", "refused.weights.h5"):
        path = os.path.join(folder, name)
        for save in (model.save_weights,) if "weights" in name else (
                model.save, lambda path: tf.keras.models.save_model(model, path), model.save_weights):
            refused(lambda: save(path), path, *words)
            assert not os.path.exists(path)
    refused(lambda: pickle.dumps(model), *words)
    np.testing.assert_array_equal(model.predict(KEYS, verbose=0), before)


def train():
    """A model, trained with an optimizer of TensorFlow 1 after a broadcast."""
    keys = tf.keras.Input([3, 1], dtype=tf.int64)
    rows = sok.All2AllDenseEmbedding(64, 4, 3, 1, use_hashtable=False)(keys)
    model = tf.keras.Model(keys, tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(rows)))
    optimizer = sok.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), average=False)
    model.compile(optimizer, "mse")
    before = model.predict(KEYS, verbose=0)
    model.fit(KEYS, np.ones([20, 1]), verbose=0, callbacks=[sok.BroadcastGlobalVariablesCallback(0)])
    assert (model.predict(KEYS, verbose=0) != before).any()
    return model


class Grows(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = sok.DynamicVariable(dimension=2, initializer="0.5", init_capacity=4, name="grows")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def __call__(self, keys):
        return sok.all2all_dense_embedding(self.table, keys)


def grows_no_other(folder):
    """A SavedModel that is loaded beside its model has tables of the same names: more rows are not for that one."""
    model = Grows()
    model(tf.constant([1, 2, 3], tf.int64))
    tf.saved_model.save(model, os.path.join(folder, "grows"))
    loaded = tf.saved_model.load(os.path.join(folder, "grows"))
    np.testing.assert_array_equal(loaded(tf.constant([1, 2], tf.int64)), np.full([2, 2], 0.5))
    try:
        loaded(tf.range(10, 20, dtype=tf.int64))
    except tf.errors.FailedPreconditionError as error:
        assert "table 'grows' cannot get more rows in this session: another table has its name" in str(error), error
    else:
        raise AssertionError("no error")
    assert model.table.numpy().shape == (4, 2) and sok.export(model.table)[0].numpy().tolist() == [1, 2, 3]
    model(tf.range(10, 20, dtype=tf.int64))
    assert sok.export(model.table)[0].shape == [13]


def main():
    """One rank saves the model, and loads it; several do not, SavedModels either."""
    folder = sys.argv[1]
    sok.init(seed=3)
    if launch.current().size == 1:
        model = train()
        expected = model.predict(KEYS, verbose=0)
    for name in ("model.keras", "model.h5"):
        path = os.path.join(folder, name)
        if launch.current().size == 1:
            tf.keras.Model(model.inputs, model.outputs).save(path)  # without an optimizer
            loaded = tf.keras.models.load_model(path, compile=False)
            np.testing.assert_array_equal(loaded.predict(KEYS, verbose=0), expected)
            continue
        assert os.path.exists(path) and sok.All2AllDenseEmbedding
        refused(lambda: tf.keras.models.load_model(path, compile=False), path, "one rank's rows")
    whole, functions = os.path.join(folder, "whole"), os.path.join(folder, "functions")
    if launch.current().size == 1:
        tf.keras.Model(model.inputs, model.outputs).save(whole, save_format="tf")
        tf.saved_model.save(tf.keras.Model(model.inputs, model.outputs), functions)
        np.testing.assert_allclose(tf.saved_model.load(functions)(tf.constant(KEYS)), expected, 1e-5)
        grows_no_other(folder)
        not_written(folder, small(cache_rows=64), "host memory", "Use sok.CheckpointManager")
        return
    for path, load in ((whole, tf.keras.models.load_model), (functions, tf.saved_model.load)):
        assert os.path.exists(path)
        refused(lambda: load(path), path, "cannot be loaded on 2 ranks")  # Keras is not told of the layer
    not_written(folder, small(), "rank")
    not_written(folder, small(cache_rows=64), "host memory", "Use sok.CheckpointManager")


main()
print("ok", flush=True)
