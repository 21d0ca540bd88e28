"""EmbeddingVariables that give rows to keys that come often: CounterFilter and CBFFilter."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from deeprec_table import Trained

import sok1x as sok
from sok1x import deeprec
from sok1x.deeprec import EmbeddingVariableOption as Option
from sok1x.deeprec import meaning


@pytest.fixture(autouse=True)
def one_graph():
    sok.init()
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("option", [
    deeprec.CounterFilter(3), deeprec.CBFFilter(3, 1000, 0.01), deeprec.CBFFilter(filter_freq=3)])
def test_filters(option):
    trained = Trained(Option(filter_option=option, init_option=deeprec.InitializerOption(
        default_value_no_permission=0.5)), initializer=tf.ones_initializer())
    assert [trained.step(7) for _ in range(4)] == [[[0.5, 0.5]], [[0.5, 0.5]], [[1, 1]], [pytest.approx([0.9, 0.9])]]
    assert trained.step(8) == [[0.5, 0.5]]


@pytest.mark.parametrize("size", [1 << 10, 1 << 24])
def test_a_size_without_a_probability_means_nothing(size):
    filters = deeprec.CounterFilter(3), deeprec.CBFFilter(3, max_element_size=size)
    counted, sized = (meaning.of("ids", Option(filter_option=given)).options for given in filters)
    assert counted == sized and "admission_counters" not in sized


@pytest.mark.parametrize("often, probability", [(2, 0.9), (5, 0.01), (12, 0.05)])
def test_a_filter_of_as_many_keys_as_it_is_for(seed, often, probability):
    """Each of them gets its row when it is due, or before."""
    trained = Trained(Option(filter_option=deeprec.CBFFilter(often, 4096, probability)), initializer=1.0)
    keys = np.random.RandomState(seed).permutation(10 ** 6)[:4096]
    for number in range(often):
        for some in np.array_split(keys, 3):
            trained.step(*some)
        with_rows = len(trained.session.run(trained.keys))
        assert number or with_rows < 1.1 * probability * len(keys)
    assert with_rows == len(keys)


def test_a_filter_beyond_a_byte():
    trained = Trained(Option(filter_option=deeprec.CounterFilter(300)), initializer=tf.ones_initializer())
    read = [trained.step(7)[0][0] for _ in range(301)]
    assert read[:299] == [0] * 299 and read[299:] == [1, pytest.approx(0.9)]
