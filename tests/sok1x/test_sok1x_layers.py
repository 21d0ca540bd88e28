"""The two layers as Keras layers: arguments and inputs, right and wrong."""
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_constant, sparse_layer, sparse_value

import sok1x as sok

v1 = tf
LAYERS = pytest.mark.parametrize("make", [dense_layer, sparse_layer], ids=["dense", "sparse"])


# ---- arguments

def test_positional_order_is_soks():
    with graph():
        one = sok.All2AllDenseEmbedding(32, 4, 2, 3, True, False, "uint32", "ones")
        assert {name: one.get_config()[name] for name in one.get_config() if name not in ("name", "trainable")} == dict(
            dtype="float32", max_vocabulary_size_per_gpu=32, embedding_vec_size=4, slot_num=2, nnz_per_slot=3,
            dynamic_input=True, use_hashtable=False, key_dtype="uint32", embedding_initializer="ones")
        two = sok.DistributedEmbedding("MEAN", 32, 4, 2, 3, 10, False, tf.int32, "ones")
        assert {name: two.get_config()[name] for name in two.get_config() if name not in ("name", "trainable")} == dict(
            dtype="float32", combiner="mean", max_vocabulary_size_per_gpu=32, embedding_vec_size=4, slot_num=2,
            max_nnz=3, max_feature_num=10, use_hashtable=False, key_dtype="int32", embedding_initializer="ones",
            exchange="auto")


@LAYERS
@pytest.mark.parametrize("wrong, error, words", [
    (dict(max_vocabulary_size_per_gpu=0), ValueError, "max_vocabulary_size_per_gpu: got 0, expected"),
    (dict(max_vocabulary_size_per_gpu=2 ** 31), ValueError, "max_vocabulary_size_per_gpu"),
    (dict(max_vocabulary_size_per_gpu=1e6), TypeError, "got 1000000.0 of type float, expected a positive integer"),
    (dict(embedding_vec_size=-4), ValueError, "embedding_vec_size: got -4"),
    (dict(embedding_vec_size="4"), TypeError, "embedding_vec_size"),
    (dict(slot_num=0), ValueError, "slot_num"),
    (dict(slot_num=True), TypeError, "slot_num"),
    (dict(use_hashtable=1), TypeError, "use_hashtable: got 1 of type int, expected True or False"),
    (dict(key_dtype="int16"), TypeError, "key_dtype: got 'int16', expected one of int64, uint32, int32"),
    (dict(key_dtype=tf.float32), TypeError, "key_dtype"),
    (dict(key_dtype="keys"), TypeError, "key_dtype"),
    (dict(dtype="float64"), TypeError, "dtype: got 'float64', expected float32, float16 or a Keras policy"),
    (dict(dtype="mixed_bfloat16"), TypeError, "dtype: got 'mixed_bfloat16'"),
    (dict(dtype=3.5), TypeError, "dtype: got 3.5"),
    (dict(no_such=1), TypeError, "no_such"),
])
def test_wrong_arguments(make, wrong, error, words):
    with graph():
        with pytest.raises(error, match=words) as raised:
            make(name="ads", **wrong)
        assert "no_such" in wrong or "'ads'" in str(raised.value)
        assert v1.global_variables() == []


@pytest.mark.parametrize("make, wrong, error, words", [
    (dense_layer, dict(nnz_per_slot=0), ValueError, "nnz_per_slot"),
    (dense_layer, dict(dynamic_input="yes"), TypeError, "dynamic_input"),
    (sparse_layer, dict(max_nnz=0), ValueError, "max_nnz"),
    (sparse_layer, dict(max_feature_num=0), ValueError, "max_feature_num"),
    (sparse_layer, dict(combiner="max"), ValueError, "combiner: got 'max', expected one of 'sum', 'mean'"),
    (sparse_layer, dict(combiner=None), TypeError, "combiner"),
    (sparse_layer, dict(exchange="nccl"), ValueError, "exchange: got 'nccl', expected one of 'auto', 'all2all'"),
])
def test_wrong_arguments_of_one_layer(make, wrong, error, words):
    with graph(), pytest.raises(error, match=words):
        make(**wrong)


