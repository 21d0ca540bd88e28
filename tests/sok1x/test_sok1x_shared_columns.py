"""The table that feature columns share: named as TensorFlow's, whichever column comes first, and formerly after it."""
import os

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError

HERE = os.path.dirname(os.path.abspath(__file__))
FEATURES = {name: np.array([[1], [2]]) for name in "abc"}


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def identity(name):
    return tf.feature_column.categorical_column_with_identity(name, 5)


def shared(side, name="goods", of="ba"):
    return side([identity(one) for one in of], 4, shared_embedding_collection_name=name)


def names(variables):
    return [one.op.name for one in variables]


@pytest.mark.parametrize("name", ["goods", None])
def test_a_keras_layer_names_it_as_tensorflows_shared_embeddings(name):
    found = []
    for side in (sok.feature_column.shared_embedding_columns, tensorflow.compat.v2.feature_column.shared_embeddings):
        for order in (slice(None), slice(None, None, -1), slice(1)):
            with tf.Graph().as_default():
                features = {one: tf.constant(value) for one, value in FEATURES.items()}
                with tf.variable_scope("model"):
                    for column in shared(side, name)[order]:
                        tf.keras.layers.DenseFeatures([column])(features)
                found.append(names(tf.trainable_variables()))
    assert found == [["model/" + (name or "a_b_shared_embedding")]] * 6


def in_layers(side, collections):
    """What is looked up in a graph of DenseFeatures, one for each collection."""
    return [tf.keras.layers.DenseFeatures(shared(side, name, of), name="tower_" + of)(
        {one: tf.constant(FEATURES[one]) for one in of}) for name, of in collections]


def test_names_that_tensorflow_takes_are_its_own_and_others_those_of_the_column():
    sides = sok.feature_column.shared_embedding_columns, tensorflow.compat.v2.feature_column.shared_embeddings
    found = []
    for side in sides:
        with tf.Graph().as_default(), tf.variable_scope("model"):
            in_layers(side, [("shop/goods", "ab"), ("shop_goods", "ab"), ("_goods", "ab")])
            found.append(names(tf.trainable_variables()))
    assert found == [["model/shop/goods", "model/shop_goods", "model/_goods"]] * 2
    for name in ("my goods", "_goods", "\u5546\u54c1", "a\\b", "goods\n"):
        for side in sides:
            with tf.Graph().as_default(), tf.Session() as session:
                if side is sides[1]:
                    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
                        in_layers(side, [(name, "ab")])
                        session.run(tf.global_variables_initializer())
                    continue
                made = in_layers(side, [(name, "ab"), ("my_goods", "c")])
                assert names(tf.trainable_variables()) == ["tower_ab/a_shared_embedding/embedding_weights", "my_goods"]
                session.run(tf.global_variables_initializer())
                assert all(one.any() for one in session.run(made))


def test_a_name_that_something_else_has_is_left_to_it():
    with tf.Graph().as_default():
        tf.get_variable("goods", initializer=1.0)
        in_layers(sok.feature_column.shared_embedding_columns, [("goods", "ab")])
        assert names(tf.trainable_variables()) == ["goods", "tower_ab/a_shared_embedding/embedding_weights"]


@pytest.mark.parametrize("canned", ["DNNClassifier", "LinearClassifier"])
def test_a_canned_estimator_names_it_as_tensorflows_shared_embedding_columns(canned, tmp_path):
    found = []
    for side in (sok.feature_column, tf.feature_column):
        columns = shared(side.shared_embedding_columns) + shared(side.shared_embedding_columns, "shop/others", "c")
        options = {"hidden_units": [3]} if canned.startswith("DNN") else {}
        made = getattr(tf.estimator, canned)(
            feature_columns=columns, model_dir=str(tmp_path / side.__name__), **options)
        made.train(lambda: tf.data.Dataset.from_tensors((FEATURES, np.array([[0.0], [1.0]], np.float32))))
        found.append(sorted(one for one in made.get_variable_names() if one.endswith("/embedding_weights")))
    assert found[0] == found[1] and len(found[0]) == 2


def test_another_program_restores_it_by_another_column(tmp_path):
    found = []
    for order in ("ab", "ba", "b"):
        with tf.Graph().as_default(), tf.Session() as session:
            columns = dict(zip("ab", shared(sok.feature_column.shared_embedding_columns, of="ab")))
            layers = {one: tf.keras.layers.DenseFeatures([columns[one]])(
                {one: tf.constant(FEATURES[one])}) for one in order}
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            if found:
                saver.restore(session, str(tmp_path / "model"))
            else:
                saver.save(session, str(tmp_path / "model"))
            found.append(session.run(layers["b"]))
    assert all(np.array_equal(one, found[0]) for one in found) and found[0].any()


