"""Sessions that run their steps in the thread that calls session.run: what follows an op runs outside the executor."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))

# A py_func behind one of our ops runs another session, which has one of ours as well: in the executor's thread that op
# would wait for itself.
PROGRAM = """
import sys, threading
sys.path.insert(0, {here!r})
import tensorflow.compat.v1 as tf
import bridge_operations as operations

CONFIG = tf.ConfigProto(inter_op_parallelism_threads=-1 if {how!r} == 'session' else 0)
OPTIONS = tf.RunOptions(inter_op_thread_pool=-1) if {how!r} == 'run' else None


def doubled(value):
    return operations.describe(2 * value)[1]


def other(value):
    assert threading.current_thread().name != 'sok1x-executor'
    return value + another.run(inner, options=OPTIONS)


with tf.Graph().as_default():
    # A sum of several, so that some of them are done together.
    inner = tf.add_n([doubled(tf.constant(n, tf.float64)) for n in range(8)])
    another = tf.Session(config=CONFIG)
with tf.Graph().as_default():
    fed = tf.placeholder(tf.float64, [])
    made = doubled(fed)
    for _ in range(3):
        made = tf.py_func(other, [made], tf.float64)
        made = doubled(made)
    with tf.Session(config=CONFIG) as session:
        for n in range(20):
            assert session.run(made, {{fed: n}}, options=OPTIONS) == 16 * n + 56 * (2 + 4 + 8), n
print('done')
"""


@pytest.mark.parametrize("how", ["session", "run", "variable", "as_usual"])
def test_what_follows_may_wait_for_the_executor(how):
    # Of its own accord TensorFlow has a thread for each CPU, of which there may be one.
    environment = {"variable": {"TF_NUM_INTEROP_THREADS": "-1"}, "as_usual": {"TF_NUM_INTEROP_THREADS": "4"}}.get(how)
    finished = run_ranks(0, PROGRAM.format(here=HERE, how=how), timeout=60, env=environment)
    assert finished.out.split() == ["done"]