@pytest.mark.parametrize("given", ["sum", "Sum", "SUM", "mean", "MEAN", "mEaN"])
def test_combiner_in_any_case(given):
    with graph():
        layer = sparse_layer(combiner=given, embedding_initializer="ones")
        vectors = layer(sparse_constant([[5, 6, 7], []], 3))
        with session() as run:
            value = 3.0 if given.lower() == "sum" else 1.0
            assert run.run(vectors).tolist() == [[[value] * 4, [0.0] * 4]]


def test_numpy_integers_and_dtypes_are_taken():
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=np.int64(32), embedding_vec_size=np.int32(4),
                            key_dtype=np.uint32)
        assert json.loads(json.dumps(layer.get_config()))["key_dtype"] == "uint32"


# ---- inputs

@pytest.mark.parametrize("key_dtype", ["int64", "uint32", "int32", tf.int64, None])
@pytest.mark.parametrize("given", ["int64", "uint32", "int32", "int16", "float32", "string"])
@LAYERS
def test_key_dtypes(make, key_dtype, given):
    with graph():
        layer = make(key_dtype=key_dtype)
        expected = tf.as_dtype(key_dtype or "int64").name
        if make is dense_layer:
            keys = v1.placeholder(given, [None, 2, 3])
        else:
            keys = v1.sparse.placeholder(given)
        if given == expected or (expected == "int64" and given in ("int32", "uint32")):
            layer(keys)
        else:
            with pytest.raises(TypeError, match="got keys of dtype {}, expected {}.*cast".format(given, expected)):
                layer(keys)


@LAYERS
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_narrow_keys_are_the_same_keys(make, dtype):
    """A key is its value, whatever its width: -1 and 2**32 - 1 are two keys of an int64 table."""
    narrow = np.array([2 ** 32 - 1, 2 ** 31, 0], np.uint32) if dtype == "uint32" else np.array([-1, -2 ** 31, 0])
    with graph():
        wide = make(embedding_initializer="normal")
        own = make(key_dtype=dtype, embedding_initializer="normal")
        if make is dense_layer:
            def call(layer, as_dtype):
                return layer(tf.constant(np.tile(narrow.astype(as_dtype), 2).reshape(1, 2, 3)))
        else:
            def call(layer, as_dtype):
                return layer(sparse_constant([list(narrow.astype(as_dtype)), []], 3, as_dtype))
        with session() as run:
            values = [run.run(call(wide, np.int64)), run.run(call(wide, dtype))]
            np.testing.assert_array_equal(values[0], values[1])
            assert run.run(wide.embedding_variable.index[-1]) == 3
            run.run(call(own, dtype))
            slots = run.run(own.embedding_variable.index[0])
            assert sorted(slots[slots[:, 1] >= 0, 0]) == sorted(narrow.astype(np.int64))


@pytest.mark.parametrize("shape", [[None, 3, 3], [None, 2, 4], [2, 3], [None], [None, 2, 3, 1], []])
def test_dense_static_shapes_that_do_not_fit(shape):
    with graph():
        layer = dense_layer(name="ads")
        with pytest.raises(ValueError, match=r"'ads' \(table 'ads/EmbeddingVariable'\): got keys of shape .* expected "
                                             r"\[B, 2, 3\]; .*slot_num or nnz_per_slot"):
            layer(v1.placeholder(tf.int64, shape))
        with pytest.raises(ValueError, match=r"expected \[K\].*dynamic_input=False"):
            dense_layer(dynamic_input=True)(v1.placeholder(tf.int64, [None, 2, 3]))


@pytest.mark.parametrize("shape", [None, [None, None, None], [5, None, None], [None, 2, 3], [5, 2, 3]])
def test_dense_static_shapes_are_completed(shape):
    with graph():
        layer = dense_layer()
        keys = v1.placeholder(tf.int64, shape)
        vectors = layer(keys)
        assert vectors.shape.as_list() == [shape[0] if shape else None, 2, 3, 4]
        assert layer.compute_output_shape([shape[0] if shape else None, 2, 3]).as_list() == vectors.shape.as_list()
        with session() as run:
            assert run.run(vectors, {keys: np.ones([5, 2, 3])}).shape == (5, 2, 3, 4)
            if shape == [5, None, None] or not shape or shape[1] is None:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    run.run(vectors, {keys: np.ones([5, 3, 2])})


