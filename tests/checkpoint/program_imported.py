"""A model is saved by its program; another process imports its graph and has no tables of its own.

    mpiexec -np N python program_imported.py FOLDER SEED save|restore
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.checkpoint import CheckpointError

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
FOLDER, SEED, PART = sys.argv[1], int(sys.argv[2]), sys.argv[3]
PREFIX = os.path.join(FOLDER, "saved")
KEYS = np.random.RandomState(SEED).randint(0, 40, [6, 1, 1])


def save():
    keys = tf.placeholder(tf.int64, [None, 1, 1], name="keys")
    layer = sok.All2AllDenseEmbedding(40, 4, 1, 1)
    loss = tf.reduce_sum(tf.layers.dense(layer(keys, training=True), 1, name="dense"))
    step = tf.train.AdagradOptimizer(0.5).minimize(loss)
    tf.identity(layer(keys, training=False), name="found")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {keys: KEYS})
        tf.train.Saver().save(session, PREFIX)
        return session.run("found:0", {keys: KEYS})


def restore(expected):
    """What the imported Saver restores is all that was saved, or nothing."""
    saver = tf.train.import_meta_graph(PREFIX + ".meta")
    together = os.path.isdir(PREFIX)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        try:
            saver.restore(session, PREFIX)
        except CheckpointError as error:
            words = "imported graph on 2 ranks" if RANKS > 1 else "in the folder " + PREFIX
            assert words in str(error), error
            assert RANKS > 1 or together
        else:
            assert RANKS == 1 and not together
            np.testing.assert_array_equal(session.run("found:0", {"keys:0": KEYS}), expected)
        if together and RANKS == 1:  # what would be restored afterwards is the folder
            refused = None
            try:
                saver.save(session, PREFIX, write_meta_graph=False)
            except CheckpointError as error:
                refused = str(error)
            assert refused and "a folder of sok1x's files, of an earlier save" in refused, refused
            saver.save(session, PREFIX, 7, write_meta_graph=False)
        if RANKS == 1:  # of the dense variables alone, which are asked for by name
            dense = tf.train.Saver([one for one in tf.global_variables() if one.op.name == "dense/kernel"])
            dense.restore(session, PREFIX)
            np.testing.assert_array_equal(session.run("dense/kernel:0"),
                                          tf.train.load_checkpoint(PREFIX).get_tensor("dense/kernel"))
    with tf.variable_scope("other"):
        kernel = tf.get_variable("kernel", [4, 1])
    tf.train.init_from_checkpoint(PREFIX, {"dense/kernel": kernel})
    with tf.Session() as session:
        session.run(kernel.initializer)
        np.testing.assert_array_equal(session.run(kernel), tf.train.load_checkpoint(PREFIX).get_tensor("dense/kernel"))
    estimator, begun = tf.estimator.Estimator(lambda features, labels, mode: None, FOLDER), None
    try:
        tf.estimator.experimental.InMemoryEvaluatorHook(estimator, lambda: None).begin()
    except ValueError as error:
        begun = str(error)
    assert begun and "EstimatorSpec" in begun, begun  # TensorFlow's: so it has come as far
    tf.train.get_or_create_global_step()
    sok.DynamicVariable(4, name="its_own")  # beside which the other would be left out
    for begin in lambda: sok.CheckpointManager(FOLDER), sok.CheckpointSaverHook(FOLDER, save_steps=1).begin:
        refused = None
        try:
            begin()
        except CheckpointError as error:
            refused = str(error)
        assert refused and "the tables of an imported graph: got 'EmbeddingVariable' of" in refused, refused


sok.init()
RANK, RANKS = launch.current().rank, launch.current().size
if PART == "save":
    rows = save()
    if RANK == 0:
        np.save(os.path.join(FOLDER, "found.npy"), rows)
else:
    restore(np.load(os.path.join(FOLDER, "found.npy")))
print("rank {} did {}".format(RANK, PART))
