"""Run by test_eager.py, on two ranks: clipping by norms in eager execution and in tf.functions.

What is right on several ranks equals TensorFlow's clipping of the whole gradient; what would clip by the norm of a
rank's own rows, or exchange them, is refused.
"""
import functools
import importlib.util

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.optimizers import clipping  # noqa: E402
from sok1x.optimizers import gradients as averaging  # noqa: E402

KERAS = tf.keras.optimizers
KEYS, LIMIT = 6, 1.0


class Model:
    def __init__(self, world, optimizer):
        self.optimizer = optimizer
        self.table, self.kernel = sok.Variable(np.ones([KEYS, 2], np.float32)), tf.Variable([1.0, 2.0])
        self.variables = [self.table, self.kernel]
        self.mine = tf.range(world.rank, KEYS, world.size)

    def tape(self):
        with tf.GradientTape() as tape:
            # Two lookups of the table, whose gradients the tape puts together.
            rows = sok.all2all_dense_embedding(self.table, self.mine) + 0 * sok.all2all_dense_embedding(
                self.table, self.mine)
            loss = tf.reduce_sum(rows * tf.cast(self.mine[:, None] + 1, tf.float32) * self.kernel)
        return tape, loss

    def gradients(self):
        tape, loss = self.tape()
        return tape.gradient(loss, self.variables)


def expected():
    """Rows and kernel after a step with a rate of 0.5 on the clipped gradient of all samples."""
    numbers, kernel = np.arange(1.0, KEYS + 1)[:, None], np.array([1.0, 2.0])
    found = [numbers * kernel, np.full(2, numbers.sum())]
    norm = np.sqrt(sum((each ** 2).sum() for each in found))
    return [value - 0.5 * each * LIMIT / norm for value, each in zip((np.ones([KEYS, 2]), kernel), found)]


def computed(model):
    """sok.clip_by_global_norm between compute_gradients and apply_gradients."""
    tape, loss = model.tape()
    pairs = model.optimizer.compute_gradients(loss, model.variables, tape=tape)
    clipped, _ = sok.clip_by_global_norm([gradient for gradient, _ in pairs], LIMIT, variables=model.variables)
    model.optimizer.apply_gradients(zip(clipped, model.variables))


def inside(model):
    model.optimizer.apply_gradients(zip(model.gradients(), model.variables))


def of_horovods_tape(model):
    import horovod.tensorflow as hvd
    hvd.init()
    tape, loss = model.tape()
    found = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, model.variables)
    clipped, _ = sok.clip_by_global_norm(found, LIMIT, variables=model.variables)
    model.optimizer.apply_gradients(zip(clipped, model.variables))


def all_by_tensorflow(model):
    tf.clip_by_global_norm(model.gradients(), LIMIT)


def one_by_tensorflow(model):
    tf.clip_by_norm(model.gradients()[0], LIMIT)


def not_averaged(model):
    sok.clip_by_global_norm(model.gradients(), LIMIT, variables=model.variables)


def by_horovod(model):
    import horovod.tensorflow as hvd
    hvd.init()
    hvd.allreduce(model.gradients()[0])


def out_of_a_function(model):
    tf.clip_by_global_norm(tf.function(model.gradients)(), LIMIT)


def out_of_functions(model):
    """One in another."""
    inner = tf.function(model.gradients)
    tf.clip_by_norm(tf.function(lambda: inner()[::-1])()[1], LIMIT)


def backwards(model):
    """A function that the tape has called backwards: what makes it may be of Keras, or a model's `call`."""
    with tf.GradientTape() as tape:
        loss = tf.function(lambda: model.tape()[1])()
    tf.clip_by_global_norm(tape.gradient(loss, model.variables), LIMIT)


def into_a_function(model):
    """Traced for what is no table's, it takes that, and no other."""
    clip = tf.function(lambda gradients: tf.clip_by_global_norm(gradients, LIMIT)[0])
    slices = tf.IndexedSlices(tf.ones([3, 2]), tf.range(3), tf.constant([KEYS, 2]))
    clipped = clip([slices, tf.constant([3.0, 4.0])])[1]
    if tf.executing_eagerly():
        np.testing.assert_allclose(clipped, np.array([3.0, 4.0]) / np.sqrt(31.0), 1e-6)
    clip(model.gradients())


def into_a_function_in_a_function(model):
    inner = tf.function(lambda gradient: tf.clip_by_norm(gradient, LIMIT))
    tf.function(lambda gradient: inner(gradient))(model.gradients()[0])


def by_horovod_out_of_a_function(model):
    import horovod.tensorflow as hvd
    hvd.init()
    hvd.allreduce(tf.function(model.gradients)()[0])


