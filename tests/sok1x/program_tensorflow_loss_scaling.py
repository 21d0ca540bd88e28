"""Run on two ranks: TensorFlow's own loss scaling, and steps that a branch decides on.

A gradient of a row that rank 0 owns is beyond float16 in the third step. All ranks skip it, and have one loss scale.
"""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge.tensorflow_versions import V2, loss_scales, train_loss_scale_optimizer

tf.logging.set_verbosity(tf.logging.ERROR)
FIRST = 2.0 ** 10
STEPS, TOO_LARGE = 6, 2


def everyones(value):
    """What all ranks have, by rank."""
    return launch.current().mpi.MPI.COMM_WORLD.allgather(value)


def around(how, inner):
    """(the optimizer, its scale as a function)."""
    if how == "contrib":
        from tensorflow.contrib import mixed_precision
        manager = mixed_precision.ExponentialUpdateLossScaleManager(FIRST, 2, 1, 2.0, 0.5)
        return mixed_precision.LossScaleOptimizer(inner, manager), manager.get_loss_scale
    scale = loss_scales.DynamicLossScale(FIRST, 2)
    if how == "rewrite":
        made = tf.train.experimental.enable_mixed_precision_graph_rewrite(inner, scale)
        tf.train.experimental.disable_mixed_precision_graph_rewrite()
        return made, scale
    if how == "keras":
        return tf.keras.mixed_precision.experimental.LossScaleOptimizer(inner, scale), scale
    return train_loss_scale_optimizer.MixedPrecisionLossScaleOptimizer(inner, scale), scale


def build(optimizer_of):
    """A table whose rows are float16 when looked up, and a dense variable: (keys, factors, weights, loss)."""
    items = sok.Variable(np.ones([8, 4], np.float32), name="items")
    keys, factors = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 1])
    weights = tf.get_variable("weights", [4], initializer=tf.ones_initializer(), use_resource=True)
    rows = sok.all2all_dense_embedding(items, keys, dtype="mixed_float16")
    loss = (tf.reduce_sum(tf.cast(rows, tf.float32) * factors) + tf.reduce_sum(weights)) / launch.current().size
    return items, keys, factors, weights, loss, sok.DistributedOptimizer(optimizer_of(0.1), average=False)


def train(session, step, keys, factors):
    for number in range(STEPS):
        given = np.ones([3, 1], np.float32)
        if number == TOO_LARGE and launch.current().rank == 0:
            given[0] = 100  # times the scale it is beyond 65504; key 0 is rank 0's
        session.run(step, {keys: [0, 1, 2], factors: given})


def check_scaling(how):
    keras = how == "keras"
    with tf.Graph().as_default(), tf.Session() as session:
        items, keys, factors, weights, loss, inner = build(
            tf.keras.optimizers.SGD if keras else tf.train.GradientDescentOptimizer)
        optimizer, scale = around(how, inner)
        if keras:
            variables = [items, weights]
            step = optimizer.apply_gradients(zip(optimizer.get_gradients(loss, variables), variables))
        else:
            step = optimizer.minimize(loss)
        scale = scale()
        session.run(tf.global_variables_initializer())
        train(session, step, keys, factors)
        found = session.run([weights, scale])
        rows = session.run(sok.all2all_dense_embedding(items, keys), {keys: [0, 1, 2]})
    for other, other_scale in everyones(found):
        np.testing.assert_allclose(other, 1 - 0.1 * (STEPS - 1), rtol=1e-6, err_msg=how)
        # Doubled after two good steps, halved in the third, doubled after the fifth, one good step since.
        assert other_scale == FIRST * 2, (how, other_scale)
    np.testing.assert_allclose(rows, np.full([3, 4], 1 - 0.1 * (STEPS - 1)), rtol=1e-3, err_msg=how)


def check_tables_alone():
    """By a plain optimizer; nothing has been averaged in this process yet."""
    with tf.Graph().as_default(), tf.Session() as session:
        items = sok.Variable(np.ones([8, 4], np.float32), name="items")
        keys, factors = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 1])
        rows = sok.all2all_dense_embedding(items, keys, dtype="mixed_float16")
        optimizer, scale = around("experimental", tf.train.GradientDescentOptimizer(0.1))
        step = optimizer.minimize(tf.reduce_sum(tf.cast(rows, tf.float32) * factors) / launch.current().size)
        scale = scale()
        session.run(tf.global_variables_initializer())
        train(session, step, keys, factors)
        found = session.run([sok.all2all_dense_embedding(items, keys), scale], {keys: [0, 1, 2]})
    for values, other_scale in everyones(found):
        np.testing.assert_allclose(values, np.full([3, 4], 1 - 0.1 * (STEPS - 1)), rtol=1e-3)
        assert other_scale == FIRST * 2, other_scale


def check_branch(words, predicate_of):
    """A step of gradients that are there before, in a branch. words: of the error; None: there is none."""
    with tf.Graph().as_default(), tf.Session() as session:
        _, keys, factors, weights, loss, optimizer = build(tf.train.GradientDescentOptimizer)
        pairs = optimizer.compute_gradients(loss)
        number = tf.placeholder(tf.int64, [])
        step = tf.cond(predicate_of(pairs, number), lambda: optimizer.apply_gradients(pairs), tf.no_op)
        session.run(tf.global_variables_initializer())
        raised = []
        for count in range(4):
            given = np.ones([3, 1], np.float32)
            if count == TOO_LARGE and launch.current().rank == 0:
                given[0] = 1e30
            try:
                session.run(step, {keys: [0, 1, 2], factors: given, number: count})
            except tf.errors.InvalidArgumentError as error:
                raised.append(str(error))
        values = everyones(session.run(weights).tolist())
    assert all(value == values[0] for value in values), values
    if words is None:
        assert not raised, raised
        np.testing.assert_allclose(values[0], 1 - 0.1 * 2, rtol=1e-6)  # every second step
    else:
        assert len(raised) == 1 and all(word in raised[0] for word in words), raised


def all_finite(pairs, number):
    return tf.reduce_all([tf.reduce_all(tf.is_finite(
        gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient)) for gradient, _ in pairs])


def main():
    sok.init()
    check_tables_alone()
    for how in ["experimental"] + ([] if V2 else ["rewrite", "contrib", "keras"]):
        check_scaling(how)
    check_branch(["tf.cond 'cond'", "True on ranks [1] and False on ranks [0]", "the step of '"], all_finite)
    check_branch(None, lambda pairs, number: tf.equal(number % 2, 0))
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
