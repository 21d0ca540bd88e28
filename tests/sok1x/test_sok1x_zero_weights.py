"""Weights that add up to zero where lookups are made of TensorFlow's ops, as TensorFlow's own lookups have them."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.deeprec.lookups import Lookup, lookup_many
from sok1x.graph_ops.bridge.tensorflow_versions import V2

ROWS, DIM = 9, 3


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def random_bags(random):
    """SparseTensors of ids and weights; the last bag has ids, for TensorFlow has no rows of empty ones behind it."""
    weight = random.choice([0.5, 1.0, 3.0])
    bags = [[0, 0], [weight, -weight], [0], [], [-weight, weight, 0], random.uniform(0.5, 2, 3), [0, 0]]
    bags = [bags[one] for one in random.permutation(len(bags))] + [[weight]]
    where = np.array([[bag, place] for bag, one in enumerate(bags) for place in range(len(one))], np.int64)
    shape = [len(bags), 3]
    weights = np.concatenate(bags).astype(np.float32)
    return (tf.SparseTensor(where, tf.constant(random.randint(0, ROWS, len(where)), tf.int64), shape),
            tf.SparseTensor(where, tf.constant(weights), shape), np.array([len(one) > 0 for one in bags]))


def alone(sparse, values=None):
    """Each of its values as a bag of its own."""
    count = sparse.values.shape[0]
    return tf.SparseTensor([[one, 0] for one in range(count)], sparse.values, [count, 1])


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
@pytest.mark.parametrize("max_norm", [None, 0.8])
def test_lookups_of_tables_and_of_plain_variables(combiner, max_norm, seed):
    random = np.random.RandomState(seed)
    whole = random.normal(size=(ROWS, DIM)).astype(np.float32)
    with graph():
        ids, weights, filled = random_bags(random)
        variables = [sok.Variable(whole, name="table"), tf.get_variable("plain", initializer=whole)]
        bags = lookup_many([Lookup(one, ids, weights, combiner, max_norm=max_norm) for one in variables])
        sequences = lookup_many([Lookup(one, ids, weights, combiner, max_norm=max_norm, sequence=True)
                                 for one in variables])
        stock = tf.get_variable("stock", initializer=whole)
        expected = tf.nn.embedding_lookup_sparse(stock, ids, weights, combiner=combiner, max_norm=max_norm)
        # of a sequence each id is combined with itself alone
        expected_sequence = tf.nn.embedding_lookup_sparse(stock, alone(ids), alone(weights), combiner=combiner,
                                                          max_norm=max_norm)

        def gradients(out, variable):
            made = tf.gradients(out * np.arange(1, 1 + DIM, dtype=np.float32), [variable, weights.values])
            return [tf.convert_to_tensor(made[0]), made[1]]

        with session() as running:
            outs, of_outs, found, of_found = running.run([
                bags, [gradients(*each) for each in zip(bags, variables)], sequences,
                [gradients(*each) for each in zip(sequences, variables)]])
            right, of_right, in_places, of_in_places = running.run([
                expected, gradients(expected, stock), expected_sequence, gradients(expected_sequence, stock)])
            where = ids.indices.eval()
    right[~filled] = 0  # TensorFlow 1.15 divides zero by zero there
    for out, of_out, sequence, of_sequence in zip(outs, of_outs, found, of_found):
        if V2:
            assert all(np.isfinite(one).all() for one in [out, *of_out, sequence, *of_sequence])
        np.testing.assert_allclose(out, right, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(sequence[where[:, 0], where[:, 1]], in_places, rtol=1e-4, atol=1e-5)
        for one, other in zip([*of_out, *of_sequence], [*of_right, *of_in_places]):
            np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
            there = np.isfinite(other)
            np.testing.assert_allclose(one[there], other[there], rtol=1e-3, atol=1e-4)
