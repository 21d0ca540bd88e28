"""Training where XLA compiles what it can of TensorFlow's own ops, as with `global_jit_level` on a GPU."""
import os
import subprocess
import sys

import pytest
from tensorflow2_skips import ON_TENSORFLOW_2

_PROGRAM = """
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok

tf.set_random_seed(1)
random = np.random.RandomState({seed})
layers = [sok.All2AllDenseEmbedding(rows, 4, 2, 1, embedding_initializer="ones") for rows in (64, None)]
keys = tf.placeholder(tf.int64, [None, 2, 1])
loss = tf.add_n([tf.reduce_sum(layer(keys, training=True)) for layer in layers])
step = tf.train.MomentumOptimizer(0.5, 0.25).minimize(loss)
look_up = [layer(keys, training=False) for layer in layers]
said = [variable.is_initialized() for variable in tf.global_variables()]
rows, slot = np.ones(64), np.zeros(64)
with tf.Session() as session:
    session.run(sok.Init(global_batch_size=8))
    session.run(tf.global_variables_initializer())
    assert not any(session.run(said)), "XLA has compiled no initializer: this test tests nothing"
    for _ in range(3):
        batch = random.randint(0, 64, [5, 2, 1])
        session.run(step, {{keys: batch}})
        count = np.bincount(batch.ravel(), minlength=64)
        slot[count > 0] = 0.25 * slot[count > 0] + count[count > 0]
        rows[count > 0] -= 0.5 * slot[count > 0]
    for found in session.run(look_up, {{keys: np.arange(64).reshape(-1, 2, 1)}}):
        np.testing.assert_allclose(found.reshape(64, 4), np.repeat(rows[:, None], 4, 1), rtol=1e-5, atol=1e-5)
"""


@pytest.mark.skipif(ON_TENSORFLOW_2, reason="tests how XLA of TensorFlow 1.15 leaves variables")
def test_variables_that_xla_has_assigned(seed):
    """They have values, and in TensorFlow 1.15 do not say that they are initialized."""
    environment = dict(os.environ, TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _PROGRAM.format(seed=seed)], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
    assert done.returncode == 0, done.stdout
