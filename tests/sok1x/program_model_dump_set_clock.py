"""Run by test_sok1x_model_dump.py: each change since a time is in the dump since then, whichever way the clock is set.

    LD_PRELOAD=LIBRARY python program_model_dump_set_clock.py LIBRARY [eagerly]        (LIBRARY: of tests/set_clock.c)
"""
import ctypes
import datetime
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

clock = ctypes.c_long.in_dll(ctypes.CDLL(sys.argv[1]), "set_clock_seconds")
EAGER = sys.argv[2:] == ["eagerly"]
if not EAGER:
    tf.disable_v2_behavior()
sok.init()


def made():
    """(what trains a key, what dumps since a time)."""
    session = None
    table = sok.DynamicVariable(dimension=2, initializer="1", var_type="hbm")
    if EAGER:
        optimizer = sok.OptimizerWrapper(tf.keras.optimizers.legacy.SGD(0.5))

        def train(key):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([key], tf.int64)))
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])

        return train, lambda since: sok.incremental_model_dump(table, since, session)
    keys = tf.placeholder(tf.int64, [None])
    step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(sok.all2all_dense_embedding(table, keys)))
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return (lambda key: session.run(step, {keys: [key]}),
            lambda since: sok.incremental_model_dump(table, since, session))


def main():
    train, dump = made()

    def dumped(since):
        return set(np.ravel(dump(since)[0][0]).tolist())

    def times(key, number):
        for _ in range(number):
            train(key)
            time.sleep(0.05)

    looks = []  # (time, the first key of after that)
    key = 0
    for by in (-3, 0, 3600, -3601, -3, 2, 7200):
        times(key, 12)
        time.sleep(0.4)
        looks.append((datetime.datetime.utcnow(), key + 1))
        clock.value += by
        times(key + 1, 8)
        looks.append((datetime.datetime.utcnow(), key + 2))
        key += 2
        for since, first in looks:
            found = dumped(since)
            assert set(range(first, key)) <= found, (by, since, first, found)
    times(key, 2)
    time.sleep(0.4)
    assert dumped(datetime.datetime.utcnow()) == set()  # a time that the clock has not shown before
    print("ok")


main()