def test_dynamic_input():
    with graph():
        layer = dense_layer(dynamic_input=True, embedding_initializer="ones")
        keys = v1.placeholder(tf.int64, [None])
        vectors = layer(keys)
        assert vectors.shape.as_list() == [None, 4] and layer.compute_output_shape([7]).as_list() == [7, 4]
        with session() as run:
            for count in (0, 1, 7):
                assert run.run(vectors, {keys: np.arange(count)}).tolist() == [[1.0] * 4] * count


@pytest.mark.parametrize("shape, samples", [
    ([8, 3], 4), ([None, 3], None), ([8, 2], 4), ([None, None], None), (None, None)])
def test_sparse_static_shapes(shape, samples):
    bags = [[1], [], [2, 2], [], [], [3], [], []]
    with graph():
        layer = sparse_layer()
        keys, feed = v1.sparse.placeholder(tf.int64, shape), {}
        if samples is None:
            feed = {keys: sparse_value(bags, 3)}
        else:  # a placeholder's shape is a constant where it is known
            keys = sparse_constant(bags, shape[1])
        vectors = layer(keys)
        assert vectors.shape.as_list() == [samples, 2, 4]
        if shape:
            assert layer.compute_output_shape(shape).as_list() == [samples, 2, 4]
        with session() as run:
            assert run.run(vectors, feed).shape == (4, 2, 4)


@pytest.mark.parametrize("shape, words", [
    ([7, 3], "multiple of slot_num 2"), ([8, 4], "at most max_nnz 3.*raise max_nnz"),
    ([4, 2, 3], r"rank 3, expected rank 2, dense_shape \[B \* 2, 3\]"), ([8], "rank 1, expected rank 2")])
def test_sparse_static_shapes_that_do_not_fit(shape, words):
    with graph(), pytest.raises(ValueError, match=words):
        sparse_layer()(v1.sparse.placeholder(tf.int64, shape))


def test_kinds_of_tensors():
    with graph():
        dense, sparse = dense_layer(), sparse_layer()
        ragged = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2], tf.int64), [1, 1])
        for wrong in (sparse_constant([[1], [2]], 3), ragged):
            with pytest.raises(TypeError, match="expected a dense tf.Tensor.*DistributedEmbedding"):
                dense.call(wrong)
        for wrong in (tf.zeros([2, 3], tf.int64), ragged, np.zeros([2, 3], np.int64), None):
            with pytest.raises(TypeError, match="expected a tf.SparseTensor.*All2AllDenseEmbedding"):
                sparse.call(wrong)
        with pytest.raises(TypeError, match="expected a tf.Tensor of keys"):
            dense.call([1, 2, 3])
        assert dense(np.zeros([1, 2, 3], np.int64)).shape.as_list() == [1, 2, 3, 4]
        assert dense(tf.Variable(np.zeros([1, 2, 3], np.int64))).shape.as_list() == [1, 2, 3, 4]


@LAYERS
def test_another_graph_or_a_function_body_is_refused(make):
    def keys():
        return tf.constant([[[1, 2, 3]] * 2], tf.int64) if make is dense_layer else sparse_constant([[1], [2]], 3)

    with graph():
        layer = make(name="ads")
        with graph(), pytest.raises(ValueError, match="'ads'.*another tf.Graph than the one in which"):
            layer(keys())
        with pytest.raises(ValueError, match="'ads'.*tf.function"):
            tf.function(lambda: layer(keys()), autograph=False)()
        layer(keys())


def test_a_scope_that_reuses_is_refused():
    """tf.layers would share what they have made; a second layer would read a table that nobody trains."""
    def layer(name="ads"):
        return sok.All2AllDenseEmbedding(8, 2, 1, 1, name=name)

    with tf.Graph().as_default():
        with tf.variable_scope("model"):
            layer()
        for name in ("ads", None):
            with tf.variable_scope("model", reuse=True), pytest.raises(ValueError) as raised:
                layer(name)
            assert "got variable scope 'model' with reuse=True" in str(raised.value)
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            layer("users"), layer(None), layer(None)
            with pytest.raises(ValueError, match="'model' with reuse=tf.AUTO_REUSE, in which there is a layer of that"):
                layer()
        with tf.variable_scope("other", reuse=tf.AUTO_REUSE):
            layer()
