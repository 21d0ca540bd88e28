"""Graphs that `tf.train.import_meta_graph` makes in a fresh process: their Savers restore all tables, or refuse."""
import os

import pytest
from ranks import run_ranks

ARRAY = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok

tf.disable_v2_behavior()
sok.init()
prefix, part = sys.argv[1:]
if part == "save":
    table = sok.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="given")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, prefix)
else:
    other = tf.numpy_function(lambda: np.full([3, 2], 7, np.float32), [], tf.float32)  # the first of this process, too
    saver = tf.train.import_meta_graph(prefix + ".meta")
    with tf.Session() as session:
        try:
            session.run(tf.global_variables_initializer())
        except tf.errors.FailedPreconditionError as error:
            assert "sok1x.Variable 'given': got its initializer in a graph that another process" in str(error), error
        else:
            raise AssertionError("whose function was called?")
        saver.restore(session, prefix)
        (table,) = tf.trainable_variables()
        assert session.run(table).tolist() == [[0, 1], [2, 3], [4, 5]]
"""
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_imported.py")


@pytest.mark.parametrize("saved, restored", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_an_imported_graph_in_a_fresh_process(tmp_path, seed, saved, restored):
    for ranks, part in ((saved, "save"), (restored, "restore")):
        finished = run_ranks(ranks, PROGRAM, tmp_path, seed % 10 ** 6, part, timeout=120)
        for rank in range(ranks):
            assert "rank {} did {}\n".format(rank, part) in finished.out, str(finished)


def test_first_rows_that_are_an_array_do_not_travel_with_the_graph(tmp_path):
    """TensorFlow knows the function that gives them by a number, which in another process is another function's."""
    for part in "save", "restore":
        run_ranks(1, ARRAY, tmp_path / "saved", part, timeout=120)
