"""A canned Estimator with columns of ours, and TensorFlow's own that starts from what has been exported of it.

    [mpiexec -np N] python program_export_dense.py FOLDER ours
    python program_export_dense.py FOLDER stock PREFIX

Both say the average loss of all samples; that of the stock one is taken after a step that changes nothing.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)
random = np.random.RandomState(0)
FEATURES = {name: random.randint(0, 9, [16, 1]) for name in "abk"}
LABELS = random.randint(0, 2, [16, 1]).astype(np.float32)


def input_of(rank, ranks, epochs):
    mine = {name: values[rank::ranks] for name, values in FEATURES.items()}, LABELS[rank::ranks]
    return lambda: tf.data.Dataset.from_tensor_slices(mine).repeat(epochs).batch(8 // ranks)


def estimator(columns, folder, optimizer, **options):
    identity = tf.feature_column.categorical_column_with_identity
    made = [columns.embedding_column(identity("k", 9), 4)] + columns.shared_embedding_columns(
        [identity("a", 9), identity("b", 9)], 4, shared_embedding_collection_name="ab")
    return tf.estimator.DNNClassifier([3], made, folder, optimizer=optimizer,
                                      config=tf.estimator.RunConfig(tf_random_seed=1), **options)


def main(folder, whose, *prefix):
    if whose == "ours":
        import sok1x as sok
        sok.init()
        rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
        made = estimator(sok.feature_column, os.path.join(folder, "ours"), sok.DistributedOptimizer(
            tf.train.AdagradOptimizer(0.1), average=False))
        made.train(input_of(rank, ranks, 3))
    else:
        made = estimator(tf.feature_column, os.path.join(folder, "stock"), tf.train.GradientDescentOptimizer(0.0),
                         warm_start_from=prefix[0])
        made.train(input_of(0, 1, 1), max_steps=1)
    found = made.evaluate(input_of(0, 1, 1))
    sys.stdout.write("loss {!r} after {}\n".format(float(found["average_loss"]), found["global_step"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
