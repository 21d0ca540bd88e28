"""The lookups' edges on one rank: what sparse batches may look like, keys without rows, which exchange is chosen."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.exchanges import choice

S, D = 2, 3


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(global_batch_size=8))
        yield session


def combined(combiner="sum", rows=50, max_nnz=4, **options):
    layer = sok.DistributedEmbedding(combiner, rows, D, S, max_nnz, **options)
    return layer, tf.sparse_placeholder(tf.int64)


def value(indices, keys, rows, columns=4):
    return tf.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2), np.array(keys, np.int64), [rows, columns])


def start(sess):
    sess.run(tf.global_variables_initializer())


def oracle(bag_lists, row_of, mean):
    out = np.zeros((len(bag_lists), D))
    for bag, keys in enumerate(bag_lists):
        for key in keys:
            out[bag] += row_of[key] / (len(keys) if mean else 1)
    return out.reshape(-1, S, D)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("order", ["row-major", "shuffled"])
def test_bags_in_any_order_of_indices(sess, seed, mean, order):
    random = np.random.RandomState(seed)
    layer, keys = combined("MEAN" if mean else "Sum")
    out = layer(keys)
    every = np.arange(-5, 6)
    reader, each = layer(keys, training=False), value([[i, 0] for i in range(11)], every, 12)
    start(sess)
    bag_lists = [random.choice(every, random.randint(0, 5)) for _ in range(12)]
    pairs = [(bag, column, key) for bag, chosen in enumerate(bag_lists) for column, key in enumerate(chosen)]
    if order == "shuffled":
        pairs = [pairs[i] for i in random.permutation(len(pairs))]
    fed = value([pair[:2] for pair in pairs], [pair[2] for pair in pairs], 12)
    got = sess.run(out, {keys: fed})
    rows = dict(zip(every, sess.run(reader, {keys: each}).reshape(-1, D)))
    np.testing.assert_allclose(got, oracle(bag_lists, rows, mean), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("order", ["row-major", "shuffled"])
def test_gradient_of_bags_in_any_order(sess, seed, order):
    random = np.random.RandomState(seed)
    layer, keys = combined("mean")
    weights = random.normal(size=(5, S, D)).astype("float32")
    gradient = tf.gradients(tf.reduce_sum(layer(keys) * weights), layer.embedding_variable)[0]
    start(sess)
    bag_lists = [random.randint(0, 6, random.randint(0, 5)) for _ in range(10)]
    pairs = [(bag, column, key) for bag, chosen in enumerate(bag_lists) for column, key in enumerate(chosen)]
    if order == "shuffled":
        pairs = [pairs[i] for i in random.permutation(len(pairs))]
    got = sess.run(gradient, {keys: value([pair[:2] for pair in pairs], [pair[2] for pair in pairs], 10)})
    expected = np.zeros((6, D))
    for bag, chosen in enumerate(bag_lists):
        for key in chosen:
            expected[key] += weights.reshape(-1, D)[bag] / len(chosen)
    first_seen = list(dict.fromkeys(pair[2] for pair in sorted(pairs, key=lambda pair: pair[0])))
    assert got.dense_shape.tolist() == [50, D]
    assert got.indices.tolist() == list(range(len(first_seen)))
    np.testing.assert_allclose(got.values, expected[first_seen], rtol=1e-5, atol=1e-6)


def test_no_key_at_all(sess):
    layer, keys = combined("mean")
    out = layer(keys)
    gradient = tf.gradients(out, layer.embedding_variable)[0]
    start(sess)
    for rows in (0, 2, 6):
        got, slices = sess.run([out, gradient], {keys: value([], [], rows)})
        np.testing.assert_array_equal(got, np.zeros((rows // S, S, D)))
        assert slices.values.shape == (0, D) and slices.indices.shape == (0,)


@pytest.mark.parametrize("fed, parts", [
    (value([[0, 0]], [1], 3), ["dense_shape [3, 4]", "slot_num=2", "'EmbeddingVariable'", "rank 0"]),
    (value([[0, 0], [4, 0]], [1, 2], 4), ["row 4", "position 1", "[0, 4)", "'EmbeddingVariable'"]),
    (value([[0, 0], [-1, 0]], [1, 2], 4), ["row -1", "position 1", "[0, 4)"]),
    (value([[3, i] for i in range(5)], range(5), 4, 5), ["got 5 keys in slot 1 of sample 1", "max_nnz=4"]),
])
def test_bad_sparse_batches_are_clear_errors_and_change_nothing(sess, fed, parts):
    layer, keys = combined()
    out = layer(keys)
    start(sess)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(out, {keys: fed})
    for part in parts:
        assert part in caught.value.message
    count = [v for v in tf.global_variables() if v.op.name.endswith("/count")][0]
    assert sess.run(count) == 0


def test_unseen_keys_read_initial_values_and_get_no_gradient(sess):
    layer = sok.All2AllDenseEmbedding(20, D, 1, 1)
    keys = tf.placeholder(tf.int64, [None, 1, 1])
    train, evaluate = layer(keys), layer(keys, training=False)
    gradient = tf.gradients(evaluate, layer.embedding_variable)[0]
    start(sess)

    def feed(*chosen):
        return {keys: np.array(chosen).reshape(-1, 1, 1)}

    ahead = sess.run(evaluate, feed(7, 8, 9, 7))
    known = sess.run(train, feed(8))
    np.testing.assert_array_equal(known[0], ahead[1])
    values, slices = sess.run([evaluate, gradient], feed(7, 8, 9, 7, 8))
    np.testing.assert_array_equal(values, ahead[[0, 1, 2, 0, 1]])
    assert slices.indices.tolist() == [0]
    np.testing.assert_array_equal(slices.values, [[2, 2, 2]])
    count = [v for v in tf.global_variables() if v.op.name.endswith("/count")][0]
    assert sess.run(count) == 1
    np.testing.assert_array_equal(sess.run(train, feed(9, 7)), ahead[[2, 0]])


def test_unseen_keys_of_a_keras_initializer_read_the_rows_they_would_get(sess):
    layer = sok.DistributedEmbedding("sum", 4, D, 1, 2, embedding_initializer=tf.keras.initializers.RandomNormal())
    keys = tf.sparse_placeholder(tf.int64)
    train, evaluate = layer(keys), layer(keys, training=False)
    start(sess)
    rows = sess.run(layer.embedding_variable)
    sess.run(train, {keys: value([[0, 0]], [50], 1)})
    fed = value([[0, 0], [1, 0], [2, 0], [3, 0], [4, 0]], [60, 50, 61, 62, 63], 5)
    got = sess.run(evaluate, {keys: fed})[:, 0]
    np.testing.assert_array_equal(got[:4], rows[[1, 0, 2, 3]])
    np.testing.assert_array_equal(got[4], np.zeros(D))  # a fifth key has no row to come


def test_the_exchange_that_moves_fewer_bytes_is_chosen():
    def headers(bags, keys, distinct, ranks=4):
        return np.array([[1, bags, keys, distinct] + [0] * ranks] * ranks)
    assert choice.choose("auto", 4 * 16, headers(100, 500, 100)) == choice.ALL2ALL
    assert choice.choose("auto", 4 * 16, headers(100, 5000, 5000)) == choice.REDUCE_SCATTER
    # The two costs in bytes, at their crossing: U (8 + 2 bytes of a row) = 16 K + N bags 2 bytes of a row.
    crossing = (16 * 5000 + 4 * 100 * 128) // 136
    assert choice.choose("auto", 4 * 16, headers(100, 5000, crossing)) == choice.ALL2ALL
    assert choice.choose("auto", 4 * 16, headers(100, 5000, crossing + 1)) == choice.REDUCE_SCATTER
    assert choice.choose("auto", 2 * 16, headers(100, 5000, crossing + 1)) == choice.ALL2ALL
    assert choice.choose("all2all", 4 * 16, headers(1, 5000, 5000)) == choice.ALL2ALL
    assert choice.choose("reduce_scatter", 4 * 16, headers(100, 1, 1)) == choice.REDUCE_SCATTER
    evaluates = headers(100, 5000, 5000)
    evaluates[:, 0] = 0
    assert choice.choose("auto", 4 * 16, evaluates) == choice.ALL2ALL
    assert choice.choose("reduce_scatter", 4 * 16, evaluates) == choice.REDUCE_SCATTER


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("combined_layer", [False, True])
def test_nan_and_inf_pass_and_stay_in_their_row(sess, bad, combined_layer):
    if combined_layer:
        layer, keys = combined("mean")
        def feed(*chosen):
            return {keys: value([[i, 0] for i in range(len(chosen))], chosen, len(chosen))}
        expand = [1, 1]
    else:
        layer, keys = sok.All2AllDenseEmbedding(50, D, S, 1), tf.placeholder(tf.int64, [None, S, 1])
        def feed(*chosen):
            return {keys: np.array(chosen).reshape(-1, S, 1)}
        expand = [1, 1, 1]
    scale = tf.placeholder(tf.float32, [None, S] + expand[1:])
    out = layer(keys)
    step = tf.train.GradientDescentOptimizer(1.0).minimize(
        tf.reduce_sum(out * scale), var_list=[layer.embedding_variable])
    read = layer(keys, training=False)
    start(sess)
    every = feed(1, 2, 3, 4)
    sess.run(out, every)
    before = sess.run(read, every).reshape(4, D)
    scales = np.array([0.5, bad, 0.5, 0.5], np.float32).reshape([2, S] + expand[1:])
    sess.run(step, dict(list(every.items()) + [(scale, scales)]))
    after = sess.run(read, every).reshape(4, D)
    np.testing.assert_array_equal(after[[0, 2, 3]], before[[0, 2, 3]] - np.float32(0.5))
    np.testing.assert_array_equal(after[1], before[1] - np.float32(bad))
    # What such a row is combined with becomes what TensorFlow makes of it; other bags do not.
    if combined_layer:
        both = sess.run(read, {keys: value([[0, 0], [0, 1], [1, 0]], [1, 2, 3], 2)}).reshape(2, D)
        np.testing.assert_array_equal(both[0], (after[0] + after[1]) / 2)
        np.testing.assert_array_equal(both[1], after[2])
