"""Models whose dense variables a partitioner has cut, as canned Estimators', are exported; and what an export holds."""
import os

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import sok1x as sok
from sok1x.checkpoint.errors import MismatchError
from sok1x.serving import __main__ as command
from sok1x.serving import parts
from sok1x.serving.readers import Reader

v1 = tf.compat.v1
KEYS = np.array([5, 7, 2 ** 40, -3], np.int64).reshape(-1, 1, 1)


def model(count, use_resource=False):
    """A layer and, behind it, dense variables in so many parts."""
    keys = v1.placeholder(tf.int64, [None, 1, 1], "keys")
    layer = sok.All2AllDenseEmbedding(
        max_vocabulary_size_per_gpu=64, embedding_vec_size=5, slot_num=1, nnz_per_slot=1, name="items")
    vectors = tf.reshape(layer(keys, training=True), [-1, 5])
    partitioner = None if count is None else v1.fixed_size_partitioner(count)
    with v1.variable_scope("tower", partitioner=partitioner, use_resource=use_resource):
        kernel = v1.get_variable("kernel", [5, 3], initializer=v1.random_normal_initializer(seed=1))
        bias = v1.get_variable("bias", [3], initializer=v1.random_normal_initializer(seed=2))
    return {"keys": keys}, {"scores": tf.matmul(vectors, tf.convert_to_tensor(kernel)) + tf.convert_to_tensor(bias)}


def saved(folder, count, use_resource=False):
    """Saves a model of so many parts, marked for serving, and returns what it predicts."""
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs = model(count, use_resource)
        sok.serving.mark_for_serving(inputs, outputs)
        session.run(sok.Init(global_batch_size=1))
        session.run(v1.global_variables_initializer())
        expected = session.run(outputs["scores"], {inputs["keys"]: KEYS})
        sok.CheckpointManager(folder).save(session, 1)
    return expected


def predicted(path, values):
    """{output: value} of an export, which has nothing that releases of TensorFlow before 2.15 do not read."""
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        found = session.run({name: one.name for name, one in signature.outputs.items()},
                            {one.name: values[name] for name, one in signature.inputs.items()})
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        graph_def = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0].graph_def
    functions = [node for function in graph_def.library.function for node in function.node_def]
    assert [node.name for node in list(graph_def.node) + functions if "debug_name" in node.attr] == []
    return found


@pytest.mark.parametrize("saved_in, model_in, use_resource", [
    (1, 1, False), (2, 2, True), (3, 2, False), (2, None, True), (None, 3, False)])
def test_parts_of_dense_variables(tmp_path, saved_in, model_in, use_resource):
    """By a function, of as many parts or others; and by the graph that was saved."""
    expected = saved(str(tmp_path / "saved"), saved_in, use_resource)
    sok.serving.export_saved_model(str(tmp_path / "function"), str(tmp_path / "saved"), lambda: model(model_in))
    assert command.main(["export", str(tmp_path / "saved"), "--to", str(tmp_path / "command")]) == 0
    sok.serving.update_saved_model(str(tmp_path / "function"), str(tmp_path / "updated"))
    for form in ("function", "command", "updated"):
        np.testing.assert_array_equal(predicted(str(tmp_path / form), {"keys": KEYS})["scores"], expected)


def test_an_update_leaves_out_what_an_earlier_export_said_of_variables(tmp_path):
    saved(str(tmp_path / "saved"), 2)
    sok.serving.export_saved_model(str(tmp_path / "old"), str(tmp_path / "saved"), lambda: model(2))
    path = str(tmp_path / "old" / "saved_model.pb")
    with open(path, "rb") as file:
        written = saved_model_pb2.SavedModel.FromString(file.read())
    variables = [node for node in written.meta_graphs[0].graph_def.node if node.op == "VarHandleOp"]
    assert variables
    for node in variables:
        node.attr["debug_name"].s = b"of 2.15"
    with open(path, "wb") as file:
        file.write(written.SerializeToString())
    sok.serving.update_saved_model(str(tmp_path / "old"), str(tmp_path / "new"))
    predicted(str(tmp_path / "new"), {"keys": KEYS})


def test_parts_that_do_not_fit(tmp_path):
    saved(str(tmp_path / "saved"), 2)

    def larger():
        inputs, outputs = model(None)
        with v1.variable_scope("tower", reuse=v1.AUTO_REUSE, partitioner=v1.fixed_size_partitioner(2)):
            other = v1.get_variable("other", [4, 3])
        return inputs, {"scores": outputs["scores"] + tf.reduce_sum(tf.convert_to_tensor(other))}

    with pytest.raises(MismatchError) as raised:
        sok.serving.export_saved_model(str(tmp_path / "model"), str(tmp_path / "saved"), larger)
    words = str(raised.value)
    assert "has no variable 'tower/other/part_0', [2, 3] from [0, 0] on of 'tower/other' [4, 3], which the" in words
    assert "'tower/kernel' [5, 3]" in words and not os.path.exists(str(tmp_path / "model"))


def cut(rows, dtype=tf.float32, collections=None):
    """A model whose only variable, of so many rows, is in two parts."""
    with v1.variable_scope("tower", partitioner=v1.fixed_size_partitioner(2)):
        kernel = v1.get_variable("kernel", [rows, 3], dtype, collections=collections,
                                 initializer=v1.random_normal_initializer(seed=1))
    scale = v1.placeholder(dtype, [])
    return {"scale": scale}, {"scores": scale * tf.reduce_sum(tf.convert_to_tensor(kernel))}


