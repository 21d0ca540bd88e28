"""What tests of the public names share."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok


@pytest.fixture
def graph():
    """A graph of its own on the CPU, this process joined as the only rank."""
    sok.init()
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        yield graph