def by_horovod_in_a_function(model):
    import horovod.tensorflow as hvd
    hvd.init()
    tf.function(hvd.allreduce)(model.gradients()[0])


def regularized(model):
    """The table's gradient, dense: of a lookup and of all rows together."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.all2all_dense_embedding(model.table, model.mine)) + tf.nn.l2_loss(model.table)
    return tape.gradient(loss, model.variables)


def regularized_by_tensorflow(model):
    tf.clip_by_global_norm(regularized(model), LIMIT)


def regularized_one_by_tensorflow(model):
    tf.clip_by_norm(regularized(model)[0], LIMIT)


def regularized_by_horovod(model):
    import horovod.tensorflow as hvd
    hvd.init()
    hvd.allreduce(regularized(model)[0])


def regularized_inside(model):
    """What is right: by the norm of all ranks' rows. Rows and a kernel are ones and 1, 2; each row's gradient is 2."""
    model.optimizer.apply_gradients(zip(regularized(model), model.variables))
    norm = np.sqrt(KEYS * 2 * 2.0 ** 2)
    keys, values = sok.export(model.table)
    np.testing.assert_allclose(values.numpy(), np.full([len(keys), 2], 1.0 - 0.5 * 2.0 * LIMIT / norm), rtol=1e-5)


def check_equal(model, step):
    step()
    rows, kernel = expected()
    keys, values = sok.export(model.table)
    np.testing.assert_allclose(values.numpy(), rows[keys.numpy()], rtol=1e-5)
    np.testing.assert_allclose(model.kernel.numpy(), kernel, rtol=1e-5)


def check_refused(step, words):
    try:
        step()
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError("{}: no error: {}".format(step, words))


def check_known_as_summed(model):
    """Clipped by its own norm a gradient is still one that the ranks have summed, and not to be summed once more."""
    summed = averaging.average([(tf.constant([3.0, 4.0]), model.kernel)], False)
    (clipped, kernel), = clipping.clip_by_norms(summed, LIMIT)
    (again, _), = averaging.average([(clipped, kernel)], False)
    np.testing.assert_array_equal(again, clipped)


def main():
    sok.init()
    world = launch.current()
    has_horovod, sgd, older = bool(importlib.util.find_spec("horovod")), KERAS.SGD, KERAS.legacy.SGD
    own_norm = "by a norm of this rank's rows"
    equal = [(computed, lambda: sok.DistributedOptimizer(sgd(0.5), average=False)),
             (inside, lambda: sok.DistributedOptimizer(sgd(0.5, global_clipnorm=LIMIT), average=False)),
             (inside, lambda: sok.DistributedOptimizer(  # by value first
                 older(0.5, global_clipnorm=LIMIT, clipvalue=1e3), average=False))]
    refused = [(all_by_tensorflow, own_norm, sgd), (one_by_tensorflow, own_norm, sgd),
               (not_averaged, "is not averaged", sgd), (inside, own_norm, lambda: sgd(0.5, clipnorm=LIMIT)),
               (inside, own_norm, lambda: sgd(0.5, global_clipnorm=LIMIT)),
               (inside, own_norm, lambda: older(0.5, clipnorm=LIMIT))]
    refused += [(step, own_norm, sgd) for step in (
        regularized_by_tensorflow, regularized_one_by_tensorflow, out_of_a_function, out_of_functions, backwards,
        into_a_function, into_a_function_in_a_function)]
    if has_horovod:  # from its first step on it sums dense gradients
        refused.append((regularized_by_horovod, "complete on the rank", sgd))
        equal.append((of_horovods_tape, lambda: sgd(0.5)))
        refused += [(step, "complete on the rank", sgd) for step in (
            by_horovod, by_horovod_out_of_a_function, by_horovod_in_a_function)]
    for in_function in (False, True):
        def bound(step, model):
            taken = functools.partial(step, model)
            return tf.function(taken) if in_function else taken
        for step, made in equal:
            model = Model(world, made())
            check_equal(model, bound(step, model))
        for step, words, made in refused:
            check_refused(bound(step, Model(world, made())), words)
    regularized_inside(Model(world, sok.DistributedOptimizer(sgd(0.5, global_clipnorm=LIMIT), average=False)))
    check_known_as_summed(model)
    # What has no table's gradient, or takes each row for itself, is TensorFlow's as ever.
    np.testing.assert_allclose(tf.clip_by_global_norm([tf.constant([3.0, 4.0])], 1.0)[0][0], [0.6, 0.8], rtol=1e-6)
    tf.clip_by_norm(model.gradients()[0], LIMIT, axes=[1])
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
