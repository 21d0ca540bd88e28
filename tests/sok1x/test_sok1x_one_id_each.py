"""Samples with one id each, which take a way of their own on one rank, beside batches that only look like it."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session, sparse_layer

import sok1x as sok

ROWS, DIM, RATE = 40, 5, 0.5
NOTHING = np.zeros(0, np.int64)


def batches(random):
    """By name: what bags the ids are in, and how many bags there are."""
    count = 37
    each, double = np.arange(count), np.arange(count)
    double[7] = 6  # sample 7 has none, and sample 6 two: as many ids as samples
    swapped = each.copy()
    swapped[[3, 20]] = 20, 3
    return {"one each": (each, count), "others of as many": (each, count), "one sample": (np.arange(1), 1),
            "one without and one with two": (double, count), "not in order": (swapped, count),
            "in any order": (random.permutation(count), count), "all in the last": (np.full(count, count - 1), count),
            "fewer ids": (each[1:], count), "no ids": (NOTHING, count), "no samples": (NOTHING, 0),
            "many": (np.arange(5000), 5000), "many but the last": (np.append(np.arange(4999), 4998), 5000)}


def sums(rows, ids, bags, count, mean):
    """[count, D], of float32 rows added in the order of their ids."""
    out, keys = np.zeros((count, rows.shape[1]), np.float32), np.zeros(count)
    for row, bag in zip(ids, bags):
        out[bag] += rows[row]
        keys[bag] += 1
    return out / np.maximum(keys, 1)[:, None].astype(np.float32) if mean else out


@pytest.fixture(params=["1", "0"], ids=["fused", "apart"])
def fuse(request):
    os.environ["SOK1X_FUSE"] = request.param
    yield
    del os.environ["SOK1X_FUSE"]


@pytest.mark.parametrize("ragged", [False, True], ids=["sparse", "ragged"])
@pytest.mark.usefixtures("fuse")
def test_values_and_a_step(seed, ragged):
    """All of them in one lookup; then what a step of gradient descent leaves, from which a second lookup reads."""
    random = np.random.RandomState(seed)
    made = {name: case for name, case in batches(random).items() if not ragged or (np.diff(case[0]) >= 0).all()}
    start = [random.randint(-8, 8, (ROWS, DIM)).astype(np.float32) for _ in made]
    start[0][::3] = -0.0
    ids = [random.randint(0, ROWS, len(bags)) for bags, _ in made.values()]
    combiners = [random.choice(["sum", "mean"]) for _ in made]
    with graph():
        sok.init()
        tables = [sok.Variable(rows, name="table_{}".format(t)) for t, rows in enumerate(start)]
        given = []
        for of, (bags, count) in zip(ids, made.values()):
            if ragged:
                splits = np.searchsorted(bags, np.arange(count + 1)).astype(np.int64)
                given.append(tf.RaggedTensor.from_row_splits(tf.constant(of), tf.constant(splits), validate=False))
            else:
                indices = np.stack([bags, np.zeros_like(bags)], axis=1)
                given.append(tf.SparseTensor(indices, tf.constant(of), [count, 1]))
        outs = sok.lookup_sparse(tables, given, combiners=combiners)
        train = sok.SGD(RATE).apply_gradients(zip(tf.gradients(tf.add_n([tf.reduce_sum(3 * out) for out in outs]),
                                                               tables), tables))
        with session() as run:
            run.run(tf.global_variables_initializer())
            found, _ = run.run([outs, train])
            after, again = run.run(tables), run.run(outs)
    for t, (bags, count) in enumerate(made.values()):
        mean = combiners[t] == "mean"
        expected = sums(start[t], ids[t], bags, count, mean)
        np.testing.assert_allclose(found[t], expected, rtol=1e-6, atol=1e-6)
        if (np.bincount(bags, minlength=count) <= 1).all():  # rows are copied, but for the sign of 0
            assert found[t].tobytes() == (expected + 0).tobytes()
        rows, keys = start[t].copy(), np.bincount(bags, minlength=count)
        for row, bag in zip(ids[t], bags):
            rows[row] -= np.float32(RATE * 3 / (keys[bag] if mean else 1))
        np.testing.assert_allclose(after[t], rows, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(again[t], sums(after[t], ids[t], bags, count, mean), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bags, count, words", [
    ([0, 1, 2, 5], 4, "got row 5 in the SparseTensor's indices at position 3, expected rows in \\[0, 4\\)"),
    ([0, 1, -1, 3], 4, "got row -1 in the SparseTensor's indices at position 2, expected rows in \\[0, 4\\)"),
    ([0, 1, 2, 3], -4, "dense_shape")])
def test_indices_that_are_wrong_fail_that_lookup_alone(bags, count, words):
    with graph():
        sok.init()
        tables = [sok.Variable(np.eye(4, dtype=np.float32), name="table_{}".format(t)) for t in range(3)]
        right = tf.SparseTensor([[0, 0], [1, 0], [2, 0], [3, 0]], tf.constant([3, 2, 1, 0], tf.int64), [4, 1])
        shape = tf.placeholder_with_default(np.array([count, 1], np.int64), [2])
        wrong = tf.SparseTensor([[bag, 0] for bag in bags], tf.constant([3, 2, 1, 0], tf.int64), shape)
        outs = sok.lookup_sparse(tables, [right, wrong, right], combiners=["sum"] * 3)
        with session() as run:
            run.run(tf.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                run.run(outs)
            for out in (outs[0], outs[2]):
                np.testing.assert_array_equal(run.run(out), np.eye(4)[::-1])


@pytest.mark.parametrize("splits", [[0, 1, 1, 3, 4], [1, 1, 2, 3, 4], [0, 1, 2, 3, 3], [0, 2, 1, 3, 4]])
def test_splits_that_are_nearly_one_each(splits):
    """In order they are other bags; else they are refused."""
    with graph():
        sok.init()
        table = sok.Variable(np.eye(4, dtype=np.float32), name="table")
        ids = tf.RaggedTensor.from_row_splits(tf.range(4, dtype=tf.int64), tf.constant(splits, tf.int64),
                                              validate=False)
        out = sok.lookup_sparse([table] * 2, [ids] * 2, combiners=["sum"] * 2)
        with session() as run:
            run.run(tf.global_variables_initializer())
            if splits[0] == 0 and splits[-1] == 4 and sorted(splits) == splits:
                expected = [np.eye(4)[begin:end].sum(axis=0) for begin, end in zip(splits, splits[1:])]
                np.testing.assert_array_equal(run.run(out), [expected] * 2)
            else:
                with pytest.raises(tf.errors.InvalidArgumentError, match="expected them to begin at 0, to ascend"):
                    run.run(out)


@pytest.mark.usefixtures("fuse")
def test_unseen_keys_get_rows_in_training_and_none_in_an_evaluation(seed):
    """Of hash tables, looked up one id each, in one run with a batch of other bags; float16 and float32."""
    random = np.random.RandomState(seed)
    with graph():
        layers = [sparse_layer(slot_num=1, max_nnz=3, dtype=dtype, max_vocabulary_size_per_gpu=4096)
                  for dtype in ("float32", "float32", "float16")]
        sizes = [300, 300, 50]
        keys = [tf.placeholder(tf.int64, [None]) for _ in layers]
        bags = [np.arange(sizes[0]), np.arange(sizes[1]) // 2, np.arange(sizes[2])]
        given = [tf.SparseTensor(np.stack([of, np.arange(len(of)) % 2], axis=1), key, [of[-1] + 1, 3])
                 for of, key in zip(bags, keys)]
        trained = [layer(of, training=True) for layer, of in zip(layers, given)]
        evaluated = [layer(of, training=False) for layer, of in zip(layers, given)]
        with session() as run:
            for step in range(3):
                feed = {key: random.randint(-400, 400, size) for key, size in zip(keys, sizes)}
                used = run.run([layer.embedding_variable.index[-1].read_value() for layer in layers])
                before, again = run.run(evaluated, feed), run.run(evaluated, feed)
                assert run.run([layer.embedding_variable.index[-1].read_value() for layer in layers]) == used
                for one, other, after in zip(before, again, run.run(trained, feed)):
                    assert one.tobytes() == other.tobytes() == after.tobytes()
                assert step or min(run.run(
                    [layer.embedding_variable.index[-1].read_value() for layer in layers])) > 40
