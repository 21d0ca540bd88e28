"""Rows that a lookup makes distinct itself (graph_ops/groups/ahead.h): where a gradient has asked for them, and no
longer than until the next run. On hosts here, where it is done for tests alone."""
import ctypes
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_constant, sparse_layer

from sok1x.graph_ops.bridge import bridge, library, op_functions


@pytest.fixture
def ahead():
    library.load()
    loaded = op_functions.Library(bridge.PATH).loaded
    for name in ("sok1x_ahead_taken", "sok1x_ahead_waiting"):
        getattr(loaded, name).restype = ctypes.c_int64
    loaded.sok1x_ahead_on_hosts(1)
    yield loaded
    loaded.sok1x_ahead_on_hosts(0)


def test_only_where_a_gradient_asks_and_not_for_long(ahead, seed):
    random = np.random.RandomState(seed)
    with graph():
        layers = dense_layer(), sparse_layer()
        keys = tf.constant(random.randint(0, 20, [4, 2, 3]), tf.int64), sparse_constant(
            random.randint(0, 20, [8, 3]).tolist(), 3)
        outs = [layer(one, training=True) for layer, one in zip(layers, keys)]
        variables = [layer.embedding_variable for layer in layers]
        loss = tf.add_n([tf.reduce_sum(out * out) for out in outs])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=variables)
        with session() as run:
            began = ahead.sok1x_ahead_taken()
            for number, taken in enumerate([0, 2, 4]):  # the first makes rows, and shows that they are asked for
                run.run(step)
                assert ahead.sok1x_ahead_taken() - began == taken, number
                assert ahead.sok1x_ahead_waiting() == 0, number
            for waiting in (2, 0, 0):  # nobody asks: it is done once more
                run.run(outs)
                assert ahead.sok1x_ahead_waiting() == waiting
            for taken in (4, 6):
                run.run(step)
                assert ahead.sok1x_ahead_taken() - began == taken
            run.run(outs)
            assert ahead.sok1x_ahead_waiting() == 2
        until = time.time() + 60
        while ahead.sok1x_ahead_waiting() and time.time() < until:  # the executor hears of the session's end
            time.sleep(0.01)
        assert ahead.sok1x_ahead_waiting() == 0
