"""Estimators that TF_CONFIG makes tasks of a cluster, on two ranks; for test_checkpoint_estimator.py.

    mpiexec -np 2 python program_estimator_cluster.py FOLDER
"""
import json
import os
import sys

import estimator_model
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

tf.logging.set_verbosity(tf.logging.ERROR)
RANK, RANKS = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
CHIEF, WORKER, PS = (["localhost:{}".format(port)] for port in (29811, 29812, 29813))
CLUSTERS = {
    "with_worker": ({"chief": CHIEF, "worker": WORKER}, ("chief", "worker")),
    "with_ps": ({"chief": CHIEF, "ps": PS}, ("chief", "chief")),  # a ps never builds a model
    "evaluator": ({"chief": CHIEF}, ("evaluator", "evaluator")),
    "master": ({"master": CHIEF, "worker": WORKER}, ("master", "worker")),
}


def in_cluster(cluster, task):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}})


def without_tables(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(tf.get_variable("dense", [2]) * 0 + 1))


def main(folder):
    for name, (cluster, tasks) in sorted(CLUSTERS.items()):
        in_cluster(cluster, tasks[RANK])
        estimator = estimator_model.estimator(os.path.join(folder, name), "own", RANKS)
        try:
            if name == "evaluator":  # whose train TensorFlow refuses
                estimator.evaluate(estimator_model.all_keys(0))
            else:
                estimator.train(estimator_model.train_input(0, RANK, RANKS), max_steps=3)
        except ValueError as error:
            words = "got an Estimator whose TF_CONFIG makes this rank the {} 0 of a cluster".format(tasks[RANK])
            assert words in str(error) and "Unset TF_CONFIG" in str(error), error
        else:
            raise AssertionError(name)

    # What has to do with no table is none of ours; it is no chief, and finds no checkpoint.
    in_cluster({"chief": CHIEF}, "evaluator")
    stock = tf.estimator.Estimator(without_tables, os.path.join(folder, "stock_{}".format(RANK)))
    assert stock.evaluate(lambda: tf.data.Dataset.from_tensors(0.0), steps=1)["loss"] == 2

    in_cluster({"chief": CHIEF}, "chief")  # as good as no cluster
    estimator = estimator_model.estimator(os.path.join(folder, "alone"), "own", RANKS)
    estimator.train(estimator_model.train_input(0, RANK, RANKS), max_steps=3)
    found = np.stack(list(estimator.predict(estimator_model.all_keys())))[:, 0]
    np.testing.assert_allclose(found, estimator_model.expected(3), rtol=1e-5, atol=1e-5)
    print("rank", RANK, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
