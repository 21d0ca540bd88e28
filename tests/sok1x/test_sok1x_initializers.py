"""Rows' initial values: by key for names, by row for objects."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session

from sok1x.core.options import initializers

KERAS = tf.keras.initializers


def first_rows(keys, rows=4096, dim=8, training=True, **arguments):
    """The first values that `keys` get, float32 [K, D], on one rank."""
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=rows, embedding_vec_size=dim, dynamic_input=True,
                            **arguments)
        vectors = layer(tf.constant(keys, tf.int64), training=training)
        with session() as run:
            return run.run(vectors)


# name -> lowest, highest, standard deviation of a [4096, 8] matrix, as tf.keras 1.15 documents its initializers.
FAN_IN, FAN_AVG = 4096.0, (4096 + 8) / 2
EXPECTED = {
    None: (-0.05, 0.05, 0.1 / 12 ** 0.5),
    "uniform": (-0.05, 0.05, 0.1 / 12 ** 0.5),
    "random_uniform": (-0.05, 0.05, 0.1 / 12 ** 0.5),
    "RandomUniform": (-0.05, 0.05, 0.1 / 12 ** 0.5),
    "normal": (-0.3, 0.3, 0.05),
    "random_normal": (-0.3, 0.3, 0.05),
    "truncated_normal": (-0.1, 0.1, 0.05 * 0.8796),
    "glorot_uniform": (-(3 / FAN_AVG) ** 0.5, (3 / FAN_AVG) ** 0.5, (1 / FAN_AVG) ** 0.5),
    "glorot_normal": (-2.28 / FAN_AVG ** 0.5, 2.28 / FAN_AVG ** 0.5, (1 / FAN_AVG) ** 0.5),
    "he_uniform": (-(6 / FAN_IN) ** 0.5, (6 / FAN_IN) ** 0.5, (2 / FAN_IN) ** 0.5),
    "he_normal": (-2.28 * (2 / FAN_IN) ** 0.5, 2.28 * (2 / FAN_IN) ** 0.5, (2 / FAN_IN) ** 0.5),
    "lecun_uniform": (-(3 / FAN_IN) ** 0.5, (3 / FAN_IN) ** 0.5, (1 / FAN_IN) ** 0.5),
    "lecun_normal": (-2.28 / FAN_IN ** 0.5, 2.28 / FAN_IN ** 0.5, (1 / FAN_IN) ** 0.5),
    "variance_scaling": (-2.28 / FAN_IN ** 0.5, 2.28 / FAN_IN ** 0.5, (1 / FAN_IN) ** 0.5),
}


@pytest.mark.parametrize("name", EXPECTED, ids=str)
def test_named_distributions_have_keras_parameters(name):
    low, high, deviation = EXPECTED[name]
    values = first_rows(np.arange(4096), embedding_initializer=name)
    reached = 0.6 if name in ("normal", "random_normal") else 0.9  # the uncut normal has no edge to come close to
    assert low <= values.min() < reached * low
    assert high >= values.max() > reached * high
    # 32768 values: the mean's and the deviation's own deviations are below 0.6 % of the deviation.
    assert abs(values.mean()) < 0.03 * deviation
    assert abs(values.std() - deviation) < 0.03 * deviation
    assert len(np.unique(values)) > 0.99 * values.size
    with graph(), tf.Session() as run:  # and so does Keras itself
        keras = KERAS.get("VarianceScaling" if name == "variance_scaling" else name or "uniform")
        theirs = run.run(keras([4096, 8], dtype=tf.float32))
    assert abs(theirs.std() - deviation) < 0.03 * deviation


@pytest.mark.parametrize("name, value", [("zeros", 0), ("Zeros", 0), ("ones", 1), ("Ones", 1), ("constant", 0)])
def test_named_constants(name, value):
    assert (first_rows([5, -7, 5], embedding_initializer=name) == value).all()


@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal", "he_normal"])
def test_a_row_is_a_function_of_its_key(name):
    """Whatever the batch's order, and whether trained on or only read."""
    keys = np.array([3, -1, 2 ** 62, 12, -2 ** 63, 2 ** 63 - 1], np.int64)
    rows = first_rows(keys, embedding_initializer=name)
    assert (first_rows(keys[::-1], embedding_initializer=name)[::-1] == rows).all()
    assert (first_rows(keys[1:3], embedding_initializer=name) == rows[1:3]).all()
    assert (first_rows(keys, embedding_initializer=name, training=False) == rows).all()
    assert len(np.unique(rows)) == rows.size


