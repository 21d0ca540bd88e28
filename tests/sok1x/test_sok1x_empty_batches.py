"""Batches with nothing in them, on GPUs too: TensorFlow 1.15's kernel of searchsorted ends the process there."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import searchsorted


@pytest.fixture(autouse=True)
def joined():
    sok.init()


@pytest.mark.parametrize("count", [0, 1, 9])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_searchsorted(dtype, count, seed):
    random = np.random.RandomState(seed)
    sequence, values = np.sort(random.randint(0, 9, 5)).astype(dtype), random.randint(-1, 10, count).astype(dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(dtype, [None])
        for side in ("left", "right"):
            for out_type in (tf.int32, tf.int64):
                found = session.run(searchsorted(tf.constant(sequence), fed, side, out_type), {fed: values})
                assert found.dtype == out_type.as_numpy_dtype
                np.testing.assert_array_equal(found, np.searchsorted(sequence, values, side))


@pytest.mark.parametrize("form", ["ragged", "sparse"])
def test_gradients_of_the_weights_of_no_keys(form):
    with tf.Graph().as_default(), tf.Session() as session:
        whole = np.arange(15, dtype=np.float32).reshape(5, 3) / 10
        table = sok.Variable(whole, name="table")
        keys, weights = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        lengths = tf.placeholder(tf.int64, [None])
        ids, of_ids = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (keys, weights))
        if form == "sparse":
            ids, of_ids = ids.to_sparse(), of_ids.to_sparse()
        out = sok.lookup_sparse(table, ids, of_ids, "sum")
        (first,) = tf.gradients(tf.reduce_sum(out ** 2), [weights])
        (second,) = tf.gradients(tf.reduce_sum(first ** 2), [weights])
        session.run(tf.global_variables_initializer())
        for counts in ([], [0, 0], [2, 0], [0]):
            chosen = np.arange(sum(counts)) + 1
            of_chosen = np.float32(chosen) / 2
            rows = whole[chosen]
            sums = (rows * of_chosen[:, np.newaxis]).sum(0)  # of the one sample that has keys
            got = session.run([out, first, second], {keys: chosen, weights: of_chosen, lengths: counts})
            assert got[0].shape == (len(counts), 3)
            np.testing.assert_allclose(got[0].sum(0), sums, rtol=1e-6)
            np.testing.assert_allclose(got[1], 2 * rows @ sums, rtol=1e-5)
            np.testing.assert_allclose(got[2], 8 * (rows @ rows.T) @ (rows @ sums), rtol=1e-5)


def test_auc_of_an_empty_batch():
    random = np.random.RandomState(3)
    batches = [([], []), (random.rand(50) < 0.4, random.rand(50)), ([], [])]
    with tf.Graph().as_default(), tf.Session() as session:
        labels, predictions = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
        value, update = sok.metrics.auc(labels, predictions)
        with tf.device("CPU"):
            stock, of_stock = tf.metrics.auc(labels, predictions)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for batch in batches:
            session.run([update] + [of_stock] * bool(len(batch[0])), dict(zip((labels, predictions), batch)))
        np.testing.assert_allclose(*session.run([value, stock]), rtol=1e-5)
