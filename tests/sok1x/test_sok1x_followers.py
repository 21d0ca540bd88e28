"""A gradient and the step that reads it are one node (bridge_fused_node.h): the step begins when the gradient is done,
without TensorFlow; only where it waits for nothing else. What fails, or is given up, in either is told as of its op."""
import ctypes
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, nodes_of, session

import sok1x as sok
from sok1x.graph_ops.bridge import bridge, library, op_functions

KEYS = np.arange(24).reshape(4, 2, 3) % 7
STEPS = ["adam.lazy_step", "gradient_descent.step"]


def pairs(run, fetched, feed=None):
    """Of the nodes of optimizers' steps in a run: how many steps follow a gradient in it, and how many do not."""
    follow = apart = 0
    for node in nodes_of(run, fetched, feed).values():
        if not node.op.startswith("Sok1xUpdate"):
            continue
        follows = list(node.attr["follows"].list.i) or [-1]
        steps = sum(any(step in name.decode() for step in STEPS) for name in node.attr["functions"].list.s) or 1
        follow += sum(of >= 0 for of in follows)
        apart += steps - sum(of >= 0 for of in follows)
    return follow, apart


class Tables:
    """Two tables, looked up, and the gradients of a loss of both."""

    def __init__(self, **changes):
        self.layers = [dense_layer(embedding_vec_size=3 + number, **changes) for number in range(2)]
        self.outs = [layer(tf.constant(KEYS, tf.int64), training=True) for layer in self.layers]
        self.variables = [layer.embedding_variable for layer in self.layers]
        self.loss = tf.add_n([tf.reduce_sum(out * out) for out in self.outs])
        self.grads = tf.gradients(self.loss, self.variables)

    def step(self, rate=0.1, **changes):
        wrapped = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(rate), **changes)
        return wrapped.apply_gradients(list(zip(self.grads, self.variables)))


def _plain(tables):
    return tables.step(), (2, 0)


def _scheduled(tables):
    """By the global step."""
    return tables.step(tf.train.exponential_decay(0.1, tf.train.get_or_create_global_step(), 2, 0.5)), (2, 0)


def _after_a_lookup(tables):
    """The learning rate is made of what a lookup gives."""
    return tables.step(0.1 + 0 * tf.reduce_sum(tables.outs[0])), (0, 2)


def _after_the_gradient(tables):
    """Another op waits for the gradient of one table."""
    with tf.control_dependencies([tables.grads[0].values]):
        other = tf.identity(tables.loss)
    return [tables.step(), other], (1, 1)


def _after_updates(tables):
    """As with tf.GraphKeys.UPDATE_OPS: what comes before the step needs what was looked up."""
    mean = tf.get_variable("mean", initializer=0.0, trainable=False, use_resource=True)
    with tf.control_dependencies([mean.assign(tf.reduce_mean(tables.outs[0]))]):
        return tables.step(), (0, 2)


def _rows_that_wait(tables):
    """One step's rows come through an Identity that waits for the other step."""
    wrapped = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(0.1))
    other = wrapped.apply_gradients([(tables.grads[1], tables.variables[1])])
    with tf.control_dependencies([other]):
        rows = tf.identity(tables.grads[0].indices)
    grad = tf.IndexedSlices(tables.grads[0].values, rows, tables.grads[0].dense_shape)
    return [wrapped.apply_gradients([(grad, tables.variables[0])]), rows], (1, 1)


def _of_both(tables):
    """A gradient that two steps read has its sums made."""
    return tf.group(tables.step(0.05), tables.step(0.05)), (0, 4)


@pytest.mark.parametrize("made", [_plain, _scheduled, _after_a_lookup, _after_the_gradient, _after_updates,
                                  _rows_that_wait, _of_both])
