"""What one rank alone has saved by TensorFlow's Savers says so: also where all of a table's keys are one rank's of
several, it is known to be whole."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files.reading import Wanted
from sok1x.checkpoint.savers import one_rank
from sok1x.checkpoint.session.tables import tables_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "program_strides.py")
KEYS = np.arange(20) * 8


@pytest.mark.parametrize("ranks", [1, 2])
def test_keys_that_are_all_one_ranks_restore_on_any_number_of_ranks(ranks, tmp_path, seed):
    ways = run_ranks(1, PROGRAM, tmp_path, "save", seed).out.count("save of")
    assert ways == len(os.listdir(str(tmp_path))) > 5
    assert run_ranks(ranks, PROGRAM, tmp_path, "restore", seed).out.count("restore of") == ranks * ways


def test_the_shard_of_a_rank_that_runs_the_savers_op_itself_is_no_whole_table(tmp_path):
    program = os.path.join(HERE, "program_save_op.py")
    assert run_ranks(2, program, tmp_path, "save").out.count("ok") == 2
    assert tf.train.load_variable(str(tmp_path / "40-rank1"), one_rank.RANKS) == 2
    for ranks in (2, 1):
        assert run_ranks(ranks, program, tmp_path, "restore").out.count("ok") == ranks
    with pytest.raises(MismatchError, match="one of 2 ranks"):
        sok.serving.export_saved_model(str(tmp_path / "1"), str(tmp_path / "40-rank0"), unseen=0.0)


class Model:
    """A table and a slot of it, and a dense variable."""

    def __init__(self):
        layer = sok.All2AllDenseEmbedding(40, 4, 1, 1)
        self.table = layer.embedding_variable
        self.weights = tf.get_variable("weights", [2], initializer=tf.ones_initializer(), use_resource=True)
        rows = layer(KEYS.reshape(-1, 1, 1), training=True)
        self.step = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows ** 2) * tf.reduce_sum(self.weights))
        self.read = layer(KEYS.reshape(-1, 1, 1), training=False)
        self.start = [sok.Init(global_batch_size=1), tf.global_variables_initializer()]

    def session(self):
        session = tf.Session()
        for op in self.start:
            session.run(op)
        return session


def names_in(prefix):
    return {name for name, _ in tf.train.list_variables(prefix)}


def without_word(prefix, to, **others):
    """The checkpoint as an earlier sok1x has saved it: all but the word, by TensorFlow alone; `others` besides."""
    reader = tf.train.load_checkpoint(prefix)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = {name: tf.Variable(reader.get_tensor(name)) for name in names_in(prefix) - {one_rank.RANKS}}
        variables.update((name, tf.Variable(value)) for name, value in others.items())
        session.run(tf.global_variables_initializer())
        return tf.train.Saver(variables).save(session, to)


def test_each_saver_restores_what_says_so_and_what_does_not(tmp_path):
    with tf.Graph().as_default():
        model = Model()
        savers = [tf.train.Saver(), tf.train.Saver(sharded=True), tf.train.Saver(restore_sequentially=True),
                  tf.train.Saver({variable.op.name: variable for variable in tf.global_variables()})]
        dense, rows = tf.train.Saver([model.weights]), tf.train.Saver([model.table])
        with model.session() as session:
            session.run(model.step)
            expected = session.run(model.read)
            all_names = {variable.op.name for variable in tf.global_variables()}
            prefixes = [saver.save(session, str(tmp_path / str(number))) for number, saver in enumerate(savers)]
            for prefix in prefixes:
                assert names_in(prefix) == all_names | {one_rank.RANKS}
                assert tf.train.load_variable(prefix, one_rank.RANKS) == 1
            assert names_in(dense.save(session, str(tmp_path / "dense"))) == {"weights"}
            assert one_rank.RANKS in names_in(rows.save(session, str(tmp_path / "rows")))
            prefixes += [without_word(prefix, prefix + "_old") for prefix in prefixes]
            for prefix in prefixes:
                for saver in savers:
                    session.run(model.step)
                    assert np.abs(session.run(model.read) - expected).min() > 0
                    saver.restore(session, prefix)
                    np.testing.assert_array_equal(session.run(model.read), expected)


def test_a_meta_graph_and_a_saved_model_say_so_too(tmp_path):
    with tf.Graph().as_default():
        model = Model()
        with model.session() as session:
            session.run(model.step)
            expected = session.run(model.read)
            prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
            tf.saved_model.simple_save(session, str(tmp_path / "exported"),
                                       {"unused": tf.placeholder(tf.float32, [])}, {"read": tf.identity(model.read)})
            read = model.read.name
    assert one_rank.RANKS in names_in(str(tmp_path / "exported" / "variables" / "variables"))
    old = without_word(prefix, str(tmp_path / "old"))
    for number, where in enumerate((prefix, old)):
        with tf.Graph().as_default(), tf.Session() as session:
            imported = tf.train.import_meta_graph(prefix + ".meta")
            session.run(sok.Init(global_batch_size=1))
            imported.restore(session, where)
            np.testing.assert_array_equal(session.run(read), expected)
            assert one_rank.RANKS in names_in(imported.save(session, str(tmp_path / "again{}".format(number))))
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(global_batch_size=1))
        loaded = tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "exported"))
        name = loaded.signature_def["serving_default"].outputs["read"].name
        np.testing.assert_array_equal(session.run(name), expected)


def test_without_the_word_both_possibilities_are_told(tmp_path):
    with tf.Graph().as_default():
        model = Model()
        with model.session() as session:
            session.run(model.step)
            prefix = tf.train.Saver().save(session, str(tmp_path / "new"))
            old = without_word(prefix, str(tmp_path / "old"))
        table, = tables_of(model.table.graph)
        wanted = Wanted(4, 40, True, "int64", {"rows": ("float32", (4,)), "stamps": ("int64", ()),
                                               "slot:EmbeddingVariable/Adagrad": ("float32", (4,))})
        sources = [one_rank.OneRankSource(path, table, 0, 2, wanted) for path in (prefix, old)]
    sources[0].check()
    assert sources[0].total == len(KEYS)
    with pytest.raises(MismatchError, match=(
            "All 20 keys of table 'EmbeddingVariable' in .*old belong to rank 0 of 2, .* does not say .* If one rank "
            "alone has saved it, .* on one rank, .* If several ranks of sok1x 0.1 have saved over each other's files")):
        sources[1].check()
