"""Gradients clipped on two ranks, right or refused: program_gradients.py runs it."""
import numpy as np
import tensorflow.compat.v1 as tf
from gradients_model import DIM, RANK, RANKS, Model, check, equal_on_all_ranks, exchanges, expect, session

import sok1x as sok


def by_function(model, norms):
    optimizer = sok.DistributedOptimizer(tf.train.MomentumOptimizer(0.05, 0.5), average=False)
    gradients, variables = zip(*optimizer.compute_gradients(model.loss, model.variables))
    clipped, norm = sok.clip_by_global_norm(list(gradients) + [None], 0.3)
    check(clipped.pop() is None and isinstance(clipped[0], tf.IndexedSlices))
    norms.append(norm)
    before = exchanges()
    step = optimizer.apply_gradients(zip(clipped, variables))
    check(exchanges() == before, "what is clipped is summed already", exchanges())
    return step


def by_keyword(model, norms):
    return sok.DistributedOptimizer(tf.train.MomentumOptimizer(0.05, 0.5), average=False,
                                    clip_norm=0.3).minimize(model.loss, var_list=model.variables)


def by_keras(model, norms):
    optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, momentum=0.5), average=False,
                                         clip_norm=tf.constant(0.3))
    return tf.group(*optimizer.get_updates(model.loss, model.variables))


def check_clipping(make, steps, random):
    """The same as one rank with the whole batch; dense replicas equal bit for bit, and so is the norm."""
    with tf.Graph().as_default():
        model, norms = Model(), []
        step = make(model, norms)
        clipped, norm = tf.clip_by_global_norm(model.stock_gradients(), 0.3)
        stock_step = tf.train.MomentumOptimizer(0.05, 0.5).apply_gradients(zip(clipped, model.stock))
        with session() as run:
            model.start(run)
            clips = 0
            for i in range(steps):
                found = run.run([step, stock_step, norm] + norms, model.feed(random))
                clips += found[2] > 0.3
                if norms:
                    # Later gradients are small differences of large values.
                    np.testing.assert_allclose(found[3], found[2], rtol=1e-4 if i < 10 else 0, atol=1e-3 * (i >= 10))
                    equal_on_all_ranks(found[3:])
            check(clips > 1, "nothing was clipped")
            model.compare(run, 1e-3)
            equal_on_all_ranks(run.run(model.dense + [
                variable for variable in tf.global_variables() if variable.name in ("w/Momentum:0", "b/Momentum:0")]))


def check_keras_clips(random):
    """clipnorm and clipvalue of a Keras optimizer, of each variable by itself, as on one rank."""
    for options in ({"clipnorm": 0.1}, {"clipvalue": 0.02}):
        for minimize in (False, True):
            with tf.Graph().as_default():
                model = Model()
                optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.05, **options), average=False)
                if minimize:
                    step = optimizer.minimize(lambda: Model._loss(model.layer, model.keys, model.dense),
                                              model.variables)
                else:
                    step = optimizer.get_updates(model.loss, model.variables)
                check(optimizer.get_config().items() >= options.items(), "the limits are gone")
                stock = tf.keras.optimizers.SGD(0.05)
                limit = (lambda g: tf.clip_by_norm(g, 0.1)) if "clipnorm" in options else (
                    # TensorFlow would clip each part of a row that occurs twice.
                    lambda g: tf.clip_by_value(tf.convert_to_tensor(g), -0.02, 0.02))
                stock_step = stock.apply_gradients([
                    (limit(g), v) for g, v in zip(model.stock_gradients(), model.stock)])
                with session() as run:
                    model.start(run)
                    for _ in range(4):
                        run.run([step, stock_step], model.feed(random))
                    model.compare(run, 1e-3)
                    equal_on_all_ranks(run.run(model.dense))


def check_replicas_stay_equal(random):
    """Also where a rank sums with other numbers of threads, and so in another order; with no table among gradients."""
    size = 3000017
    ways = {"clip_norm": lambda: sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), clip_norm=1.0),
            "clipnorm": lambda: sok.DistributedOptimizer(tf.keras.optimizers.SGD(1.0, clipnorm=1.0))}
    for name, make in ways.items():
        with tf.Graph().as_default():
            w = tf.get_variable("w", [size], initializer=tf.zeros_initializer(), use_resource=True)
            fed = tf.placeholder(tf.float32, [size])
            optimizer, loss = make(), tf.reduce_sum(w * fed)
            step = optimizer.minimize(loss) if name == "clip_norm" else tf.group(*optimizer.get_updates(loss, [w]))
            expected = np.zeros(size)
            with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1 + 2 * RANK)) as run:
                run.run(sok.Init(global_batch_size=RANKS))
                run.run(tf.global_variables_initializer())
                for _ in range(3):
                    gradient = random.randn(size).astype(np.float32)
                    run.run(step, {fed: gradient})
                    expected -= gradient / np.linalg.norm(gradient.astype(np.float64))
                found = run.run(w)
                equal_on_all_ranks([found])
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6, err_msg=name)


