"""What a killed `sok.Saver().dump_to_file` leaves, and the next one removes."""
import fcntl
import os

import tensorflow.compat.v1 as tf
from test_sok1x_saver import Model, content

import sok1x as sok
from sok1x.graph_ops.transfer import sok_written


def test_what_killed_dumps_have_left_is_removed(tmp_path):
    """Not what a dump still writes, or may: of its files one is locked, or has no bytes yet."""
    name, model = "EmbeddingVariable_{}.file.{:014x}.{}", Model(tmp_path)
    for what, token, kind in (("keys", 1, "tmp"), ("values", 1, "tmp"), ("keys", 1, "old"), ("values", 2, "old"),
                              ("keys", 3, "tmp"), ("keys", 3, "old"), ("keys", 4, "tmp"), ("keys", 2 ** 60, "tmp")):
        (tmp_path / name.format(what, token, kind)).write_text("" if token == 4 else "x")
    (tmp_path / ("X" + name.format("keys", 1, "tmp"))).write_text("x")
    with open(str(tmp_path / name.format("keys", 3, "tmp"))) as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        model.run(model.dump)
    assert sorted(os.listdir(str(tmp_path))) == sorted(
        ["EmbeddingVariable_keys.file", "EmbeddingVariable_values.file", "X" + name.format("keys", 1, "tmp"),
         name.format("keys", 3, "tmp"), name.format("keys", 3, "old"), name.format("keys", 4, "tmp"),
         name.format("keys", 2 ** 60, "tmp")])


def test_what_a_dump_writes_no_other_removes(tmp_path, monkeypatch):
    model, real, seen = Model(tmp_path), os.pwrite, []
    model.insert([1, 2])

    def pwrite(*arguments):
        for file in sorted(os.listdir(str(tmp_path))):
            seen.append(file)
            sok_written.remove_dead(str(tmp_path / file))
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", pwrite)
    model.run(model.dump)
    assert len(seen) == 4 and len(content(tmp_path)[0]) == 2 and len(os.listdir(str(tmp_path))) == 2


def test_a_table_of_a_variable_scope_is_in_a_folder_of_its_name(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("ads"):
            table = sok.deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
        assert table.table.name == "ads/items"
        saver, keys = sok.Saver(), tf.constant([7, 8], tf.int64)
        rows = sok.all2all_dense_embedding(table, keys)
        dump, restore = saver.dump_to_file(table, str(tmp_path)), saver.restore_from_file(table, str(tmp_path))
        session.run(tf.global_variables_initializer())
        session.run(rows)
        for _ in range(2):
            session.run(dump)
            (tmp_path / "ads" / "items_keys.file.{:014x}.tmp".format(1)).write_text("x")  # as a killed one leaves
        session.run(dump)
        assert sorted(os.listdir(str(tmp_path / "ads"))) == ["items_keys.file", "items_values.file"]
        session.run(tf.global_variables_initializer())
        session.run(restore)
        assert session.run(table.size)[0] == 2


def test_a_layers_table_is_called_as_its_kit_does(tmp_path):
    """No folder of the layer's name is made: no file would be in it."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        layer = sok.All2AllDenseEmbedding(8, 2, 1, 1, name="deep")
        assert layer.embedding_variable.table.name.startswith("deep/")
        dump = sok.Saver().dump_to_file(layer.embedding_variable, str(tmp_path / "x"))
        session.run(tf.global_variables_initializer())
        session.run(dump)
    assert sorted(os.listdir(str(tmp_path / "x"))) == ["EmbeddingVariable_keys.file", "EmbeddingVariable_values.file"]
