"""sok1x.operations against TensorFlow's ops of the same names, values and gradients."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.operations import unique, unsorted_segment_sum

v1 = tf
# Of one term: sums of a few tens of terms around 1 round so much, in TensorFlow's float16 above all.
TOLERANCE = {"float16": 0.1, "float32": 1e-5, "float64": 1e-13}


@pytest.fixture
def run():
    with graph(), session() as made:
        yield made.run


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_unique(run, dtype, seed):
    random = np.random.RandomState(seed)
    ours, stock = v1.placeholder(dtype, [None]), v1.placeholder(tf.int64, [None])
    values, index = unique(ours)
    assert (values.dtype, index.dtype, values.shape.as_list(), index.shape.as_list()) == (
        tf.as_dtype(dtype), tf.int32, [None], [None])
    info = np.iinfo(dtype)
    for keys in ([], [7], [info.max, info.min, info.max], random.randint(-50, 50, 1000), np.arange(5000)[::-1],
                 random.randint(-2 ** 31, 2 ** 31, 3000)):
        keys = np.array(keys).astype(dtype)
        got, expected = run([(values, index), tf.unique(stock)], {ours: keys, stock: keys.astype(np.int64)})
        assert got[0].dtype == dtype and got[1].dtype == np.int32
        np.testing.assert_array_equal(got[0].astype(np.int64), expected.y)
        np.testing.assert_array_equal(got[1], expected.idx)


def test_unique_of_any_int64(run):
    keys = np.array([-2 ** 63, 2 ** 63 - 1, 0, -1, 2 ** 63 - 1, -2 ** 63])
    values, index = run(unique(tf.constant(keys)))
    assert values.tolist() == [-2 ** 63, 2 ** 63 - 1, 0, -1] and index.tolist() == [0, 1, 2, 3, 1, 0]


SHAPES = [((40,), ()), ((40,), (5,)), ((40,), (2, 3)), ((5, 8), ()), ((5, 8), (3,)), ((), (4,)), ((), ()), ((0,), (3,)),
          ((3, 0), ()), ((6,), (0,))]


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("ids_shape, inner", SHAPES, ids=str)
def test_unsorted_segment_sum(run, dtype, ids_shape, inner, seed):
    """The sums, their gradient, and the gradient's gradient."""
    random = np.random.RandomState(seed)
    data = v1.placeholder(dtype, ids_shape + inner)
    kinds = [("int32", 9), ("int64", tf.constant(9)), ("int32", tf.constant(9, tf.int64)), ("int64", v1.placeholder(
        tf.int32, []))]
    for ids_dtype, segments in kinds:
        ids = v1.placeholder(ids_dtype, ids_shape)
        weights = tf.constant(np.asarray(random.normal(size=(9,) + inner)), dtype)
        fetches = []
        for function in (unsorted_segment_sum, tf.math.unsorted_segment_sum):
            sums = function(data, ids, segments)
            first, = tf.gradients(sums * sums * weights, [data])
            second, = tf.gradients(first * first, [data])
            fetches.append([sums, first, second])
        known = None if fetches[0][0].shape.ndims and fetches[0][0].shape[0].value is None else 9
        assert fetches[0][0].shape.as_list() == [known] + list(inner) and fetches[0][0].dtype == dtype
        assert fetches[0][1].shape.as_list() == list(ids_shape + inner)
        feed = {data: random.normal(size=ids_shape + inner), ids: random.randint(-3, 9, ids_shape)}
        if known is None:
            feed[segments] = 9
        ours, stock = run(fetches, feed)
        for one, two in zip(ours, stock):
            assert one.shape == two.shape and one.dtype == two.dtype
            # The greatest is a measure of the terms.
            scale = max(1.0, np.abs(two).max() if two.size else 0)
            np.testing.assert_allclose(one, two, rtol=0, atol=TOLERANCE[dtype] * scale)


def test_no_segments(run):
    assert run(unsorted_segment_sum(tf.ones([3, 2]), [-1, -5, -1], 0)).shape == (0, 2)
    assert run(unsorted_segment_sum(tf.ones([0, 2]), tf.zeros([0], tf.int64), 0)).shape == (0, 2)
    assert run(unsorted_segment_sum(tf.ones([0, 2]), tf.zeros([0], tf.int64), 3)).tolist() == [[0, 0]] * 3


def test_float16_is_rounded_once(run, seed):
    """As a sum in float32, where TensorFlow's CPU op rounds every partial sum."""
    random = np.random.RandomState(seed)
    data = np.full([5000, 3], 1, np.float16)
    data[:, 1:] = random.normal(size=[5000, 2])
    got = run(unsorted_segment_sum(data, np.zeros(5000, np.int32), 1))
    assert got[0, 0] == 5000
    np.testing.assert_allclose(got, [data.astype(np.float64).sum(0)], rtol=2.0 ** -11, atol=2e-4)


