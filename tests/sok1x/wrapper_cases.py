"""The optimizers that `sok.OptimizerWrapper` is tried with, each made twice: one to be wrapped, one to compare with.

A case is a function of what both share: `rate`, a variable, and `step`, a variable that counts.
"""
import stock_lazy_adam
import tensorflow.compat.v1 as tf

import sok1x as sok

v1 = tf
KERAS = tf.keras.optimizers
SCHEDULES = KERAS.schedules

TRAIN = {
    "GradientDescent": lambda rate, step: v1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda rate, step: v1.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov": lambda rate, step: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda rate, step: v1.train.AdagradOptimizer(0.1),
    "Adadelta": lambda rate, step: v1.train.AdadeltaOptimizer(1.0, epsilon=0.01),
    "Adam": lambda rate, step: v1.train.AdamOptimizer(0.1),
    "Adam decayed": lambda rate, step: v1.train.AdamOptimizer(v1.train.exponential_decay(0.1, step, 10, 0.7)),
    "Adam variable": lambda rate, step: v1.train.AdamOptimizer(rate),
    "Adam callable": lambda rate, step: v1.train.AdamOptimizer(lambda: 2 * rate, beta1=lambda: 0.8),
    "RMSProp": lambda rate, step: v1.train.RMSPropOptimizer(0.05, momentum=0.3),
    "RMSProp centered": lambda rate, step: v1.train.RMSPropOptimizer(0.05, centered=True),
    "Ftrl": lambda rate, step: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}
KERAS_CASES = {
    "SGD": lambda rate, step: KERAS.SGD(0.1),
    "SGD momentum": lambda rate, step: KERAS.SGD(0.1, 0.9),
    "SGD nesterov": lambda rate, step: KERAS.SGD(0.1, 0.9, nesterov=True),
    "Adagrad": lambda rate, step: KERAS.Adagrad(0.1),
    "Adadelta": lambda rate, step: KERAS.Adadelta(1.0, epsilon=0.01),
    "Adam": lambda rate, step: KERAS.Adam(0.1),
    "Adam amsgrad": lambda rate, step: KERAS.Adam(0.1, amsgrad=True),
    "Adam schedule": lambda rate, step: KERAS.Adam(SCHEDULES.ExponentialDecay(0.1, 10, 0.7)),
    "Adam decay": lambda rate, step: KERAS.Adam(0.1, decay=0.1),
    "Adam variable": lambda rate, step: KERAS.Adam(rate),
    "Adam callable": lambda rate, step: KERAS.Adam(lambda: 2 * rate),
    "Adamax": lambda rate, step: KERAS.Adamax(0.1),
    "Ftrl": lambda rate, step: KERAS.Ftrl(0.1, l1_regularization_strength=0.01),
    "RMSprop": lambda rate, step: KERAS.RMSprop(0.05),
    "RMSprop momentum": lambda rate, step: KERAS.RMSprop(0.05, momentum=0.3, centered=True),
    "Nadam": lambda rate, step: KERAS.Nadam(0.1),
}
# Ours: (what is wrapped, what it is compared with)
OURS = {
    "ours Adam": (lambda rate, step: sok.tf.keras.optimizers.Adam(0.1), KERAS_CASES["Adam"]),
    "ours LazyAdam": (lambda rate, step: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
                      lambda rate, step: stock_lazy_adam.LazyAdamOptimizer(0.1)),
    "ours Distributed": (lambda rate, step: sok.DistributedOptimizer(v1.train.AdagradOptimizer(0.1)),
                         TRAIN["Adagrad"]),
}


def cases():
    """{name: (makes the optimizer to wrap, makes the one to compare with)}"""
    found = {"train " + name: (make, make) for name, make in TRAIN.items()}
    found.update(("keras " + name, (make, make)) for name, make in KERAS_CASES.items())
    return dict(found, **OURS)
