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


# A row that has left with its momentum goes to another key.
_FORGETTING = """
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import embedding, evictions

sok.init()
table = EmbeddingVariable(rows=None, dim=4, initializer="zeros", max_capacity=8, evict_strategy="lru")
keys, gradient = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
rows = embedding.lookup_dense(table.table_variables, keys, True)
values = embedding.lookup_dense(table.table_variables, keys, False)
optimizer = tf.train.MomentumOptimizer(1.0, 0.5)
step = optimizer.minimize(-tf.reduce_sum(rows * gradient[:, None]), var_list=[table])
said = optimizer.get_slot(table, "momentum").is_initialized()
evict = evictions.evict(table.table_variables, tf.range(100, dtype=tf.int64))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert not session.run(said), "XLA has compiled no initializer: this test tests nothing"
    session.run(step, {{keys: np.random.RandomState({seed}).permutation(50)[:8], gradient: np.ones(8)}})
    session.run(evict)
    session.run(step, {{keys: [70, 71], gradient: [0, 0]}})
    assert not session.run(values, {{keys: [70, 71]}}).any(), "momentum of keys that have left"
"""


@pytest.mark.skipif(ON_TENSORFLOW_2, reason="tests how XLA of TensorFlow 1.15 leaves variables")
@pytest.mark.parametrize("program", [_PROGRAM, _FORGETTING], ids=["trains", "forgets"])
def test_variables_that_xla_has_assigned(seed, program):
    """They have values, and in TensorFlow 1.15 do not say that they are initialized."""
    environment = dict(os.environ, TF_XLA_FLAGS="--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program.format(seed=seed)], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
    assert done.returncode == 0, done.stdout
