"""What benchmarks take from tf.contrib; where TensorFlow 2 has none, the same in TensorFlow's ops."""
import importlib

import tensorflow.compat.v1 as tf

V2 = not tf.__version__.startswith("1.")


def lazy_adam(rate):
    """The stock LazyAdam, the peer of ours."""
    return lazy_adam_class()(rate)


def lazy_adam_class():
    """`tf.contrib.opt.LazyAdamOptimizer`, slow to import; with TensorFlow 2 a class with its formulas and ops."""
    return _LazyAdamOptimizer if V2 else importlib.import_module("tensorflow.contrib.opt").LazyAdamOptimizer


def most_bytes_in_use(session, device):
    """The most bytes that TensorFlow's allocator of a device has given at a time."""
    if V2:  # a process has one allocator for each GPU, whoever asks it for memory
        return tf.config.experimental.get_memory_info(device.upper().strip("/").replace("DEVICE:", ""))["peak"]
    with session.graph.as_default(), tf.device(device):
        return int(session.run(importlib.import_module("tensorflow.contrib.memory_stats").MaxBytesInUse()))


class _LazyAdamOptimizer(tf.train.AdamOptimizer):
    def _resource_apply_sparse(self, grad, var, indices):
        return self._rows(grad, var, indices, lambda to, value: tf.raw_ops.ResourceScatterUpdate(
            resource=to.handle, indices=indices, updates=value), lambda to, value: tf.raw_ops.ResourceScatterSub(
                resource=to.handle, indices=indices, updates=value))

    def _apply_sparse(self, grad, var):
        return self._rows(grad.values, var, grad.indices, lambda to, value: tf.scatter_update(to, grad.indices, value),
                          lambda to, value: tf.scatter_sub(to, grad.indices, value))

    def _rows(self, grad, var, indices, update, subtract):
        beta1_power, beta2_power, rate, beta1, beta2, epsilon = (tf.cast(value, var.dtype.base_dtype) for value in (
            *self._get_beta_accumulators(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t))
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_t = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        v_t = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power) * m_t / (tf.sqrt(v_t) + epsilon)
        return tf.group(subtract(var, step), update(m, m_t), update(v, v_t))
