"""Checkpoints that were written before layers' names were in tables' names: former_model.py says how."""
import json
import os
import tarfile

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from former_model import BATCHES, Model

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import former_names

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def before(tmp_path):
    with tarfile.open(os.path.join(HERE, "before_names.tar.gz")) as archive:
        archive.extractall(str(tmp_path))
    return tmp_path


def assert_trained(rows, expected):
    """Rows after a step by TensorFlow's Adam, which rounds otherwise on other processors, and in TensorFlow 2."""
    assert [(place, sorted(table)) for place, table in sorted(rows.items())] == [
        (place, sorted(table)) for place, table in sorted(expected.items())]
    for place, table in rows.items():
        for key, row in table.items():
            np.testing.assert_allclose(row, expected[place][key], rtol=1e-5, atol=1e-7)


def assert_kept(session, before):
    """All that a step takes besides rows has the bits that TensorFlow's own reader finds in the checkpoint."""
    saved, variables = tf.train.load_checkpoint(str(before / "alone/model.ckpt")), {
        variable.op.name: variable for variable in tf.global_variables()}
    for name in ("train/beta1_power", "train/beta2_power"):
        assert session.run(variables[name]) == saved.get_tensor(name), name
    for former, name in (("EmbeddingVariable", "ads/EmbeddingVariable"),
                         ("EmbeddingVariable_1", "users/of/EmbeddingVariable"),
                         ("EmbeddingVariable_2", "EmbeddingVariable_2")):
        used = saved.get_tensor(former + "/count")
        assert used > 0 and session.run(variables[name + "/count"]) == used
        for slot in ("Adam", "Adam_1"):
            wanted = saved.get_tensor("train/{}/{}".format(former, slot))[:used]
            assert wanted.any()
            np.testing.assert_array_equal(session.run(variables["train/{}/{}".format(name, slot)])[:used], wanted)


def test_all_of_it_is_restored_to_the_bit(before):
    """Rows, keys, slots, dense variables: so the next step is what it would have been."""
    expected = json.loads((before / "expected.json").read_text())
    trained = []
    for way in ("manager", "saver of the folder", "saver of one rank"):
        with tf.Graph().as_default(), tf.Session() as session:
            init, model = sok.Init(global_batch_size=3), Model()
            assert [table.op.name for table in model.tables] == [
                "ads/EmbeddingVariable", "users/of/EmbeddingVariable", "EmbeddingVariable_2"]
            assert [table.m_var_name for table in model.tables] == [
                "EmbeddingVariable", "EmbeddingVariable_1", "EmbeddingVariable_2"]
            saver, manager = tf.train.Saver(), sok.CheckpointManager(str(before / "whole"))
            again = sok.CheckpointManager(str(before / way))
            session.run(init)
            if way == "manager":
                assert manager.restore(session) == 3
            else:
                saver.restore(session, str(before / ("whole/model.ckpt-3" if "folder" in way else "alone/model.ckpt")))
            assert model.rows(session) == expected["saved"], way
            assert session.run(tf.train.get_global_step()) == 2
            assert_kept(session, before)
            again.save(session, 5)
            model.train(session, BATCHES[2:])
            trained.append(model.rows(session))
            assert_trained(trained[-1], expected["next"])
            session.run(tf.global_variables_initializer())
            assert again.restore(session) == 5 and model.rows(session) == expected["saved"]  # under the new names
            assert_kept(session, before)
            model.train(session, BATCHES[2:])
            trained.append(model.rows(session))
            assert_trained(trained[-1], expected["next"])
    assert all(rows == trained[0] for rows in trained)


def test_a_table_that_is_there_under_neither_name(before):
    with tf.Graph().as_default(), tf.Session() as session:
        init = sok.Init(global_batch_size=3)
        for name in ("ads", "users/of", None, "more"):
            sok.All2AllDenseEmbedding(40, 2, 2, 1, name=name)
        saver, manager = tf.train.Saver(), sok.CheckpointManager(str(before / "whole"))
        session.run(init)
        with pytest.raises(CheckpointError, match="no table 'more/EmbeddingVariable'.* has EmbeddingVariable, "):
            manager.restore(session)
        with pytest.raises(CheckpointError, match="no variable 'more/EmbeddingVariable'"):
            saver.restore(session, str(before / "alone/model.ckpt"))


def test_what_a_former_name_is():
    class Given:
        graph = tf.Graph()

        def __init__(self, name, saved_name):
            self.table = type("Table", (), {"name": name, "saved_name": saved_name})
            self.graph.add_to_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES, self)

    tables = [Given("ads/EmbeddingVariable", "EmbeddingVariable"), Given("EmbeddingVariable_1", "EmbeddingVariable_1"),
              Given("ads/EmbeddingVariable_1", "EmbeddingVariable_2"),
              Given("ab", "tower/a_shared_embedding"), Given("cd", "tower/c_shared_embedding"),
              Given("tower/c_shared_embedding", "tower/c_shared_embedding"),
              Given("ads", "tower/ads_shared_embedding"), Given("ab/EmbeddingVariable", "ab/EmbeddingVariable")]
    for name, then in (("ads/EmbeddingVariable", "EmbeddingVariable"),
                       ("slot:ads/EmbeddingVariable/Adam", "slot:EmbeddingVariable/Adam"),
                       ("training/Adam/ads/EmbeddingVariable_1/m", "training/Adam/EmbeddingVariable_2/m"),
                       ("EmbeddingVariable_1/steps", "EmbeddingVariable_1/steps"),
                       ("ads/steps", "tower/ads_shared_embedding/steps"), ("ab/EmbeddingVariable/steps",) * 2,
                       ("slot:lab/ab/m", "slot:lab/tower/a_shared_embedding/m"), ("lab/m", "lab/m"), ("cd/m", "cd/m"),
                       ("loads/EmbeddingVariable", "loads/EmbeddingVariable"), ("rows", "rows")):
        assert former_names.former(name, tables) == then


def test_a_model_exported_for_serving(before):
    """Tables of a checkpoint under former names, by a function that builds the model as it is called now."""
    keys = np.array([[1, 5], [-3, 6], [9, 1000]], np.int64)

    def model():
        made = Model()
        vectors = [layer(made.keys[..., tf.newaxis], training=False) for layer in made.layers]
        return {"keys": made.keys}, {str(place): one for place, one in enumerate(vectors)}

    for way, path in (("folder", before / "whole"), ("saver of one rank", before / "alone/model.ckpt")):
        with tf.Graph().as_default(), tf.Session() as session:
            inputs, outputs = model()
            session.run(sok.Init(global_batch_size=3))
            tf.train.Saver().restore(session, str(before / "whole/model.ckpt-3" if way == "folder" else path))
            expected = session.run(outputs, {inputs["keys"]: keys})
        served = sok.serving.export_saved_model(str(before / way / "1"), str(path), model)
        with tf.Graph().as_default(), tf.Session() as session:
            found = tf.saved_model.load(session, ["serve"], served).signature_def["serving_default"]
            predicted = session.run({name: one.name for name, one in found.outputs.items()},
                                    {found.inputs["keys"].name: keys})
        for place, rows in expected.items():
            np.testing.assert_array_equal(predicted[place], rows, err_msg=way + place)
            assert len(np.unique(rows)) > 4
        tables = json.loads((before / way / "1" / "assets.extra" / "sok1x_tables.json").read_text())["tables"]
        assert sorted(tables) == ["EmbeddingVariable_2", "ads/EmbeddingVariable", "users/of/EmbeddingVariable"]