@pytest.mark.parametrize("rows, dtype, words", [
    (6, tf.float32, "has no variable 'tower/kernel/part_0', [3, 3] from [0, 0] on of 'tower/kernel' [6, 3]"),
    (10, tf.float32, "has no variable 'tower/kernel/part_0'"),
    (8, tf.float64, "Variable 'tower/kernel/part_0' is float32 in ")])
def test_a_whole_of_another_shape_or_dtype(tmp_path, rows, dtype, words):
    """Not a piece of it: a model of fewer rows is another model."""
    with tf.Graph().as_default(), v1.Session() as session:
        cut(8)
        session.run(sok.Init(global_batch_size=1))
        session.run(v1.global_variables_initializer())
        sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
    with pytest.raises(MismatchError) as raised:
        sok.serving.export_saved_model(str(tmp_path / "model"), str(tmp_path / "saved"), lambda: cut(rows, dtype))
    assert words in str(raised.value) and not os.path.exists(str(tmp_path / "model"))
    if dtype == tf.float32:  # nor does a restore change anything before it has seen that
        with tf.Graph().as_default(), v1.Session() as session:
            table = sok.Variable(np.ones([3, 2], np.float32), name="items")
            cut(8)
            session.run(v1.global_variables_initializer())
            sok.CheckpointManager(str(tmp_path / "with table")).save(session, 1)
        with tf.Graph().as_default(), v1.Session() as session:
            table = sok.Variable(np.zeros([3, 2], np.float32), name="items")
            cut(rows)
            session.run(v1.global_variables_initializer())
            with pytest.raises(MismatchError, match="variable 'tower/kernel' is float32 .8, 3. in .* and float32"):
                sok.CheckpointManager(str(tmp_path / "with table")).restore(session)
            assert not session.run(table).any()


def test_parts_in_collections_of_ones_own(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs = cut(8)
        session.run(sok.Init(global_batch_size=1))
        session.run(v1.global_variables_initializer())
        expected = session.run(outputs["scores"], {inputs["scale"]: 2.0})
        sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
    sok.serving.export_saved_model(
        str(tmp_path / "model"), str(tmp_path / "saved"), lambda: cut(8, collections=["mine"]))
    np.testing.assert_array_equal(predicted(str(tmp_path / "model"), {"scale": np.float32(2)})["scores"], expected)


def test_a_part_takes_no_more_memory_than_it_has_bytes(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = v1.get_variable("kernel", [64, 5], partitioner=v1.fixed_size_partitioner(4),
                                 initializer=v1.random_normal_initializer(seed=1))
        session.run(sok.Init(global_batch_size=1))
        session.run(v1.global_variables_initializer())
        expected = session.run(tf.convert_to_tensor(kernel))
        prefix = v1.train.Saver().save(session, str(tmp_path / "saved"))
        found = parts.of_graph(tf.compat.v1.get_default_graph())
    reader = Reader(prefix)
    assert [parts.shape_of(reader, name, part) for name, part in found.items()] == [[16, 5]] * 4
    for number, (name, part) in enumerate(found.items()):
        value = parts.read(reader, name, part)
        np.testing.assert_array_equal(value, expected[16 * number:16 * number + 16])
        assert value.base is None or value.base.nbytes == value.nbytes


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no Estimators")
@pytest.mark.parametrize("canned", ["DNNClassifier", "LinearClassifier"])
def test_canned_estimators(tmp_path, canned):
    cities = np.array([["Rome"], ["Oslo"], ["Bonn"], ["Nice"]])

    def input_fn():
        return tf.data.Dataset.from_tensors(({"city": cities}, [[1], [0], [1], [0]])).repeat(4)

    categories = tf.feature_column.categorical_column_with_hash_bucket("city", 100)
    columns = [sok.feature_column.embedding_column(categories, 4)]
    optimizer = sok.DistributedOptimizer(v1.train.AdagradOptimizer(.1), average=False)
    kinds = tf.compat.v1.estimator
    if canned == "DNNClassifier":
        estimator = kinds.DNNClassifier([4], columns, model_dir=str(tmp_path / "saved"), optimizer=optimizer,
                                        input_layer_partitioner=v1.fixed_size_partitioner(2))
    else:
        estimator = kinds.LinearClassifier(columns, model_dir=str(tmp_path / "saved"), optimizer=optimizer,
                                           partitioner=v1.fixed_size_partitioner(2))
    estimator.train(input_fn)
    expected = [one["probabilities"] for one in estimator.predict(lambda: input_fn().take(1))]

    def served():
        city = v1.placeholder(tf.string, [None, 1])
        spec = estimator._call_model_fn({"city": city}, None, kinds.ModeKeys.PREDICT, estimator.config)
        return {"city": city}, {"probabilities": spec.predictions["probabilities"]}

    sok.serving.export_saved_model(str(tmp_path / "model"), str(tmp_path / "saved"), served)
    np.testing.assert_array_equal(predicted(str(tmp_path / "model"), {"city": cities})["probabilities"], expected)
