"""`tf.contrib.opt.LazyAdamOptimizer`; where TensorFlow has no contrib any more, what benchmarks take in its place.

Importing tf.contrib takes seconds: it is looked up when it is first asked for.
"""
import os
import runpy

_CONTRIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks", "contrib.py")


def __getattr__(name):
    if name != "LazyAdamOptimizer":
        raise AttributeError(name)
    globals()[name] = runpy.run_path(_CONTRIB)["lazy_adam_class"]()
    return globals()[name]
