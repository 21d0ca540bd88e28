"""Rows of a DynamicVariable without their keys, as Keras' .keras and HDF5 files have them, are refused; with them, as
TensorFlow's format has them, and into a table that has the keys, they are taken.

    python program_rows_alone.py FOLDER
"""
import os
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402

KEYS = np.arange(100, 112)[:, np.newaxis]


class Embedding(tf.keras.layers.Layer):
    """A layer that somebody has written."""

    def __init__(self, init_capacity=4, **options):
        super().__init__(**options)
        self.table = sok.DynamicVariable(dimension=2, initializer="ones", init_capacity=init_capacity, max_capacity=64)

    def call(self, keys):
        return sok.all2all_dense_embedding(self.table, keys)


def model(init_capacity=4):
    """A model of it."""
    keys = tf.keras.Input([1], dtype=tf.int64)
    flat = tf.keras.layers.Flatten()(Embedding(init_capacity, name="embedding")(keys))
    return tf.keras.Model(keys, tf.keras.layers.Dense(1, kernel_initializer="ones", name="dense")(flat))


def refused(load):
    """Asserts that `load` says what is wrong, and what to do."""
    try:
        load()
    except ValueError as error:
        assert "rows alone" in str(error) and "tf.train.Checkpoint" in str(error), error
    else:
        raise AssertionError("rows without keys were taken")


def main():
    """Saves a model in every format, and loads it into fresh ones, and into itself."""
    folder = sys.argv[1]
    sok.init()
    trained = model()
    trained.compile(tf.keras.optimizers.Adagrad(0.5), "mse")
    trained.fit(KEYS, np.zeros([12, 1]), batch_size=4, verbose=0)
    expected = trained.predict(KEYS, verbose=0)
    assert (expected != 2).all()  # which a key without a row gives
    whole, weights = os.path.join(folder, "model.keras"), os.path.join(folder, "model.weights.h5")
    trained.save(whole)
    trained.save_weights(weights)
    trained.save_weights(os.path.join(folder, "tensorflow"))
    refused(lambda: tf.keras.models.load_model(whole, custom_objects={"Embedding": Embedding}))
    refused(lambda: model().load_weights(weights))
    capacity = int(trained.get_layer("embedding").table.read_value().shape[0])
    refused(lambda: model(capacity).load_weights(weights))  # as many rows, and no keys
    fresh = model()
    fresh.load_weights(os.path.join(folder, "tensorflow")).expect_partial()  # without an optimizer
    np.testing.assert_array_equal(fresh.predict(KEYS, verbose=0), expected)
    trained.fit(KEYS, np.ones([12, 1]), batch_size=4, verbose=0)
    assert (trained.predict(KEYS, verbose=0) != expected).any()
    trained.load_weights(weights)  # its keys have the rows that they had
    np.testing.assert_array_equal(trained.predict(KEYS, verbose=0), expected)
    print("ok", flush=True)


main()