def test_only_where_nothing_else_is_waited_for(made, monkeypatch):
    found = []
    for fuse in ("1", "0"):
        monkeypatch.setenv("SOK1X_FUSE", fuse)
        with graph():
            tf.set_random_seed(3)
            tables = Tables()
            step, expected = made(tables)
            with session() as run:
                assert pairs(run, step) == (expected if fuse == "1" else (0, sum(expected)))
                for _ in range(3):
                    run.run(step)
                found.append(run.run(tables.variables))
    for one, other in zip(*found):
        if made is _of_both:  # which of both comes first nothing says
            np.testing.assert_allclose(one, other, rtol=1e-6)
        else:
            assert one.tobytes() == other.tobytes()


def test_what_fails_is_told_by_its_name():
    """In the gradient, of which the step then does not run, and in the step; the session goes on."""
    with graph():
        tables = Tables()
        shape = [4, 2, 3, 3]
        given = tf.placeholder_with_default(np.ones(shape, np.float32), [None] * 4)
        tables.grads[0], = tf.gradients(tables.outs[0], tables.variables[0], grad_ys=given)
        rate = tf.placeholder_with_default(0.1, None)
        step = tables.step(rate)
        with session() as run:
            assert pairs(run, step) == (2, 0)
            before = run.run(tables.variables)
            with pytest.raises(tf.errors.InvalidArgumentError, match="lookup_gradient") as failed:
                run.run(step, {given: np.ones([3] + shape[1:], np.float32)})
            assert "with_gradient" not in str(failed.value).split("[[")[0]
            with pytest.raises(tf.errors.InvalidArgumentError, match="learning rate") as failed:
                run.run(step, {rate: [0.1, 0.2]})
            assert "GradientDescent" in str(failed.value)
            after = run.run(tables.variables)
            assert before[0].tobytes() == after[0].tobytes()
            run.run(step)
            assert not np.array_equal(before[0], run.run(tables.variables[0]))


def test_steps_that_are_given_up(seed):
    """At any moment, as another op fails: an error that says why, nothing kept, and the next step is as it must be."""
    library.load()
    loaded = op_functions.Library(bridge.PATH).loaded
    random = np.random.RandomState(seed)
    with graph():
        tables = Tables()
        step = tables.step(0.001)  # so small that 200 steps leave numbers that a GPU does not take for zero
        wait = tf.placeholder(tf.float32, [], name="milliseconds")
        with tf.control_dependencies([tf.py_func(lambda wait: time.sleep(float(wait) / 1000), [wait], [])]):
            later = tf.debugging.assert_less(wait, 0.0, message="given up")
        at_once = tf.debugging.assert_less(wait, 0.0, message="given up")
        with tf.control_dependencies([step]):
            behind = tf.debugging.assert_less(wait, 0.0, message="given up")
        taken = 0
        # On one CPU, too, steps go on while the function sleeps, which has a thread of TensorFlow's.
        with session(config=tf.ConfigProto(inter_op_parallelism_threads=4)) as run:
            run.run(tables.outs)  # all keys have rows, even if each step below is given up before its lookups
            for _ in range(200):
                before, fails = run.run(tables.variables[1]), random.choice([at_once, later, behind])
                with pytest.raises(tf.errors.InvalidArgumentError, match="given up"):
                    run.run([step, fails], {wait: random.choice([0, 0.1, 0.2, 0.5, 1, 2])})
                taken += not np.array_equal(before, run.run(tables.variables[1]))
            assert 0 < taken < 200
            before = run.run(tables.variables)
            run.run(step)
            for table, one, other in zip(tables.layers, before, run.run(tables.variables)):
                np.testing.assert_allclose(other[:7], one[:7] * (1 - 0.002 * _counts()), rtol=1e-5)
    loaded.sok1x_kept_sums_waiting.restype = ctypes.c_int64
    assert loaded.sok1x_kept_sums_waiting() == 0


def _counts():
    """How often each key is looked up, by row: [7, 1]."""
    keys = KEYS.reshape(-1)
    order = sorted(set(keys), key=list(keys).index)
    return np.array([[np.sum(keys == key)] for key in order], np.float32)