def test_unseen_keys_read_the_same_in_whatever_order_columns_come_and_layers_are_called():
    found = []
    for order in ("ab", "ba"):
        with tf.Graph().as_default(), tf.Session() as session:
            keys = [sok.feature_column.categorical_column_with_embedding(one, tf.int64) for one in "ab"]
            columns = dict(zip("ab", sok.feature_column.shared_embedding_columns(keys, 4)))
            layers = {one: tf.keras.layers.DenseFeatures([columns[one]], name="{}_of_{}".format(one, order))(
                {one: tf.constant([[1], [77]], tf.int64)}) for one in order}
            session.run(tf.global_variables_initializer())
            found += session.run([layers["a"], layers["b"]])
    assert all(np.array_equal(one, found[0]) for one in found) and found[0].all()


def test_tables_that_one_column_would_have_named_begin_each_for_itself():
    """Both were called after it: what was saved so is the first one's alone."""
    with tf.Graph().as_default(), tf.Session() as session:
        layers = []
        for name, of in (("ones", "ab"), ("others", "ac")):
            columns = shared(sok.feature_column.shared_embedding_columns, name, of)
            layers.append(tf.keras.layers.DenseFeatures(columns[:1], name="tower")({"a": tf.constant(FEATURES["a"])}))
        session.run(tf.global_variables_initializer())
        one, other = session.run(layers)
    assert (one != other).all()


def test_a_table_that_is_called_what_a_shared_one_was_begins_for_itself_and_has_its_own_files(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        key, other = [sok.feature_column.categorical_column_with_embedding(one, tf.int64) for one in ("a", "a_shared")]
        columns = [*sok.feature_column.shared_embedding_columns([key], 4, shared_embedding_collection_name="goods"),
                   sok.feature_column.embedding_column(other, 4)]
        ids = tf.constant([[1], [2]], tf.int64)
        saver, layers, early = sok.Saver(), [], []
        for column in columns:
            layers.append(tf.keras.layers.DenseFeatures([column], name="tower")(
                {one: ids for one in ("a", "a_shared")}))
            tables = [one for one in tf.trainable_variables() if hasattr(one, "table")]
            early.append(saver.restore_from_file(tables[0], str(tmp_path / "alone")))  # first: before there is another
        assert names(tables) == ["goods", "tower/a_shared_embedding/embedding_weights"]
        session.run(tf.global_variables_initializer())
        found = session.run(layers)
        assert (found[0] != found[1]).all()
        for table in tables:
            session.run(saver.dump_to_file(table, str(tmp_path)))
        session.run(tf.global_variables_initializer())
        for table in tables:
            session.run(saver.restore_from_file(table, str(tmp_path)))
        np.testing.assert_array_equal(session.run(layers), found)
        assert len([name for _, _, files in os.walk(str(tmp_path)) for name in files]) == 4
        key = sok.feature_column.categorical_column_with_embedding("b", tf.int64)
        own, = sok.feature_column.shared_embedding_columns([key], 4, shared_embedding_collection_name="kinds")
        tf.keras.layers.DenseFeatures([own], name="own")({"b": ids})
        kinds = [one for one in tf.trainable_variables() if hasattr(one, "table")][-1]
        early.append(saver.restore_from_file(kinds, str(tmp_path / "alone")))
        apart = sok.Variable(np.ones([2, 4], np.float32), name=kinds.table.saved_name, collections=["mine"])
        session.run([kinds.initializer, apart.initializer])
        session.run(saver.dump_to_file(apart, str(tmp_path / "alone")))
        session.run(saver.dump_to_file(tables[1], str(tmp_path / "alone")))
        for restore in early:
            with pytest.raises(tf.errors.NotFoundError, match="'(goods|kinds)' on rank 0: .*(goods|kinds)_keys.file"):
                session.run(restore)
        tf.train.Saver([tables[1]]).save(session, str(tmp_path / "served"))
        with pytest.raises(CheckpointError, match="no table 'goods' in .*it has tower/a_shared_embedding/"):
            sok.serving.export_saved_model(str(tmp_path / "1"), str(tmp_path / "served"), inputs={"ids": ids}, outputs={
                "rows": layers[0]})


@pytest.mark.parametrize("ranks", [0, 2])
def test_checkpoints_of_when_the_first_column_named_it_are_restored(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_shared_columns.py"), tmp_path, timeout=200)
    assert finished.out.count(" ok") == 4 * max(1, ranks), str(finished)
