"""`tf.contrib.opt.LazyAdamOptimizer`; where TensorFlow has no contrib any more, what it computes, in TensorFlow's ops.

Importing tf.contrib takes seconds: it is looked up when it is first asked for.
"""
import importlib

import tensorflow.compat.v1 as tf


def __getattr__(name):
    if name != "LazyAdamOptimizer":
        raise AttributeError(name)
    if tf.__version__.startswith("1."):
        return importlib.import_module("tensorflow.contrib.opt").LazyAdamOptimizer
    return _LazyAdamOptimizer


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
