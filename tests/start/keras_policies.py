"""Keras' policies, under one name for each version of TensorFlow."""
# ruff: noqa: F401  (names for others)
import importlib

import tensorflow.compat.v1 as tf

if tf.__version__.startswith("1."):
    base_layer_utils = importlib.import_module("tensorflow.python.keras.engine.base_layer_utils")
    Policy, set_policy = tf.keras.mixed_precision.experimental.Policy, tf.keras.mixed_precision.experimental.set_policy
    LossScaleOptimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer
    HALF, DOUBLE, INFER = "float16_with_float32_vars", "float64_with_float32_vars", "infer"
else:
    base_layer_utils = importlib.import_module("keras.src.engine.base_layer_utils")
    Policy = tf.compat.v2.keras.mixed_precision.Policy

    def set_policy(policy):
        tf.compat.v2.keras.mixed_precision.set_global_policy(INFER if policy is None else policy)

    def LossScaleOptimizer(optimizer, loss_scale):
        return tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=loss_scale)

    HALF, DOUBLE, INFER = "mixed_float16", "float64", "_infer"
