"""EmbeddingVariables in variable scopes: their names, reuse, and whatever else a scope can say."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import deeprec


@pytest.fixture(autouse=True)
def one_graph():
    sok.init()
    with tf.Graph().as_default():
        yield


def test_scopes_and_reuse():
    with tf.variable_scope("ads", initializer=tf.ones_initializer()):
        items = deeprec.get_embedding_variable("items", 4)
        with pytest.raises(ValueError, match="'ads/items': there is one already"):
            deeprec.get_embedding_variable("items", 4)
        with pytest.raises(ValueError, match="embedding_dim: got 8.*with 4"):
            deeprec.get_embedding_variable("items", 8, reuse=True)
    with tf.variable_scope("ads", reuse=True), tf.name_scope("anywhere"):
        assert deeprec.get_embedding_variable("items", 4) is items
        with pytest.raises(ValueError, match="'ads/others': there is none"):
            deeprec.get_embedding_variable("others", 4)
    with tf.variable_scope("ads", reuse=tf.AUTO_REUSE):
        assert deeprec.get_embedding_variable("items", 4) is items
        assert deeprec.get_embedding_variable("others", 4, collections=["mine"]).name == "ads/others:0"
    assert items.name == "ads/items:0" and items in tf.trainable_variables()
    assert [each.op.name for each in tf.get_collection("mine")] == ["ads/others"]
    rows = tf.nn.embedding_lookup(items, [7])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(rows).tolist() == [[1] * 4]


def test_what_a_scope_says_besides_is_done_or_refused():
    def column(name):
        shops = tf.feature_column.categorical_column_with_identity(name, 5)
        features = {name: tf.constant([[1], [2]], tf.int64)}
        return lambda: tf.feature_column.input_layer(features, [sok.feature_column.embedding_column(shops, 3)])

    def weights():
        keys = sok.feature_column.categorical_column_with_embedding("linear", tf.int64)
        return tf.feature_column.linear_model({"linear": tf.constant([[1]], tf.int64)}, [keys])

    regularizer = tf.keras.regularizers.l2(0.1)
    for make in (lambda: deeprec.get_embedding_variable("items", 2), column("shop"), weights):
        with tf.variable_scope("regularized", regularizer=regularizer) as scope:
            with pytest.raises(ValueError, match="table 'regularized/.*regularizer <.*set_regularizer"):
                make()
            scope.set_regularizer(None)
            with tf.variable_scope("not"):
                make()
    asked = []

    def custom(getter, name, shape=None, dtype=None, *rest, **options):
        asked.append(name)
        found = getter(name, shape, dtype, *rest, **dict(options, **changes))
        return found if convert is None else convert(found)

    changes, convert = {}, None
    with tf.variable_scope("model", custom_getter=custom, constraint=tf.nn.relu):
        assert deeprec.get_embedding_variable("items", 2).constraint is tf.nn.relu
        column("city")()
        changes = {"trainable": False}
        with pytest.raises(ValueError, match="trainable: got False from the variable scope's custom_getter"):
            deeprec.get_embedding_variable("others", 2)
        changes, convert = {}, tf.convert_to_tensor
        with pytest.raises(ValueError, match="'more': got .* of type .*Tensor from the variable scope's custom_getter"):
            deeprec.get_embedding_variable("more", 2)
    assert asked == ["model/items", "model/input_layer/city_embedding/embedding_weights", "model/others", "model/more"]
    convert = None
    for changes, words in (({"collections": ["mine"]}, "collections: got"), ({"shape": [3, 2]}, "shape: got"),
                           ({"aggregation": tf.VariableAggregation.MEAN}, "aggregation: got"),
                           ({"dtype": tf.float64}, "'changed/.*dtype float64"),
                           ({"caching_device": "/cpu:0"}, "'changed/.*caching_device '/cpu:0'")):
        with tf.variable_scope("changed", custom_getter=lambda getter, name, **options: getter(
                name, **dict(options, **changes))):
            for make in (lambda: deeprec.get_embedding_variable("items", 2), column("town")):
                with pytest.raises(ValueError, match=words):
                    make()


def test_a_scope_that_wants_another_dtype_or_copies_elsewhere():
    """As `tf.get_variable`, columns say float32 themselves: a scope's dtype is then nothing to them."""
    shops = tf.feature_column.categorical_column_with_identity("shop", 5)
    column = sok.feature_column.embedding_column(shops, 3)
    features = {"shop": tf.constant([[1], [2]], tf.int64)}
    for dtype in (tf.float64, tf.float16):
        with tf.variable_scope(dtype.name, dtype=dtype) as scope:
            with pytest.raises(ValueError, match="'{0}/items': got the variable scope's dtype {0}".format(dtype.name)):
                deeprec.get_embedding_variable("items", 2)
            items = deeprec.get_embedding_variable("items", 2, value_dtype=tf.float32)
            assert items.dtype == tf.float32 and tf.feature_column.input_layer(features, [column]).dtype == tf.float32
            scope.reuse_variables()
            with pytest.raises(ValueError, match="dtype {}".format(dtype.name)):
                deeprec.get_embedding_variable("items", 2)
    with tf.variable_scope("cached", caching_device="/cpu:0") as scope:
        for make in (lambda: deeprec.get_embedding_variable("items", 2),
                     lambda: tf.feature_column.input_layer(features, [column])):
            with pytest.raises(ValueError, match="'cached/.*caching_device '/cpu:0'.*set_caching_device"):
                make()
        scope.set_caching_device(None)
        with tf.variable_scope("not"):
            deeprec.get_embedding_variable("items", 2)
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2), use_resource=False):
        assert isinstance(deeprec.get_embedding_variable("items", 2), deeprec.EmbeddingVariable)