def test_unknown_shapes(run):
    data, ids, segments = v1.placeholder(tf.float32), v1.placeholder(tf.int32), v1.placeholder(tf.int64)
    sums = unsorted_segment_sum(data, ids, segments)
    feed = {data: np.arange(12).reshape(2, 2, 3), ids: [[0, 1], [1, -1]], segments: 2}
    assert run(sums, feed).tolist() == [[0, 1, 2], [9, 11, 13]]
    assert run(tf.gradients(sums, data)[0], feed).tolist() == [[[1] * 3, [1] * 3], [[1] * 3, [0] * 3]]
    for changes, words in (
            ({ids: [0, 1, 1]}, r"got data of shape \[2, 2, 3\] and segment_ids of shape \[3\]"),
            ({data: [1, 2]}, r"got data of shape \[2\] and segment_ids of shape \[2, 2\]"),
            ({segments: -1}, "got num_segments -1"), ({segments: 2 ** 31}, "got num_segments 2147483648"),
            ({segments: 1}, r"got segment_ids\[0, 1\] = 1, expected ids below num_segments = 1"),
            ({ids: [[0, -7], [9, 2]]}, r"got segment_ids\[1, 0\] = 9, expected ids below num_segments = 2")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(sums, {**feed, **changes})
    assert run(sums, feed).tolist() == [[0, 1, 2], [9, 11, 13]]  # nothing is left of the errors
    keys = v1.placeholder(tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"unique: got x of shape \[2, 1\], expected one dim"):
        run(unique(keys), {keys: [[1], [2]]})


def test_gradient_of_ids_that_are_too_large(run):
    """The sums are not asked for: the gradient must not read behind them."""
    data, ids = tf.ones([3, 2]), v1.placeholder(tf.int64, [3])
    gradient, = tf.gradients(unsorted_segment_sum(data, ids, 4), data)
    assert run(gradient, {ids: [3, -1, 0]}).tolist() == [[1, 1], [0, 0], [1, 1]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"segment_ids\[2\] = 4000000000000"):
        run(gradient, {ids: [3, -1, 4 * 10 ** 12]})


@pytest.mark.parametrize("call, error, words", [
    (lambda: unique(tf.constant([1.0])), TypeError, "got x of dtype float32, expected one of int32, int64, uint32"),
    (lambda: unique(tf.constant([[1]])), ValueError, r"got x of shape \(1, 1\)"),
    (lambda: unsorted_segment_sum(tf.constant([1]), [0], 1), TypeError, "got data of dtype int32"),
    (lambda: unsorted_segment_sum([1.0], [0.0], 1), TypeError, "got segment_ids of dtype float32"),
    (lambda: unsorted_segment_sum([1.0], [0], 1.0), TypeError, "got num_segments of dtype float32"),
    (lambda: unsorted_segment_sum([1.0], [0], [1]), ValueError, r"got num_segments of shape \(1,\)"),
    (lambda: unsorted_segment_sum([1.0], [0], -1), ValueError, "got num_segments -1"),
    (lambda: unsorted_segment_sum([1.0], [0, 1], 2), ValueError, r"got data of shape \(1,\) and segment_ids of shape"),
    (lambda: unsorted_segment_sum([1.0], [[0]], 2), ValueError, r"got data of shape \(1,\) and segment_ids of shape"),
])
def test_errors_when_the_graph_is_built(call, error, words):
    with graph(), pytest.raises(error, match=words):
        call()


def test_not_a_number_stays_in_its_segment(run):
    for dtype in sorted(TOLERANCE):
        got = run(unsorted_segment_sum(tf.constant([[np.nan, 1], [np.inf, 2], [3, 4]], dtype), [2, 0, 0], 3))
        np.testing.assert_array_equal(got, [[np.inf, 6], [0, 0], [np.nan, 1]])


def test_names_and_placement(run):
    values, _ = unique([3, 1], name="mine")
    sums = unsorted_segment_sum([1.0], [0], 1, name="sums")
    assert values.op.name == "mine" and sums.op.name == "sums"
    assert unique is sok.operations.unique and unsorted_segment_sum is sok.operations.unsorted_segment_sum
    with tf.device("/cpu:0"):
        assert run(unsorted_segment_sum([1.0, 2.0], [1, 1], 2)).tolist() == [0, 3]
        assert run(unique([3, 1, 3]))[0].tolist() == [3, 1]


def test_before_init():
    run_ranks(0, "import tensorflow.compat.v1 as tf, sok1x as sok\n"
                 "tf.logging.set_verbosity(tf.logging.ERROR)\n"
                 "ops = [sok.operations.unique([1])[0], sok.operations.unsorted_segment_sum([1.0], [0], 1)]\n"
                 "with tf.Session() as session:\n"
                 "    for op in ops:\n"
                 "        try: session.run(op)\n"
                 "        except tf.errors.FailedPreconditionError as error: assert 'sok1x.Init(' in str(error)\n"
                 "        else: raise AssertionError(op)\n")
