"""Ranks that save after different steps by TensorFlow's own Savers: refused, for nobody could restore that."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_steps.py")


def test_savers_of_different_steps_are_refused(tmp_path):
    finished = run_ranks(2, PROGRAM, tmp_path, timeout=120, env={"SOK1X_GRACE_SECONDS": "10"})
    for rank in range(2):
        assert "rank {} did all\n".format(rank) in finished.out, str(finished)


# What a Saver saves by itself, where no step was given, and something else has the global step's name.
OTHER_STEPS = """
import sys
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x.checkpoint.files import manifest

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
sok.init()
for number, make in enumerate((
        lambda: tf.placeholder(tf.int64, [], name="global_step"),
        lambda: tf.get_variable("global_step", [], tf.float32),
        lambda: tf.get_variable("global_step", [2], tf.int64, tf.zeros_initializer()),
        lambda: tf.assign_add(tf.get_variable("moved", [], tf.int64, tf.zeros_initializer(), use_resource=False), 1,
                              name="global_step"),
        lambda: tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.placeholder(tf.int64, [])),
        lambda: tf.assign(tf.train.get_or_create_global_step(), 7))):
    with tf.Graph().as_default(), tf.Session() as session:
        table, made = sok.EmbeddingVariable(rows=8, dim=4), make()
        saver, prefix = tf.train.Saver(), "{}-{}".format(sys.argv[1], number)
        session.run(tf.global_variables_initializer())
        if number == 5:
            session.run(made)
        assert saver.save(session, prefix) == prefix
        assert manifest.read(prefix).step == (7 if number == 5 else 0)
        saver.restore(session, prefix)
        if number == 3:
            assert session.run(tf.global_variables()[-1]) == 0
print("ok")
"""


def test_a_saver_takes_no_other_tensor_for_the_global_step(tmp_path):
    assert run_ranks(2, OTHER_STEPS, tmp_path / "saved").out.count("ok") == 2
