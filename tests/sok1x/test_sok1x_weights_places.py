"""Weights that lie in other places than the ids that they are given for."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.deeprec import lookups

IDS, SPLITS, OTHERS = [1, 2, 3], [0, 2, 3], [0, 1, 3]
INDICES, OTHER_INDICES = [[0, 0], [0, 1], [1, 0]], [[0, 0], [1, 0], [1, 1]]


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def ragged(values, splits):
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def fed(*arrays):
    """Placeholders, and what they are fed with."""
    made = [tf.placeholder(tf.as_dtype(array.dtype), [None] * array.ndim) for array in map(np.asarray, arrays)]
    return made, dict(zip(made, arrays))


def bags(kind, dtype=np.int64):
    """((ids, weights, the feed of either) in a fed graph): `others` are row splits or indices of the weights."""
    ids, weights = np.array(IDS, np.int64), np.array([1, 2, 4], np.float32)
    if kind == "ragged":
        (id_splits, weight_splits), _ = fed(np.array(SPLITS, dtype), np.array(SPLITS, np.int64))
        return (ragged(tf.constant(ids), id_splits), ragged(tf.constant(weights), weight_splits),
                lambda others: {id_splits: SPLITS, weight_splits: others})
    (id_places, weight_places), _ = fed(np.array(INDICES, np.int64), np.array(INDICES, np.int64))
    return (tf.SparseTensor(id_places, tf.constant(ids), [2, 2]),
            tf.SparseTensor(weight_places, tf.constant(weights), [2, 2]),
            lambda others: {id_places: INDICES, weight_places: others})


@pytest.mark.parametrize("kind, others, words", [
    ("ragged", [OTHERS, [0, 3, 3], [0, 3], [0, 2, 2, 3]], "got sp_weights whose row splits are not those of sp_ids"),
    ("sparse", [OTHER_INDICES, [[0, 1], [0, 0], [1, 0]], INDICES[::-1]],
     "got sp_weights whose indices are not those of sp_ids")])
def test_weights_in_other_places_are_refused_when_they_come(kind, others, words):
    with graph():
        table = sok.Variable(np.arange(10, dtype=np.float32).reshape(5, 2), name="table")
        grows = sok.DynamicVariable(2, name="grows", initializer="1")
        ids, weights, feed = bags(kind)
        both = sok.lookup_sparse([table, grows], [ids, ids], [weights, weights], combiners=["sum", "mean"])
        with session() as running:
            good = feed(SPLITS if kind == "ragged" else INDICES)
            for _ in range(2):
                np.testing.assert_array_equal(running.run(both, good)[0], [[2 + 8, 3 + 10], [4 * 6, 4 * 7]])
                for other in others:
                    for fetched in both, both[0], both[1]:
                        with pytest.raises(tf.errors.InvalidArgumentError, match="embedding table '.*" + words):
                            running.run(fetched, feed(other))


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
def test_weights_in_other_places_are_refused_where_the_graph_shows_it(kind):
    with graph():
        table = sok.Variable(np.ones([5, 2], np.float32), name="table")
        ids, weights = tf.constant(IDS, tf.int64), tf.constant([1.0, 2.0, 3.0])
        if kind == "ragged":
            ids, weights = ragged(ids, np.array(SPLITS, np.int64)), ragged(weights, np.array(OTHERS, np.int64))
        else:
            ids, weights = tf.SparseTensor(INDICES, ids, [2, 2]), tf.SparseTensor(OTHER_INDICES, weights, [2, 2])
        with pytest.raises(ValueError, match="sp_weights: got .* for 'table', expected those of the ids"):
            sok.lookup_sparse(table, ids, weights, combiners="sum")


def test_one_and_the_same_places_are_not_compared():
    with graph() as made:
        table = sok.Variable(np.ones([5, 2], np.float32), name="table")
        ids, _, _ = bags("ragged", np.int32)
        weights = ids.with_values(tf.constant([1.0, 2.0, 4.0]))
        sok.lookup_sparse(table, ids, weights, combiners="sum")
        sparse, _, _ = bags("sparse")
        sok.lookup_sparse(table, sparse, tf.SparseTensor(sparse.indices, weights.values, [2, 2]), combiners="sum")
        assert not [op.name for op in made.get_operations() if op.type in ("Equal", "SelectV2")]


def test_ragged_ids_with_sparse_weights():
    with graph():
        table = sok.Variable(np.arange(10, dtype=np.float32).reshape(5, 2), name="table")
        ids, _, feed = bags("ragged")
        _, weights, places = bags("sparse")
        out = sok.lookup_sparse(table, ids, weights, combiners="sum")
        with session() as running:
            np.testing.assert_array_equal(running.run(out, {**feed(SPLITS), **places(INDICES)})[1], [24, 28])
            with pytest.raises(tf.errors.InvalidArgumentError, match="whose indices are not those of sp_ids"):
                running.run(out, {**feed(SPLITS), **places(OTHER_INDICES)})


@pytest.mark.parametrize("kind, others", [("ragged", [OTHERS, [0, 3, 3], [0, 3], [0, 2, 2, 3]]),
                                          ("sparse", [OTHER_INDICES, [[0, 1], [0, 0], [1, 0]], INDICES[::-1]])])
def test_so_where_rows_are_combined_by_tensorflow(kind, others):
    """A plain variable, rows that are clipped, and sequences."""
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    with graph():
        ours = sok.deeprec.get_embedding_variable("ours", 2, initializer=tf.ones_initializer())
        plain = tf.get_variable("plain", initializer=values)
        ids, weights, feed = bags(kind)
        found = lookups.lookup_many([lookups.Lookup(params, ids, weights, "sum", **options) for params, options in (
            (plain, {}), (ours, {"max_norm": 9.0}), (ours, {"sequence": True}), (plain, {"sequence": True}))])
        with session() as running:
            good = feed(SPLITS if kind == "ragged" else INDICES)
            plain_sums, clipped, _, sequence = running.run(found, good)
            np.testing.assert_array_equal(plain_sums, [[2 + 8, 3 + 10], [4 * 6, 4 * 7]])
            np.testing.assert_array_equal(clipped, [[3, 3], [4, 4]])
            np.testing.assert_array_equal(sequence, [[[2, 3], [8, 10]], [[24, 28], [0, 0]]])
            for other in others:
                for fetched in found:
                    with pytest.raises(tf.errors.InvalidArgumentError, match="sp_weights: got other"):
                        running.run(fetched, feed(other))
