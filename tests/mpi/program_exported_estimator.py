"""An Estimator that trains, is exported by its model_fn as docs/serving.md says, trains on, and is exported again.

    [mpiexec -np N] python program_exported_estimator.py FOLDER
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)


def model_fn(features, labels, mode):
    """The sum of a key's row."""
    layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
    score = tf.reduce_sum(layer(tf.reshape(features, [-1, 1, 1]), training=mode == "train"), [1, 2, 3])
    loss = tf.reduce_sum(score ** 2)
    optimizer = sok.DistributedOptimizer(tf.train.AdagradOptimizer(0.1), average=False)
    return tf.estimator.EstimatorSpec(mode, loss=loss, predictions={"score": score}, train_op=optimizer.minimize(
        loss, tf.train.get_global_step()), scaffold=sok.Scaffold(global_batch_size=4 * launch.current().size))


def serve():
    """The model for production."""
    keys = tf.placeholder(tf.int64, [None])
    return {"keys": keys}, model_fn(keys, None, "infer").predictions


def data():
    """Eight keys, in two batches."""
    return tf.data.Dataset.range(8).batch(4).repeat()


def main(folder):
    """Exports twice, between trainings of all ranks, and compares what is served with the Estimator's predictions."""
    sok.init()
    estimator = tf.estimator.Estimator(model_fn, os.path.join(folder, "model"))
    for version in ("1", "2"):
        estimator.train(data, steps=3)
        path = sok.serving.export_saved_model(os.path.join(folder, version), os.path.join(folder, "model"), serve)
        expected = [one["score"] for one in estimator.predict(lambda: tf.data.Dataset.range(8).batch(4))]
        if launch.current().rank:
            continue
        with tf.Graph().as_default(), tf.Session() as session:
            signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
            served = session.run(signature.outputs["score"].name, {signature.inputs["keys"].name: np.arange(8)})
        np.testing.assert_array_equal(served, expected)
    print("rank {} ok".format(launch.current().rank))


main(sys.argv[1])
