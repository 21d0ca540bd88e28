"""Feature columns on one rank where something is odd about features, names or scopes: as TensorFlow's columns do."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import V2, linear_model_layers

LinearModel = linear_model_layers()[0]
ours, stock = sok.feature_column, tf.feature_column
MATRIX = np.arange(20, dtype=np.float32).reshape(10, 2) + 1


@pytest.fixture(autouse=True)
def graph():
    sok.init()
    with tf.Graph().as_default() as made:
        yield made


def matrix(shape, dtype=None, partition_info=None, **_):
    return tf.constant(MATRIX)


def run(*fetches):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(fetches)


def unknown(sparse):
    """The same with a number of values that the graph does not know."""
    return tf.SparseTensor(tf.placeholder_with_default(sparse.indices, [None, sparse.indices.shape[1]]),
                           tf.placeholder_with_default(sparse.values, [None]), sparse.dense_shape)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("combiner", ["mean", "sum"])
@pytest.mark.parametrize("base", [
    stock.categorical_column_with_identity("ad", 10),
    stock.categorical_column_with_vocabulary_list("ad", list(range(10)), dtype=tf.int64)], ids=["identity", "words"])
@pytest.mark.parametrize("count", [3, 4, 5])
def test_weights_are_as_many_as_ids(count, base, combiner, deep):
    places = np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]])
    shape = [3, 2]
    if deep:
        places, shape = np.insert(places, 1, 0, axis=1), [3, 1, 2]
    features = {
        "ad": unknown(tf.SparseTensor(places[:4], tf.constant([3, 4, 2, 5], tf.int64), shape)),
        "weight": unknown(tf.SparseTensor(places[:count], [1.0, 3.0, 1.0, 2.0, 9.0][:count], shape))}
    column = stock.weighted_categorical_column(base, "weight")
    found = []
    for side in (ours, stock):
        layer = stock.input_layer(features, [side.embedding_column(column, 2, combiner, initializer=matrix)])
        if count != 4:
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                run(layer)
            assert side is stock or "expected " in str(caught.value)  # in words
        else:
            found += run(layer)
    if found:
        np.testing.assert_allclose(*found)


def test_one_weight_for_no_ids_is_refused_too():
    features = {"ad": unknown(tf.SparseTensor(np.zeros([0, 2], np.int64), tf.constant([], tf.int64), [1, 1])),
                "weight": unknown(tf.SparseTensor([[0, 0]], [1.0], [1, 1]))}
    column = stock.weighted_categorical_column(stock.categorical_column_with_identity("ad", 10), "weight")
    layer = stock.input_layer(features, [ours.embedding_column(column, 2, initializer=matrix)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="than those of the ids"):
        run(layer)


def test_a_linear_models_weights_are_rows_alone():
    """Keras' optimizers, which canned estimators of TensorFlow 2 have, find no gradient of any others."""
    model = LinearModel([ours.categorical_column_with_embedding("ad", tf.int64)])
    model({"ad": tf.constant([[1], [2]], tf.int64)})
    assert [one.op.name.split("/", 1)[1] for one in model.variables] == ["ad/weights", "bias_weights"]
    assert len([one for one in tf.global_variables() if "ad/weights/" in one.name]) == 4


