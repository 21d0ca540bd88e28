"""Run on two ranks: a step in a branch of a tf.function that each rank decides by its own part of the gradients.

A rank that stepped alone would have its replicas of dense variables drift apart: all step, or none, or it is an error.
"""
import functools

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KERAS = tf.keras.optimizers
KINDS = {"new": lambda: KERAS.SGD(1.0), "legacy": lambda: KERAS.legacy.SGD(1.0),
         "train": lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0)}
# AutoGraph cannot read lambdas inside each other, and says so.
function = functools.partial(tf.function, autograph=False)


class Model:
    """A table with a row for each rank, and a kernel."""

    def __init__(self, kind):
        self.optimizer = sok.DistributedOptimizer(KINDS[kind]())
        self.table, self.kernel = sok.Variable(np.ones([2, 1], np.float32)), tf.Variable([1.0])
        if kind == "new":
            self.optimizer.build([self.table, self.kernel])

    def gradients(self, scale):
        with tf.GradientTape() as tape:
            rows = sok.all2all_dense_embedding(self.table, [launch.current().rank])
            loss = tf.reduce_sum(rows * self.kernel * scale)
        return tape.gradient(loss, [self.table, self.kernel])

    def step(self, scale, decide):
        """If all that `decide` is given is finite."""
        table, kernel = self.gradients(scale)
        pairs = [(table, self.table), (kernel, self.kernel)]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in decide(table, kernel)])
        return tf.cond(finite, lambda: self.applied(pairs), lambda: 0)

    def nested(self, scale, decide):
        table, kernel = self.gradients(scale)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in decide(table, kernel)])
        return tf.cond(finite, lambda: tf.cond(tf.reduce_sum(kernel) > -100.0,
                                               lambda: self.applied([(table, self.table)]), lambda: 0), lambda: 0)

    def applied(self, pairs):
        self.optimizer.apply_gradients(pairs)
        return 1


def of_table(table, kernel):
    return [table.values]


def dense_steps(rank):
    """Of what a function is given nothing is known there: any step counts."""
    kernel, optimizer = tf.Variable([1.0]), KERAS.SGD(0.5)
    optimizer.build([kernel])
    inner = function(lambda gradient: optimizer.apply_gradients([(gradient, kernel)]))
    inner(tf.constant([0.0]))  # it is traced here, and in no branch
    flag = tf.Variable(rank == 0)

    def apply(gradient):
        inner(gradient)
        return 1

    return kernel, {
        "a function": lambda gradient: tf.cond(tf.identity(flag), lambda: apply(gradient), lambda: 0),
        "a variable": lambda gradient: tf.cond(flag, lambda: apply(gradient), lambda: 0),
        "in a branch in a function": lambda gradient: function(lambda: tf.cond(
            tf.constant(True), lambda: tf.cond(flag, lambda: apply(gradient), lambda: 0), lambda: 0))(),
        "a case": lambda gradient: tf.switch_case(tf.cast(flag, tf.int32), [lambda: 0, lambda: apply(gradient)])}


def check_dense_steps(rank):
    kernel, steps = dense_steps(rank)
    for name, step in steps.items():
        words = "got branch 1 on ranks [0] and 0 on ranks [1]" if name == "a case" else \
            "got the predicate True on ranks [0] and False on ranks [1]"
        try:
            function(step)(tf.constant([1.0]))
        except tf.errors.InvalidArgumentError as error:
            assert words in str(error), (name, error)
        else:
            raise AssertionError((name, kernel.numpy()))
        assert kernel.numpy().tolist() == [1.0], name


def check_scaled_alone(rank, inner):
    """Keras' loss scaling of a model without tables asks no other rank: one trains alone, then each for itself."""
    kernel = tf.Variable([1.0])
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(inner(0.5))

    @function
    def step(scale):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(kernel * scale))
        gradients = optimizer.get_unscaled_gradients(tape.gradient(loss, [kernel]))
        optimizer.apply_gradients(zip(gradients, [kernel]))

    first = float(optimizer.loss_scale)
    if rank == 0:
        step(tf.constant(1.0))
    step(tf.constant(1.0 if rank == 0 else float("inf")))
    assert kernel.numpy().tolist() == ([0.0] if rank == 0 else [1.0]), kernel
    assert float(optimizer.loss_scale) == first / (1 + rank), optimizer.loss_scale


def main():
    sok.init()
    rank = launch.current().rank
    model, known = Model("new"), tf.constant(True)  # a predicate of eager execution
    function(lambda: tf.cond(known, lambda: model.applied([(model.gradients(1.0)[0], model.table)]), lambda: 0))()
    np.testing.assert_array_equal(sok.export(model.table)[1].numpy(), [[0.0]])
    check_dense_steps(rank)
    for inner in (KERAS.SGD, KERAS.legacy.SGD):
        check_scaled_alone(rank, inner)
    for kind in KINDS:
        for way in (Model.step, Model.nested):
            model = Model(kind)
            step = function(lambda scale: way(model, scale, of_table))
            assert step(tf.constant(1.0)).numpy() == 1, (kind, way)
            nobody = float("inf")
            assert step(tf.constant(nobody)).numpy() == 0, (kind, way)
            try:
                step(tf.constant(1.0 if rank == 0 else nobody))
            except tf.errors.InvalidArgumentError as error:
                assert "got the predicate True on ranks [0] and False on ranks [1]" in str(error), error
            else:
                raise AssertionError((kind, way))
            keys, values = sok.export(model.table)
            np.testing.assert_array_equal(values.numpy(), [[0.0]], "{} {}".format(kind, keys))
    print("rank", rank, "ok")


if __name__ == "__main__":
    main()
