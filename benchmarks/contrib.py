"""What benchmarks take from tf.contrib, which TensorFlow 2 has not: they then end with words instead of a figure."""
import importlib

import tensorflow.compat.v1 as tf


def lazy_adam(rate):
    """The stock LazyAdam, the peer of ours."""
    return _module("tensorflow.contrib.opt").LazyAdamOptimizer(rate)


def most_bytes_in_use():
    """An op that gives the most bytes that TensorFlow's allocator has given at a time."""
    return _module("tensorflow.contrib.memory_stats").MaxBytesInUse()


def _module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SystemExit("this measurement needs {}, which TensorFlow {} has not: run it with TensorFlow 1.15, or "
                         "choose modes without LazyAdam (--modes)".format(name, tf.__version__)) from None