def check_local_clipping_is_refused():
    """TensorFlow's own clipping by norms over a table's gradient, before any optimizer applies it."""
    train = tf.train.GradientDescentOptimizer
    for apply_table in (True, False):
        with tf.Graph().as_default():
            model = Model()
            optimizer = sok.DistributedOptimizer(train(0.1))
            gradients, variables = zip(*optimizer.compute_gradients(model.loss, model.variables))
            clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
            apply = (lambda: train(0.1).apply_gradients([(clipped[0], variables[0])])) if apply_table else (
                lambda: optimizer.apply_gradients(zip(clipped[1:], variables[1:])))
            expect(ValueError, ["sok1x.clip_by_global_norm", "w:0" if not apply_table else "EmbeddingVariable"], apply)
            expect(ValueError, ["use_norm"], lambda: sok.clip_by_global_norm(gradients, 1.0, use_norm=norm))
    with tf.Graph().as_default():  # weights have a gradient too, and an optimizer has it wait for the table's
        table, ids = sok.DynamicVariable(2, name="items"), tf.ragged.constant([[RANK], [7]], dtype=tf.int64)
        out = sok.lookup_sparse(table, ids, tf.ragged.constant([[2.0], [3.0]]), "sum")
        pairs = train(0.1).compute_gradients(tf.reduce_sum(out), [table])
        assert "control_dependency" in pairs[0][0].values.name
        expect(ValueError, ["table 'items'", "scaled"], lambda: train(0.1).apply_gradients(
            [(tf.clip_by_global_norm([pairs[0][0]], 1.0)[0][0], table)]))
        sok.clip_by_global_norm([pairs[0][0]], 1.0)
    with tf.Graph().as_default():  # who looks at such, and applies the gradient as it is, may
        model = Model()
        optimizer = sok.DistributedOptimizer(train(0.1), average=False)
        (gradient, table), *others = optimizer.compute_gradients(model.loss, model.variables)
        of_columns = tf.reduce_mean(gradient.values, axis=0, keepdims=True)
        moving = tf.get_variable("moving", initializer=np.zeros([1, DIM], np.float32), trainable=False,
                                 use_resource=True)
        with tf.control_dependencies([moving.assign(0.9 * moving + 0.1 * tf.square(of_columns))]):
            tf.summary.histogram("centred", gradient.values - of_columns)
        halves = tf.reduce_sum(tf.stack([0.5 * gradient.values, 0.5 * gradient.values]), axis=0)
        train(0.1).apply_gradients([(tf.IndexedSlices(halves, gradient.indices, gradient.dense_shape), table)] + others)
    for change in (lambda g: g - tf.reduce_mean(g, axis=0, keepdims=True), lambda g: g / tf.reduce_sum(g, axis=[-2])):
        with tf.Graph().as_default():  # columns' means and sums are of this rank's rows
            model = Model()
            optimizer = sok.DistributedOptimizer(train(0.1))
            (gradient, table), *others = optimizer.compute_gradients(model.loss, model.variables)
            expect(ValueError, ["EmbeddingVariable", "over this rank's rows"], lambda change=change: train(
                0.1).apply_gradients([(change(tf.convert_to_tensor(gradient)), table)]))
            train(0.1).apply_gradients([(change(other), variable) for other, variable in others
                                        if other.shape.rank == 2])
    with tf.Graph().as_default():
        model = Model()
        expect(ValueError, ["not averaged"], lambda: sok.clip_by_global_norm(
            tf.gradients(model.loss, model.variables), 1.0))
        expect(ValueError, ["sok1x.DistributedOptimizer"], lambda: tf.keras.optimizers.SGD(
            0.1, clipnorm=1.0).get_updates(model.loss, [model.table]))
    with tf.Graph().as_default():  # what merely looks at norms is nobody's harm
        model = Model()
        optimizer = sok.DistributedOptimizer(train(0.1))
        pairs = optimizer.compute_gradients(model.loss, model.variables)
        tf.summary.scalar("norm", tf.linalg.global_norm([gradient for gradient, _ in pairs]))
        penalty = tf.reduce_sum(tf.square(pairs[1][0]))
        optimizer.apply_gradients(pairs)
        optimizer.minimize(model.loss + 0.1 * penalty, var_list=model.dense)
        sok.clip_by_global_norm([gradient for gradient, _ in pairs], 1.0, use_norm=sok.global_norm(
            [gradient for gradient, _ in pairs]))
