"""A table that an optimizer keeps from the GPU: its user is told so, once."""
import os

import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import kept_in_host_memory

# Of those that optimizers here step by, what a GPU has; TensorFlow's registry has no GPU on the host.
GPU_KERNELS = ("ResourceScatterSub", "ResourceScatterAdd", "ResourceApplyAdam", "ResourceApplyGradientDescent")
stock_kernels = kept_in_host_memory.registered_kernels.get_registered_kernels_for_op


class AsWithGpu:
    """TensorFlow's registry, with kernels for GPUs of some ops."""

    @staticmethod
    def get_registered_kernels_for_op(name):
        found = stock_kernels(name)
        for kernel in found.kernel:
            kernel.device_type = "GPU" if name in GPU_KERNELS else kernel.device_type
        return found


@pytest.fixture
def said(monkeypatch):
    found = []
    monkeypatch.setattr(tf.logging, "warning", lambda words, *given: found.append(words % given))
    monkeypatch.setattr(kept_in_host_memory, "_warned", set())
    monkeypatch.setattr(kept_in_host_memory, "registered_kernels", AsWithGpu)
    return found


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(kept_in_host_memory, "has_gpu", lambda request: True)


def train(*optimizers, device=None):
    """Tables called table_0 and so on, each with an optimizer of its own, trained for some steps in two sessions."""
    sok.init()
    with tf.Graph().as_default(), tf.device(device):
        steps = []
        for number, optimizer in enumerate(optimizers):
            layer = sok.All2AllDenseEmbedding(32, 4, 2, 1, name="table_{}".format(number))
            loss = tf.reduce_sum(layer(tf.constant([[[1], [2]]], tf.int64), training=True) ** 2)
            with sok.OptimizerScope(layer.trainable_variables):
                gradients = tf.gradients(loss, layer.trainable_variables)
                steps.append(optimizer.apply_gradients(zip(gradients, layer.trainable_variables)))
        for _ in range(2):
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(2):
                    session.run(steps)


def test_optimizers_without_a_kernel_are_named_once_for_each_table(said, gpu):
    # Those without a kernel are so in TensorFlow 1.15 and 2.
    train(tf.train.RMSPropOptimizer(0.1), tf.train.GradientDescentOptimizer(0.1), tf.train.MomentumOptimizer(0.1, 0.9),
          sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), sok.OptimizerWrapper(tf.train.MomentumOptimizer(0.1, 0.9)),
          tf.train.AdamOptimizer(0.1))
    assert len(said) == 3, said
    for table, step in (("table_0", "ResourceSparseApplyRMSProp"), ("table_2", "ResourceSparseApplyMomentum"),
                        ("table_4", "ResourceSparseApplyMomentum")):
        message, = [one for one in said if "'{}".format(table) in one]
        assert step in message and "update_" in message and "LazyAdamOptimizer" in message, message


def test_who_has_asked_for_host_memory_is_told_nothing(said, gpu):
    train(tf.train.MomentumOptimizer(0.1, 0.9), device="/cpu:0")
    assert not said


@pytest.mark.skipif(os.environ.get("SOK1X_TEST_DEVICE") == "gpu", reason="there is one")
def test_without_a_gpu_nothing_is_said(said):
    train(tf.train.MomentumOptimizer(0.1, 0.9))
    assert not said
