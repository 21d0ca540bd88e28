"""Sixty steps of each of our Adams on 1, 2 and 4 ranks, against TensorFlow's own on a stock variable."""
import os

import numpy as np
import program_adam_steps as program
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from ranks import run_ranks

v1 = tf


def stock(name, seed, rows):
    """[row, m, v] after half of the steps and after all of them, from TensorFlow's optimizer."""
    with tf.Graph().as_default():
        table = v1.get_variable("table", initializer=rows, use_resource=True)
        keys = v1.placeholder(tf.int64, [None, 1, 2])
        weights = v1.placeholder(tf.float32, [None, 1, 2, program.DIM])
        optimizer = (stock_lazy_adam.LazyAdamOptimizer if name == "lazy" else tf.keras.optimizers.Adam)(program.RATE)
        loss = tf.reduce_sum(tf.gather(table, keys) * weights)
        step = optimizer.apply_gradients(zip(tf.gradients(loss, [table]), [table]))
        state = [table] + [optimizer.get_slot(table, slot) for slot in ("m", "v")]
        values = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for number in range(program.STEPS):
                if number == program.STEPS // 2:
                    values.append(session.run(state))
                session.run(step, dict(zip((keys, weights), program.batch(seed, number))))
            return values + [session.run(state)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_equals_tensorflow_step_for_step(ranks, tmp_path, seed):
    run_ranks(ranks, os.path.join(os.path.dirname(program.__file__), "program_adam_steps.py"), tmp_path, seed)
    shards = [dict(np.load(str(tmp_path / "{}.npz".format(rank)))) for rank in range(ranks)]
    tables = {name: np.stack([shard[name] for shard in shards], axis=1).reshape(program.KEYS, program.DIM)
              for name in shards[0]}
    for name in program.OPTIMIZERS:
        start = tables[name + "/0/row"]
        assert not tables[name + "/0/m"].any() and not tables[name + "/0/v"].any()
        for part, expected in enumerate(stock(name, seed, start), 1):
            for what, value in zip(("row", "m", "v"), expected):
                # Rows are sums of steps, and begin around 1.
                np.testing.assert_allclose(tables["{}/{}/{}".format(name, part, what)], value, rtol=1e-6,
                                           atol=1e-6 if what == "row" else 1e-7, err_msg="{} {} {}".format(
                                               name, part, what))
        assert np.abs(tables[name + "/2/row"] - start).max() > 0.1, "nothing was trained"