def test_two_tables_differ():
    with graph():
        layers = [dense_layer(dynamic_input=True) for _ in range(2)]
        vectors = [layer(tf.constant([5, 6], tf.int64)) for layer in layers]
        with session() as run:
            one, two = run.run(vectors)
    assert (one != two).all()


def test_without_hash_table_rows_follow_the_same_rule():
    keys = np.arange(32)
    with_index = first_rows(keys, rows=32, embedding_initializer="normal")
    assert (first_rows(keys, rows=32, embedding_initializer="normal", use_hashtable=False) == with_index).all()


MATRIX = np.arange(32 * 8, dtype=np.float32).reshape(32, 8)


class Counting(KERAS.Initializer):
    """Row i is i * D, i * D + 1, …; what it is called with is kept."""

    def __init__(self):
        self.calls = []

    def __call__(self, shape, dtype=None, partition_info=None):
        self.calls.append((list(shape), dtype))
        return tf.reshape(tf.range(shape[0] * shape[1], dtype=dtype), shape)

    def get_config(self):
        return {}


@pytest.mark.parametrize("hashtable", [True, False])
def test_objects_fill_by_row(hashtable):
    initializer = Counting()
    keys = [30, 4, 30, 0]
    rows = [0, 1, 0, 2] if hashtable else [30, 4, 30, 0]  # an index gives out rows in order of appearance
    values = first_rows(keys, rows=32, embedding_initializer=initializer, use_hashtable=hashtable)
    assert initializer.calls == [([32, 8], tf.float32)]
    np.testing.assert_array_equal(values, MATRIX[rows])


def test_callables_classes_and_configurations_fill_by_row():
    with_dtype = first_rows([1, 2], rows=32, embedding_initializer=lambda shape, dtype: tf.constant(MATRIX, dtype))
    without = first_rows([1, 2], rows=32, embedding_initializer=lambda shape: MATRIX.astype(np.float64))
    np.testing.assert_array_equal(with_dtype, MATRIX[:2])
    np.testing.assert_array_equal(without, MATRIX[:2])
    assert (first_rows([1, 2], embedding_initializer=KERAS.Ones) == 1).all()
    configuration = KERAS.serialize(KERAS.Constant(2.5))
    assert (first_rows([1, 2], embedding_initializer=configuration) == 2.5).all()


class Positive(KERAS.RandomUniform):
    """Gives other values than its base does."""

    def __call__(self, shape, dtype=None, **_):
        return tf.abs(super().__call__(shape, dtype=tf.float32)) + 1.0


class Narrow(KERAS.RandomUniform):
    """Its base with other numbers."""

    def __init__(self):
        super().__init__(0.5, 0.75)


def test_a_class_with_values_of_its_own_is_not_taken_for_its_base():
    values = first_rows([1, 2], rows=32, embedding_initializer=initializers.ByKey(Positive(-0.05, 0.05)))
    assert (values >= 1).all() and not initializers.is_distribution(Positive())
    for given in (Positive(), lambda shape: MATRIX[:shape[0]]):
        with pytest.raises(ValueError, match="for a table that grows, expected None, a name, or an initializer object"):
            initializers.resolve(given, rows=8, dim=4, grows=True)
    assert initializers.resolve(Narrow(), rows=8, dim=4, grows=True).spec == {"kind": "uniform", "a": 0.5, "b": 0.75}


@pytest.mark.parametrize("name", ["orthogonal", "identity"])
def test_names_that_need_the_matrix(name):
    with graph():
        layer = dense_layer(embedding_vec_size=8, embedding_initializer=name)
        with session() as run:
            matrix = run.run(layer.embedding_variable)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("name", ["no_such", "", "get", "Initializer", "dtypes", "zeros ", "serialize"])
def test_unknown_name_lists_the_known(name):
    with graph(), pytest.raises(ValueError, match="glorot_uniform.*truncated_normal"):
        dense_layer(embedding_initializer=name)


def test_listed_names_are_all_known():
    for name in initializers.NAMES:
        initializers.resolve(name, 4, 4)


@pytest.mark.parametrize("wrong", [5, 1.0, ["zeros"], object()])
def test_no_initializer_at_all(wrong):
    with graph(), pytest.raises(TypeError, match="table '.*': embedding_initializer: got .* expected None, a name"):
        dense_layer(embedding_initializer=wrong)


def test_object_with_the_wrong_shape_or_dtype():
    with graph(), pytest.raises(ValueError, match=r"got values of shape \(3, 3\), expected \[32, 4\]"):
        dense_layer(embedding_initializer=lambda shape: np.zeros([3, 3], np.float32))
    with graph(), pytest.raises(TypeError, match="int32, expected float32"):
        dense_layer(embedding_initializer=lambda shape: np.zeros(shape, np.int32))