def test_canned_linear_estimators_of_tensorflow_2(tmp_path):
    def features():
        ids, labels = np.arange(12)[:, np.newaxis] % 5, np.arange(12) % 3 == 0
        return tf.data.Dataset.from_tensor_slices(({"ad": ids}, labels.astype(np.float32))).batch(4)

    found = []
    for column in (ours.categorical_column_with_embedding("ad", tf.int64),
                   stock.categorical_column_with_identity("ad", 5)):
        optimizers = tf2.keras.optimizers
        made = tf2.estimator.LinearClassifier(
            [column], str(tmp_path / str(len(found))), optimizer=getattr(optimizers, "legacy", optimizers).SGD(0.1))
        made.train(features, steps=3)
        found.append(made.evaluate(features)["loss"])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_cols_to_vars_has_the_weights_alone():
    found = {}
    buckets, keys = stock.categorical_column_with_hash_bucket("shop", 10), ours.categorical_column_with_embedding("ad")
    features = {"shop": tf.constant([["a"]]), "ad": tf.constant([["b"]])}
    columns = [side.embedding_column(buckets, 2) for side in (ours, stock)] + [ours.embedding_column(keys, 2)]
    for column in columns:
        stock.input_layer(features, [column], cols_to_vars=found)
    stock.linear_model(features, [buckets, keys], cols_to_vars=found)
    assert {column if column == "bias" else column.name: [one.op.name for one in variables]
            for column, variables in list(found.items())[1:]} == {
        "shop_embedding": ["input_layer_1/shop_embedding/embedding_weights"],
        "ad_embedding": ["input_layer_2/ad_embedding/embedding_weights"],
        "shop": ["linear_model/shop/weights"], "ad": ["linear_model/ad/weights"], "bias": ["linear_model/bias_weights"]}
    assert [one.op.name for one in found[columns[0]]] == ["input_layer/shop_embedding/embedding_weights"]


@pytest.mark.parametrize("default", [None, 1])
@pytest.mark.parametrize("ids", [tf.SparseTensorValue(np.array([[0, 0], [0, 1], [1, 0]]), np.array([3, -1, 2]), [2, 2]),
                                 np.array([[3, -2], [2, -1]]), np.array([[3, 10], [2, -1]])],
                         ids=["sparse", "below", "above"])
def test_identities_out_of_range(ids, default):
    """TensorFlow 1.15 refuses those below 0 and 2.x leaves them out, where there is no default value.

    Ours refuses dense ones below -1 in both: looking for them would cost each step more than they are worth.
    """
    column = stock.categorical_column_with_identity("ad", 10, default)
    found = []
    for side in (ours, stock):
        ad = unknown(tf.SparseTensor.from_value(ids)) if isinstance(ids, tf.SparseTensorValue) else tf.constant(ids)
        layer = stock.input_layer({"ad": ad}, [side.embedding_column(column, 2, initializer=matrix)])
        try:
            found += run(layer)
        except tf.errors.InvalidArgumentError:
            found.append(None)
    if V2 and default is None and np.min(ids[1] if isinstance(ids, tf.SparseTensorValue) else ids) < -1:
        assert found[0] is None
    elif any(one is None for one in found):
        assert found == [None, None]
    else:
        np.testing.assert_allclose(*found)


def test_dense_features_of_tensorflow_2_have_a_table_for_each_column():
    features = {name: tf.constant([[1]], tf.int64) for name in ("ad", "shop")}
    names = []
    for side in (ours, stock):
        layer = tf2.keras.layers.DenseFeatures([side.embedding_column(
            stock.categorical_column_with_identity(name, 10), 2 + len(name)) for name in features])
        layer(features)
        names.append([one.op.name.split("/", 1)[1] for one in layer.trainable_weights])
    assert names == [["ad_embedding/embedding_weights", "shop_embedding/embedding_weights"]] * 2


def test_one_column_of_a_group_is_served_without_the_others_features(tmp_path):
    def tower():
        with ours.group_embedding_column_scope("both"):
            columns = [ours.embedding_column(ours.categorical_column_with_embedding(name, tf.int64), 2,
                                             initializer=tf.ones_initializer()) for name in ("user", "item")]
        features, made = {name: tf.placeholder(tf.int64, [None, 1], name) for name in ("user", "item")}, {}
        stock.input_layer(features, columns, cols_to_output_tensors=made)
        return features, {column.name: made[column] for column in columns}

    with tf.Graph().as_default(), tf.Session() as session:
        features, outputs = tower()
        session.run(tf.global_variables_initializer())
        session.run(outputs, {one: [[7]] for one in features.values()})
        saved = sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)

    def served():
        features, outputs = tower()
        return {"user": features["user"]}, {"user": outputs["user_embedding"]}

    path = sok.serving.export_saved_model(str(tmp_path / "model"), saved, served)
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        assert session.run(signature.outputs["user"].name, {signature.inputs["user"].name: [[7]]}).tolist() == [[1, 1]]
