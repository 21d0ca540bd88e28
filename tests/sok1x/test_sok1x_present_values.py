"""Dense features in columns of ours: the op that leaves out what is missing, against TensorFlow's five and NumPy."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.feature_column import feature_column_v2

import sok1x as sok
from sok1x.feature_column import lookups, present_values

ours, stock = sok.feature_column, tf.feature_column
to_sparse = "_to_sparse_input_and_drop_ignore_values"
WORDS = np.array(["", "a", "Oslo", "a" * 40, "-1"], object)  # more than a short string has room for


@pytest.fixture(autouse=True)
def graph():
    sok.init()
    with tf.Graph().as_default() as made:
        yield made


def of_ours(graph):
    return [op for op in graph.get_operations() if op.type == present_values.OP]


@pytest.mark.parametrize("dtype", [tf.string, tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_as_tensorflows(dtype, seed):
    """None, some and all of the values missing; no samples, and samples without a place for a value."""
    random = np.random.RandomState(seed)
    feature = tf.placeholder(dtype, [None, None])
    expected = getattr(feature_column_v2, to_sparse)(feature)
    with lookups.on_host():
        got = getattr(feature_column_v2, to_sparse)(feature)
    assert present_values.row_splits(expected) is None
    fetches = [[got, expected, present_values.row_splits(got)], [got.values, present_values.row_splits(got)]]
    with tf.Session() as session:
        for shape in [(0, 1), (7, 1), (5, 3), (4, 0), (3000, 2)]:
            for share in (0, 0.4, 1):
                compare(random, dtype, shape, share, lambda values: [session.run(one, {feature: values})
                                                                     for one in fetches])


def compare(random, dtype, shape, share, run):
    """Of a random feature; run: gives what our op and TensorFlow's give, and what ours gives without indices."""
    there = random.uniform(size=shape) >= share
    if dtype == tf.string:
        values = np.where(there, random.choice(WORDS[1:], shape), "").astype(object)
    else:
        values = np.where(there, random.randint(-2 ** 31, 2 ** 31 - 1, shape), -1).astype(dtype.as_numpy_dtype)
        there = values != -1
    (one, other, begins), without_indices = run(values)
    for a, b in zip(one, other):
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    assert (begins == np.concatenate([[0], np.cumsum(there.sum(1))])).all()
    assert (without_indices[0] == one.values).all() and (without_indices[1] == begins).all()


def test_what_it_gives_does_not_change_with_the_variable_that_a_feature_is_of():
    """Its values may lie in the feature's memory."""
    variable = tf.get_variable("feature", initializer=[[7], [8]], dtype=tf.int32, use_resource=True)
    with lookups.on_host():
        values = getattr(feature_column_v2, to_sparse)(variable.read_value()).values
    with tf.control_dependencies([values]):
        changed = variable.assign([[1], [2]])
    with tf.control_dependencies([changed]):
        after = tf.identity(values)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([after, changed.op])[0].tolist() == [7, 8]


def columns(side):
    """Of every kind, each of a dense feature; those of ours and TensorFlow's with one value each row."""
    hashed = stock.categorical_column_with_hash_bucket
    ids = [hashed("word", 50), hashed("number", 50, tf.int64), stock.categorical_column_with_identity("place", 9),
           stock.categorical_column_with_vocabulary_list("word", ["Oslo", "a"]),
           stock.categorical_column_with_vocabulary_list("word", ["a"], num_oov_buckets=3),
           stock.crossed_column(["word", "place"], 70),
           stock.weighted_categorical_column(stock.categorical_column_with_identity("place", 9), "weight")]
    matrix = np.random.RandomState(1).uniform(-1, 1, [70, 3])
    return [side.embedding_column(one, 3, ("mean", "sqrtn", "sum")[number % 3], lambda shape, *_, **__: tf.constant(
        matrix[:shape[0]], tf.float32), max_norm=0.4 if number % 2 else None) for number, one in enumerate(ids)]


def features(random, samples=60):
    place = random.randint(-1, 9, [samples, 2])
    made = {"word": random.choice(WORDS, [samples, 3]), "number": random.randint(-2, 5, [samples, 2]), "place": place,
            "weight": random.uniform(-0.5, 1, [samples, 2]) * (place >= 0)}
    made["word"][5] = ""
    return made


def test_layers_of_dense_features_as_tensorflows(graph, seed):
    fed = features(np.random.RandomState(seed))
    given = {name: tf.placeholder(tf.string if value.dtype == object else tf.as_dtype(value.dtype), [None, 2 + (
        name == "word")], name=name) for name, value in fed.items()}
    given["weight"] = tf.cast(given["weight"], tf.float32)
    layers = [stock.input_layer(given, [column]) for side in (ours, stock) for column in columns(side)]
    assert of_ours(graph) and all(op.device == "/device:CPU:0" for op in of_ours(graph))
    half = len(layers) // 2
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        got = session.run(layers, {given[name] if name != "weight" else given[name].op.inputs[0]: value
                                   for name, value in fed.items()})
    for number, (one, other) in enumerate(zip(got[:half], got[half:])):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=str(number))


def test_a_lookup_takes_row_splits_in_place_of_indices(graph):
    made = [ours.embedding_column(ours.categorical_column_with_embedding("word"), 8, "sum"),
            ours.embedding_column(stock.categorical_column_with_hash_bucket("shop", 9), 4)]
    stock.input_layer({"word": tf.constant(["a", ""]), "shop": tf.constant([["b"], ["c"]])}, made)
    found = of_ours(graph)
    assert len(found) == 2
    lookups_of = [op for op in graph.get_operations() if op.type == "Sok1xLookup"]
    assert len(lookups_of) == 2
    for lookup in lookups_of:
        one, = [one for one in lookup.inputs if one.op.type == present_values.OP]
        assert one is one.op.outputs[3]
    assert not [op for op in graph.get_operations() if op.type in ("Where", "GatherNd", "NotEqual")]


def test_columns_of_tensorflows_own_stay_as_they_are(graph):
    shop = stock.categorical_column_with_hash_bucket("shop", 9)
    made = [ours.embedding_column(shop, 4)]
    given = {"shop": tf.constant([["b"], ["c"]])}
    stock.input_layer(given, made)
    count = len(of_ours(graph))
    stock.input_layer(given, [stock.embedding_column(shop, 4), stock.indicator_column(shop)])
    with lookups.on_host():  # what has three dimensions, and dtypes that the op does not know
        for feature in (tf.zeros([2, 2, 2], tf.int64), tf.zeros([2, 2], tf.int8), tf.placeholder(tf.int64)):
            try:
                getattr(feature_column_v2, to_sparse)(feature)
            except ValueError as error:  # as TensorFlow says of an unknown rank
                assert "rank" in str(error) or "shape" in str(error)
    assert len(of_ours(graph)) == count == 1


def test_a_feature_of_another_shape_than_the_graph_knows_is_an_error():
    fed = tf.placeholder_with_default(tf.constant([7], tf.int64), None)
    fed.set_shape([None, None])
    with lookups.on_host():
        values = getattr(feature_column_v2, to_sparse)(fed).values
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"got a feature of shape \[1\]"):
        session.run(values)
