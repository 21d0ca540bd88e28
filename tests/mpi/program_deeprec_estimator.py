"""Estimators without tables under the collective strategy: program_deeprec_estimator.py FOLDER, on several ranks."""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import communication, deeprec

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
folder = sys.argv[1]
deeprec.enable_distributed_strategy()
rank, ranks = communication.rank(), communication.num_ranks()
KEYS, LABELS = np.arange(32).reshape(-1, 1) % 8, (np.arange(32) // 16).astype(np.float32).reshape(-1, 1)


def samples(endless=False):
    """This rank's: those of rank 0 have label 0, on two ranks, those of rank 1 label 1."""
    dataset = tf.data.Dataset.from_tensor_slices(
        ({"x": np.array_split(KEYS, ranks)[rank]}, np.array_split(LABELS, ranks)[rank]))
    return (dataset.repeat() if endless else dataset).batch(4 if ranks > 1 else 8)


def regressor(name, **config):
    column = tf.feature_column.categorical_column_with_identity("x", 8)
    return tf.estimator.LinearRegressor(
        [column], model_dir=os.path.join(folder, name),
        config=tf.estimator.RunConfig(log_step_count_steps=1000, **config))


# What evaluate gives is of all ranks' samples, after rank 0's last step, each time.
estimator = regressor("model")
for turn in range(3):
    estimator.train(samples)
    found = estimator.evaluate(samples)
    steps = 4 * (turn + 1)
    assert found["global_step"] == steps and abs(found["label/mean"] - 0.5) < 1e-6, (rank, found)
    seen = np.concatenate([one["predictions"] for one in estimator.predict(samples)])
    assert estimator.get_variable_value("global_step") == steps
    labels = np.array_split(LABELS, ranks)[rank].ravel()
    of_mine = np.mean((seen - labels) ** 2)
    print("of rank {}: {:.9f} {:.9f}".format(rank, of_mine, found["average_loss"]), flush=True)

# Hooks for early stopping end all ranks after one step.
estimator = regressor("stopped", save_checkpoints_steps=2)
os.makedirs(estimator.eval_dir(), exist_ok=True)
hook = tf.estimator.experimental.stop_if_no_decrease_hook(estimator, "loss", 2, run_every_secs=None, run_every_steps=1)
tf.estimator.train_and_evaluate(
    estimator, tf.estimator.TrainSpec(lambda: samples(endless=True), max_steps=60, hooks=[hook]),
    tf.estimator.EvalSpec(samples, steps=2, throttle_secs=0))
print("rank {} stopped at {}".format(rank, estimator.get_variable_value("global_step")), flush=True)
