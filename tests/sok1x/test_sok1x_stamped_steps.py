"""Rows that optimizers move by gradients that no lookup has made as they are: all of them are in incremental dumps."""
import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf
from incremental_model import D, Model, V, dump
from sok1x_cases import graph, session

import sok1x as sok

v1 = tf


def dense(slices, shard):
    return tf.convert_to_tensor(slices)


STEPS = {
    # name: (the optimizer, what it is given in place of a lookup's gradient, the rows that are changed then)
    "dense": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), dense, range(V)),
    "dense, distributed": (lambda: sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9)), dense, range(V)),
    "dense, clipped": (lambda: v1.train.RMSPropOptimizer(0.1, momentum=0.9),
                       lambda slices, shard: tf.clip_by_average_norm(slices, 100.0), range(V)),
    "dense, Keras": (lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9), dense, range(V)),
    "made by hand": (lambda: v1.train.GradientDescentOptimizer(0.1), lambda slices, shard: tf.IndexedSlices(
        tf.ones([2, D]), tf.constant([9, 11])), [9, 11]),
    "made by hand, dense": (lambda: v1.train.GradientDescentOptimizer(0.1), lambda slices, shard: tf.ones([V, D]),
                            range(V)),
    "of two": (lambda: v1.train.AdagradOptimizer(0.1), lambda slices, shard: tf.IndexedSlices(
        tf.concat([slices.values, tf.ones([1, D])], 0), tf.concat([slices.indices, [9]], 0)), [0, 9]),
    "sparse, scaled": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), lambda slices, shard: tf.IndexedSlices(
        2.0 * slices.values, slices.indices, slices.dense_shape), [0]),
}


@pytest.mark.parametrize("name", sorted(STEPS))
def test_steps_by_gradients_that_no_lookup_has_made(name):
    """With a momentum a dense gradient moves rows that the lookup has not found."""
    make, other, expected = STEPS[name]
    with graph():
        model, optimizer = Model(use_hashtable=False), make()
        slices, = tf.gradients(model.loss, [model.shard])
        step = optimizer.apply_gradients([(other(slices, model.shard), model.shard)])
        with tf.control_dependencies([step]):
            step = v1.assign_add(model.number, 1)
        with session() as run:
            run.run(step, {model.keys: np.arange(6)})
            before = run.run(model.shard)
            run.run(step, {model.keys: [0] * 6})
            moved = np.flatnonzero((run.run(model.shard) != before).any(1))
            changed = dump(run, model, 1)
            assert changed == list(expected) and set(moved) <= set(changed), (moved, changed)
            assert dump(run, model, 2) == []


@pytest.mark.skipif(not hasattr(tensorflow, "contrib"), reason="TensorFlow 2 has no contrib")
def test_contribs_own_optimizers():
    with graph():
        momentum = tensorflow.contrib.optimizer_v2.MomentumOptimizer(0.1, 0.9)
        model = Model(use_hashtable=False)
        slices, = tf.gradients(model.loss, [model.shard])
        step = momentum.apply_gradients([(tf.convert_to_tensor(slices), model.shard)], model.number)
        with session() as run:
            run.run(step, {model.keys: np.arange(6)})
            run.run(step, {model.keys: [0] * 6})
            assert dump(run, model, 1) == list(range(V))


@pytest.mark.skipif(not hasattr(tensorflow, "contrib"), reason="TensorFlow 2 has no contrib")
def test_contribs_loss_loss_scaling_makes_dense_gradients():
    with graph():
        model = Model(use_hashtable=False)
        scaled = tensorflow.contrib.mixed_precision.LossScaleOptimizer(
            sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), average=False),
            tensorflow.contrib.mixed_precision.FixedLossScaleManager(8.0))
        step = scaled.minimize(model.loss, model.number)
        with session() as run:
            run.run(step, {model.keys: np.arange(6)})
            run.run(step, {model.keys: [0] * 6})
            assert dump(run, model, 1) == list(range(V))
