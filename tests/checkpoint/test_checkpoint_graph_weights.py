"""Keras' `save_weights` and `load_weights` in graphs on several ranks: weights by their places, and the optimizer."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_graph_weights.py")
# On one rank a table with a cache goes the same way.
SESSIONS = """
import pathlib
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
import sok1x as sok
from sok1x import launch

keras = tf.keras
sok.init()
rank, ranks = launch.current().rank, launch.current().size
inputs = keras.Input([1, 1], dtype=tf.int64)
layer = sok.All2AllDenseEmbedding(None, 2, 1, 1, name="layer", embedding_initializer="ones", init_capacity=64,
                                  max_capacity=64, **({"cache_rows": 16} if ranks == 1 else {}))
dense = keras.layers.Dense(1, kernel_initializer="ones")
model = keras.Model(inputs, dense(keras.layers.Reshape([2])(layer(inputs))))
model.compile(sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1), average=False), "mse")
keys = np.arange(8).reshape([8, 1, 1])
path, expected = sys.argv[1], []
for number in range(3):
    with tf.Session() as session:
        keras.backend.set_session(session)
        session.run(tf.global_variables_initializer())
        for _ in range(number):
            model.fit(keys, np.zeros([8, 1]), batch_size=8, verbose=0)
        expected.append(model.predict(keys, batch_size=8))
        model.save_weights(path + str(number))
        for other in range(number + 1):
            model.load_weights(path + str(other))
            np.testing.assert_array_equal(model.predict(keys, batch_size=8), expected[other])
        model.save_weights(pathlib.Path(path + str(number)))
        model.load_weights(pathlib.Path(path + str(number)))
assert abs(expected[0] - expected[2]).max() > 1e-2
print("ok")
"""


def test_weights_have_other_names_where_they_are_loaded(seed, tmp_path):
    """Saved by two ranks, loaded by as many, which go on as if nothing had been, and by one."""
    for ranks, stage in ((2, "save"), (2, "load"), (1, "load")):
        finished = run_ranks(ranks, PROGRAM, stage, tmp_path, seed, timeout=200)
        assert finished.out.count("ok") == ranks, str(finished)


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_session_of_a_graph_saves_and_loads(ranks, tmp_path):
    finished = run_ranks(ranks, SESSIONS, tmp_path / "weights", timeout=200)
    assert finished.out.count("ok") == ranks, str(finished)
