"""Feature columns on one rank: when they train, groups, sequences, names, refusals, and what stays TensorFlow's."""
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.feature_column import feature_column_v2

import sok1x as sok
from sok1x.deeprec import feature_columns
from sok1x.graph_ops.bridge import op_types

ours, stock = sok.feature_column, tf.feature_column


@pytest.fixture(autouse=True)
def graph():
    sok.init()
    with tf.Graph().as_default() as made:
        yield made


def keys(name="ad", dtype=tf.int64, **options):
    return ours.categorical_column_with_embedding(name, dtype, **options)


def in_use(session, name):
    """Rows in use of a table that grows."""
    table, = [one for one in tf.global_variables() if one.op.name == name]
    return int(session.run(table.size)[0])


def run(*fetches):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches)


def test_any_key_has_a_row_of_its_own_and_a_string_too(seed):
    extremes = [[0, -1], [2 ** 63 - 1, -2 ** 63], [7, 2 ** 40]]
    ids = tf.SparseTensor([[row, place] for row in range(3) for place in range(2)],
                          tf.constant(np.ravel(extremes), tf.int64), [4, 2])
    words = tf.constant([["a"], ["b"], ["a"], [""]])
    made = [ours.embedding_column(keys(), 8, "sum"), ours.embedding_column(keys("word", tf.string), 8)]
    layer = stock.input_layer({"ad": ids, "word": words}, made)
    out, = run(layer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(layer)
        assert in_use(session, "input_layer/ad_embedding/embedding_weights") == 6
        assert in_use(session, "input_layer/word_embedding/embedding_weights") == 2
    assert not out[3].any() and len(np.unique(out[:3, 0])) == 3
    assert (out[0, 8:] == out[2, 8:]).all() and (out[0, 8:] != out[1, 8:]).all()


@pytest.mark.parametrize("dtype", [tf.uint8, tf.uint16, tf.uint32])
def test_every_unsigned_number_is_a_key(dtype):
    """Not the largest one for missing, which is what -1 becomes in its dtype."""
    layer = stock.input_layer({"ad": tf.constant([[dtype.max], [7]], dtype)}, [
        ours.embedding_column(keys(dtype=dtype), 1, initializer=tf.ones_initializer())])
    assert run(layer)[0].tolist() == [[1], [1]]


def test_what_is_not_trained_inserts_nothing():
    column = ours.embedding_column(keys(), 4)
    fed = tf.placeholder(tf.int64, [None, 1])
    with tf.variable_scope("model"):
        trained = stock.input_layer({"ad": fed}, [column])
    with tf.variable_scope("model", reuse=True):
        read = stock.input_layer({"ad": fed}, [column], trainable=False)
    table = "model/input_layer/ad_embedding/embedding_weights"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(read, {fed: [[7], [8]]})
        assert in_use(session, table) == 0
        assert (session.run(trained, {fed: [[7], [8]]}) == first).all()
        assert in_use(session, table) == 2
        session.run(read, {fed: [[9]]})
        assert in_use(session, table) == 2


def test_keras_learning_phase_says_whether_it_trains():
    layer = tf.keras.layers.DenseFeatures([ours.embedding_column(keys(), 4)])
    inputs = tf.keras.Input([1], dtype=tf.int64, name="ad")
    model = tf.keras.Model({"ad": inputs}, tf.keras.layers.Dense(1)(layer({"ad": inputs})))
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    size = layer.trainable_weights[0].size
    x, y = np.arange(12)[:, None], np.ones([12, 1])
    model.predict({"ad": x})
    assert tf.keras.backend.get_session().run(size).tolist() == [0, 4]
    model.fit({"ad": x[:5]}, y[:5], verbose=0)
    model.evaluate({"ad": x}, y, verbose=0)
    assert tf.keras.backend.get_session().run(size).tolist() == [5, 4]


def test_one_column_in_two_layers_has_two_tables_and_a_shared_one_has_one():
    column = ours.embedding_column(keys(), 4)
    shared = ours.shared_embedding_columns([keys("seen"), keys("bought")], 4)
    features = {name: tf.constant([[7]], tf.int64) for name in ("ad", "seen", "bought")}
    for _ in range(2):
        stock.input_layer(features, [column])
    stock.input_layer(features, [shared[0]])
    tf.keras.layers.DenseFeatures(shared)(features)
    assert sorted(one.op.name for one in tf.trainable_variables()) == [
        "input_layer/ad_embedding/embedding_weights", "input_layer_1/ad_embedding/embedding_weights",
        "input_layer_2/bought_seen_shared_embedding/embedding_weights"]


def test_a_column_beside_a_shared_one_of_the_same_ids_has_its_own_table():
    """A layer knows its columns by equality."""
    ones, shops = tf.ones_initializer(), stock.categorical_column_with_identity("shop", 5)
    own, shared = ours.embedding_column(shops, 3, initializer=ones), ours.shared_embedding_columns(
        [shops], 3, initializer=ones, shared_embedding_collection_name="shops")[0]
    assert own != shared and not own == shared and len({own, shared}) == 2
    twin = ours.embedding_column(shops, 3, initializer=ones)
    assert own == twin and not own != twin and hash(own) == hash(twin)
    out = tf.keras.layers.DenseFeatures([own, shared])({"shop": tf.constant([[3]])})
    tables = tf.trainable_variables()
    factors = tf.constant([[1.0] * 3 + [2.0] * 3])  # in the order of the columns' names
    gradients, = run([tf.convert_to_tensor(each) for each in tf.gradients(out * factors, tables)])
    assert len(tables) == 2
    for table, gradient in zip(tables, gradients):
        assert gradient.sum() == (3 if "shop_embedding" in table.op.name else 6)


@pytest.mark.parametrize("buckets, dim", [(10, 4), (5, 8), (20, 8), (None, 8)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_table_that_is_there_already_must_be_what_is_asked_for(buckets, dim, shared):
    """As TensorFlow's: not of other buckets, nor of other rows."""
    def resolved(side, buckets, dim):
        column = keys() if buckets is None else stock.categorical_column_with_identity("ad", buckets)
        made = [side.embedding_column(column, dim)] if not shared else side.shared_embedding_columns(
            [column], dim, shared_embedding_collection_name=side.__name__)
        with tf.variable_scope(side.__name__, reuse=tf.AUTO_REUSE):
            return stock.input_layer({"ad": tf.constant([[1], [3]], tf.int64)}, made)

    for side in [ours] + ([] if buckets is None else [stock]):
        resolved(side, 10, 8)
        resolved(side, 10, 8)
        with pytest.raises(ValueError) as caught:
            resolved(side, buckets, dim)
    with pytest.raises(ValueError) as caught:
        resolved(ours, buckets, dim)
    assert "10 buckets and D=8, expected {} and D={}".format(
        "keys" if buckets is None else "{} buckets".format(buckets), dim) in str(caught.value)


def test_a_group_waits_for_the_columns_that_are_asked_for_and_no_others(graph):
    with ours.group_embedding_column_scope("fields"):
        made = [ours.embedding_column(keys(name), 4) for name in "abc"]
    features = {name: tf.constant([[7]], tf.int64) for name in "ab"}
    stock.input_layer(features, made[:2])
    barrier = graph.get_operation_by_name("fields_ids")
    lookups = [op for op in graph.get_operations() if op_types.is_ours(op) and barrier in op.control_inputs]
    assert len(lookups) == 2 and {tensor.op for lookup in lookups for tensor in lookup.inputs} >= set(
        barrier.control_inputs) and len(barrier.control_inputs) == 2
    with pytest.raises(ValueError, match="Feature c is not in features"):
        stock.input_layer(features, made)


def test_sequences_as_tensorflows():
    matrix = np.random.RandomState(1).uniform(-1, 1, [6, 3])
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([5, 0, 3], tf.int64), [3, 2])
    found = []
    for side in (ours, stock):
        column = side.embedding_column(stock.sequence_categorical_column_with_identity("ad", 6), 3,
                                       initializer=tf.constant_initializer(matrix))
        found += tf.keras.experimental.SequenceFeatures([column])({"ad": ids})
    rows, lengths, expected, expected_lengths = run(*found)
    assert rows.shape == (3, 2, 3) and (rows == expected).all() and (lengths == expected_lengths).all()


def test_outside_a_scope_deeprecs_names_give_tensorflows_columns():
    shops = stock.categorical_column_with_identity("shop", 5)
    kind = type(ours.embedding_column(shops, 3))
    plain = feature_columns.embedding_column(shops, 3)
    assert type(plain) is feature_column_v2.EmbeddingColumn
    assert not isinstance(feature_columns.shared_embedding_columns([shops], 3)[0], kind)
    with feature_columns.group_embedding_column_scope(name="shops"):
        assert type(feature_columns.embedding_column(shops, 3)) is kind
    assert type(feature_columns.embedding_column(keys(), 3)) is kind


def test_keywords_that_other_releases_have():
    """Lookups are fused, and safe, in any case; what TensorFlow's own columns have not is refused by name."""
    shops, features = stock.categorical_column_with_identity("shop", 5), {"shop": tf.constant([[3], [1]])}
    for fusion in (True, "v1", "v2"):
        options = dict(do_fusion=fusion, use_safe_embedding_lookup=False)
        made = [feature_columns.embedding_column(keys(), 3, **options)]
        made += feature_columns.shared_embedding_columns([keys()], 3, **options)
        with feature_columns.group_embedding_column_scope():
            made.append(feature_columns.embedding_column(shops, 3, **options))
        assert {type(column) for column in made} == {type(ours.embedding_column(shops, 3))}
        for make in (lambda: feature_columns.embedding_column(shops, 3, do_fusion=fusion),
                     lambda: feature_columns.shared_embedding_columns([shops], 3, do_fusion=fusion)):
            with pytest.raises(ValueError, match="do_fusion: got {!r}, expected None: the column".format(fusion)):
                make()
    with pytest.raises(ValueError, match="do_fusion: got 'v3', expected None, False, True, 'v1', 'v2'"):
        feature_columns.embedding_column(keys(), 3, do_fusion="v3")
    with pytest.raises(TypeError, match="use_safe_embedding_lookup: got 0 of type int"):
        ours.embedding_column(shops, 3, use_safe_embedding_lookup=0)
    ones = tf.ones_initializer()
    made = [feature_columns.embedding_column(shops, 3, initializer=ones, do_fusion=False,
                                             use_safe_embedding_lookup=False),
            ours.embedding_column(shops, 3, initializer=ones, use_safe_embedding_lookup=False)]
    assert (run(*[stock.input_layer(features, [column]) for column in made])[0] == 1).all()


def test_a_seedless_distribution_gives_each_key_its_own_row_and_names_are_taken():
    shops = stock.categorical_column_with_identity("shop", 50)
    layer = stock.input_layer({"shop": tf.constant([[0], [1], [49]])}, [ours.embedding_column(
        shops, 64, initializer="normal")])
    out, = run(layer)
    assert len(np.unique(out)) > 180 and 0.04 < out.std() < 0.06


def test_a_column_of_keys_survives_its_configuration():
    column = keys("ad", tf.string)
    assert type(column)._from_config(column._get_config()) == column


def test_a_column_with_something_replaced_has_its_table_and_its_group():
    with ours.group_embedding_column_scope():
        column, _ = ours.shared_embedding_columns([keys("one"), keys("other")], 2)
    frozen = column._replace(trainable=False)
    assert not frozen.trainable and frozen != column
    assert (frozen.shared, frozen.group, frozen.name) == (column.shared, column.group, column.name)
    assert frozen._replace(trainable=True) == column


def test_a_linear_model_of_no_samples():
    """Of ids whose rank is not known, too."""
    fed = tf.sparse_placeholder(tf.int64)
    out = stock.linear_model({"ad": fed}, [keys()], units=3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for places, shape in (([], [0, 2]), ([], [2, 0]), ([], [0, 0]), ([], [0, 2, 3]), ([[0, 1, 2]], [4, 2, 3])):
            ids = tf.SparseTensorValue(np.reshape(places, [-1, len(shape)]), np.arange(len(places)), shape)
            assert session.run(out, {fed: ids}).shape == (shape[0], 3)


def test_shared_columns_of_a_configuration_share_a_table_too():
    made = ours.shared_embedding_columns([keys("a"), keys("b")], 4) + [ours.embedding_column(keys("a"), 4)]
    layer = tf.keras.layers.DenseFeatures(made)
    kinds = {kind.__name__: kind for kind in (type(made[0]), type(keys()))}
    config = json.loads(json.dumps(layer.get_config()))
    with tf.Graph().as_default():
        twin = type(layer).from_config(config, custom_objects=kinds)
        twin({name: tf.constant([[1]], tf.int64) for name in "ab"})
        assert len(tf.trainable_variables()) == len(twin.trainable_weights) == 2


@pytest.mark.parametrize("wrong, error, words", [
    (lambda: keys(7), TypeError, "key: got 7"),
    (lambda: keys(dtype=tf.float32), ValueError, "'ad': dtype: got float32, expected tf.string or an integer"),
    (lambda: keys(partition_num=4), ValueError, "partition_num: got 4, expected None"),
    (lambda: ours.embedding_column("ad", 4), ValueError, "categorical_column: got 'ad' of type str"),
    (lambda: ours.embedding_column(keys(), 0), ValueError, "dimension 0"),
    (lambda: ours.embedding_column(keys(), 4, "max"), ValueError, "of 'ad': combiner: got 'max', expected 'mean'"),
    (lambda: ours.embedding_column(keys(), 4, initializer="nothing"), ValueError, "got the name 'nothing'"),
    (lambda: ours.embedding_column(keys(), 4, ckpt_to_load_from="x", tensor_name_in_ckpt="y"), ValueError,
     "ckpt_to_load_from: got 'x', expected None"),
    (lambda: ours.shared_embedding_columns([keys("a"), keys("b", tf.string)], 4), ValueError, "equal dtype"),
    (lambda: ours.shared_embedding_columns([keys("a"), stock.categorical_column_with_identity("b", 4)], 4), ValueError,
     "of one kind"),
    (lambda: stock.input_layer({"ad": tf.constant([["x"]])}, ours.embedding_column(keys(), 4)), ValueError,
     "'ad': got a feature of dtype string, expected int64"),
    (lambda: stock.indicator_column(keys()).variable_shape, ValueError, "'ad': its keys have no fixed number"),
    (lambda: stock.input_layer({"ad": tf.constant([[1]])}, ours.embedding_column(
        stock.sequence_categorical_column_with_identity("ad", 4), 4)), ValueError,
     "of sequences, expected one without"),
    (lambda: tf.keras.experimental.SequenceFeatures([ours.embedding_column(keys(), 4)])(
        {"ad": tf.constant([[1]], tf.int64)}), ValueError, "without sequences, expected one of sequences"),
])
def test_refusals(wrong, error, words):
    with pytest.raises(error) as caught:
        wrong()
    assert words in str(caught.value)


def test_a_scope_within_a_scope_is_refused_and_what_failed_leaves_none_open():
    with pytest.raises(ValueError, match="'inner' inside the scope 'outer'"):
        with ours.group_embedding_column_scope("outer"):
            with ours.group_embedding_column_scope("inner"):
                pass
    with ours.group_embedding_column_scope("again"):
        pass
    with pytest.raises(TypeError, match="name: got 7"):
        with ours.group_embedding_column_scope(7):
            pass


def test_ids_are_made_in_host_memory_whatever_looks_them_up(graph):
    categorical = [keys("word", tf.string), stock.categorical_column_with_hash_bucket("shop", 10),
                   stock.bucketized_column(stock.numeric_column("age"), [20.0, 40.0]), keys("ad")]
    features = {"word": tf.constant(["a", ""]), "shop": tf.constant(["b", "c"]), "age": tf.constant([[1.0], [30.0]]),
                "ad": tf.constant([[7], [-1]], tf.int64)}
    with tf.device("/gpu:0"):
        stock.input_layer(features, [ours.embedding_column(column, 4) for column in categorical])
        tf.feature_column.linear_model(features, [keys("word", tf.string), keys("ad")])
    made = graph.get_operations()
    looked_up = [op for op in made if op.type == "Sok1xLookup"]
    assert len(looked_up) == 6 and all(op.device.lower().endswith("gpu:0") for op in looked_up)
    found = {kind: [op.device for op in made if op.type == kind] for kind in (
        "Sok1xPresentValues", "StringToHashBucketFast", "Bucketize", "Where", "NotEqual", "GatherNd")}
    assert [len(devices) for devices in found.values()] == [5, 3, 1, 0, 0, 0]
    assert set(sum(found.values(), [])) == {"/device:CPU:0"}
