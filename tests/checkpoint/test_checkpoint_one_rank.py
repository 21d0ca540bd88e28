"""TensorFlow's Savers on one rank: as ever; what belongs to other ranks is refused; relative folders."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files.reading import Wanted
from sok1x.checkpoint.savers import one_rank
from sok1x.checkpoint.session.tables import tables_of

KEYS = np.array([5, -3, 8, 2 ** 40, 11, 4])


class Model:
    """A table, trained by Adagrad, and a dense variable."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            layer = sok.All2AllDenseEmbedding(10, 4, 1, 1)
            self.table = layer.embedding_variable
            self.number = tf.train.get_or_create_global_step()
            self.weights = tf.get_variable("weights", [2], initializer=tf.ones_initializer())
            rows = layer(KEYS.reshape(-1, 1, 1), training=True)
            self.step = tf.train.AdagradOptimizer(0.1).minimize(
                tf.reduce_sum(rows ** 2) * tf.reduce_sum(self.weights), self.number)
            self.read = layer(KEYS.reshape(-1, 1, 1), training=False)

    def session(self):
        session = tf.Session(graph=self.graph)
        with self.graph.as_default():
            session.run(sok.Init(global_batch_size=1))
            session.run(tf.global_variables_initializer())
        return session

    def saver(self, *arguments):
        with self.graph.as_default():
            return tf.train.Saver(*arguments)


def trained(steps=3):
    model = Model()
    session = model.session()
    for _ in range(steps):
        session.run(model.step)
    return model, session, session.run(model.read)


def test_a_saver_writes_all_variables_and_of_a_tables_rows_their_keys_too(tmp_path):
    model, session, expected = trained()
    prefix = model.saver().save(session, str(tmp_path / "all"))
    assert {name for name, _ in tf.train.list_variables(prefix)} == {
        variable.op.name for variable in model.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)} | {one_rank.RANKS}
    prefix = str(tmp_path / "rows")
    model.saver([model.table]).save(session, prefix)
    other = Model()
    with other.session() as restored:
        other.saver([other.table]).restore(restored, prefix)
        np.testing.assert_array_equal(restored.run(other.read), expected)


def test_what_belongs_to_other_ranks_is_refused(tmp_path):
    model, session, _ = trained()
    reader = tf.train.load_checkpoint(model.saver().save(session, str(tmp_path / "whole")))
    before = session.run(model.read)
    with tf.Graph().as_default(), tf.Session() as other:
        values = {name: tf.Variable(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
        values[one_rank.MARK] = tf.Variable(np.array([1, 2]))
        other.run(tf.global_variables_initializer())
        tf.train.Saver(values).save(other, str(tmp_path / "shard"))
    with pytest.raises(MismatchError, match="rank 1 of 2"):
        model.saver().restore(session, str(tmp_path / "shard"))
    with tf.Graph().as_default(), tf.Session() as other:
        rows = tf.Variable(reader.get_tensor("EmbeddingVariable"))
        other.run(rows.initializer)
        tf.train.Saver({"EmbeddingVariable": rows}).save(other, str(tmp_path / "stock"))
    not_ours = "and not 'EmbeddingVariable/stamps'.*not saved by sok1x.*load_checkpoint.*sok.assign"
    with pytest.raises(MismatchError, match=not_ours):
        model.saver().restore(session, str(tmp_path / "stock"))
    np.testing.assert_array_equal(session.run(model.read), before)

    # Several ranks that restore one rank's whole run, and what one of two ranks left where both had saved.
    with model.graph.as_default():
        table, = tables_of(model.graph)
    parts = {"rows": ("float32", (4,)), "stamps": ("int64", ()), "slot:EmbeddingVariable/Adagrad": ("float32", (4,))}
    wanted = Wanted(4, 10, True, "int64", parts)
    with pytest.raises(MismatchError, match=not_ours):
        one_rank.OneRankSource(str(tmp_path / "stock"), table, 0, 2, wanted).check()
    found = []
    for rank in range(2):
        source = one_rank.OneRankSource(str(tmp_path / "whole"), table, rank, 2, wanted)
        source.check()
        for keys, values in source.chunks():
            assert (keys % 2 == rank).all() and set(values) == set(parts)
            rows = {key: row for key, row in zip(KEYS, before[:, 0, 0])}
            np.testing.assert_array_equal(values["rows"], [rows[key] for key in keys])
            found.extend(keys)
    assert sorted(found) == sorted(KEYS)
    one_rank._TELLING, telling = 3, one_rank._TELLING
    try:
        with tf.Graph().as_default(), tf.Session() as other:
            values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
            values["EmbeddingVariable/index"][:, 0] *= 2
            del values[one_rank.RANKS]  # as sok1x 0.1 has saved it
            variables = {name: tf.Variable(value) for name, value in values.items()}
            other.run(tf.global_variables_initializer())
            tf.train.Saver(variables).save(other, str(tmp_path / "even"))
        source = one_rank.OneRankSource(str(tmp_path / "even"), table, 0, 2, wanted)
        with pytest.raises(MismatchError, match="All 6 keys .* belong to rank 0 of 2"):
            source.check()
    finally:
        one_rank._TELLING = telling


@pytest.mark.parametrize("sokx", [True, False])
def test_the_state_file_of_a_relative_folder_leads_to_a_checkpoint(sokx, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Model()
    with model.graph.as_default():
        options = dict(hooks=[sok.CheckpointSaverHook("saved", save_steps=100)]) if sokx else dict(
            checkpoint_dir="saved", save_checkpoint_steps=100)
        options["hooks"] = [sok.InitHook(), tf.train.StopAtStepHook(last_step=3)] + options.get("hooks", [])
        with tf.train.MonitoredTrainingSession(**options) as session:
            while not session.should_stop():
                session.run(model.step)
    values = []
    for folder in ("saved", os.path.abspath("saved"), "moved"):
        if folder == "moved":
            os.rename("saved", "moved")
        if folder != "moved" or sokx:  # TensorFlow's own Saver writes absolute paths
            latest = tf.train.latest_checkpoint(folder)
            assert latest is not None and latest.endswith("model.ckpt-3") and tf.train.load_variable(
                latest, "global_step") == 3
            other = Model()
            with other.session() as session:
                other.saver().restore(session, latest)
                values.append(session.run(other.read))
    for one in values[1:]:
        np.testing.assert_array_equal(one, values[0])
    assert np.abs(values[0]).min() > 0 and len(values) >= 2


def test_a_table_is_not_started_without_its_keys(tmp_path):
    model, session, _ = trained()
    prefix = model.saver().save(session, str(tmp_path / "model.ckpt-3"), write_state=True)
    other = Model()
    with other.graph.as_default():
        tf.train.init_from_checkpoint(prefix, {"weights": "weights"})
        for name in ("EmbeddingVariable", "not_there"):  # a checkpoint of several ranks has the keys' files elsewhere
            with pytest.raises(ValueError, match="without their keys.*init_fn"):
                tf.train.init_from_checkpoint(prefix, {name: other.table})
        with pytest.raises(ValueError, match="not_there is not found"):
            tf.train.init_from_checkpoint(prefix, {"not_there": "weights"})
        with tf.variable_scope("new"):
            sok.deeprec.get_embedding_variable("ids", 4)
        with pytest.raises(ValueError, match="'new/ids': its rows.*init_fn"):
            tf.train.init_from_checkpoint(prefix, {"not_there/": "new/"})
    for asked in ({"/": "/"}, {"EmbeddingVariable/": "EmbeddingVariable/"}):  # which find slots, and not the table
        with Model().graph.as_default(), pytest.raises(ValueError, match="without their keys.*init_fn"):
            tf.train.init_from_checkpoint(prefix, asked)
    # Of several ranks each has fewer rows than a stock checkpoint: TensorFlow says so of shapes first.
    with tf.Graph().as_default(), tf.Session() as run:
        whole = tf.get_variable("whole", [9, 4])
        run.run(whole.initializer)
        stock = tf.train.Saver([whole]).save(run, str(tmp_path / "stock"), write_state=False)
    with Model().graph.as_default(), pytest.raises(ValueError, match="'own': its rows.*load_checkpoint.*sok.assign"):
        tf.train.init_from_checkpoint(stock, {"whole": sok.Variable(shape=[5, 4], initializer="ones", name="own")})
    for name, words in (("old", "abcdefghi"), ("new", "cba")):
        (tmp_path / name).write_text("\n".join(words))
    vocabulary = tf.train.VocabInfo(str(tmp_path / "new"), 3, 0, str(tmp_path / "old"))
    with tf.Graph().as_default():
        sok.Variable(shape=[3, 4], initializer="ones", name="whole")
        with pytest.raises(ValueError, match="'whole': its rows.*init_fn"):
            tf.train.warm_start(stock, "whole", var_name_to_vocab_info={"whole": vocabulary})
    # Our hook's session would take the dense variables alone from what TensorFlow's Saver has saved.
    with Model().graph.as_default(), pytest.raises(MismatchError, match="has table 'EmbeddingVariable' among"):
        tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), save_checkpoint_secs=None,
            hooks=[sok.InitHook(), sok.CheckpointSaverHook(str(tmp_path), save_steps=10)])


@pytest.mark.parametrize("kind", ["layer", "grows", "forgets", "cached"])
def test_slots_that_a_saver_does_not_hold_begin_anew_and_are_no_other_keys(kind, tmp_path):
    """Adagrad's accumulators, which other keys have made large, when a Saver of the table alone has restored."""
    prefix = str(tmp_path / "rows")

    def model():
        if kind == "layer":
            table = sok.All2AllDenseEmbedding(40, 1, 1, 1, embedding_initializer="ones").embedding_variable
        else:
            table = sok.DynamicVariable(1, "1", name="table", **{
                "grows": {}, "forgets": {"max_capacity": 40}, "cached": {"var_type": "hybrid", "cache_rows": 20}}[kind])
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        optimizer = tf.train.AdagradOptimizer(1.0, initial_accumulator_value=1.0)
        step = optimizer.minimize(tf.reduce_sum(rows))
        session = tf.Session()
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        return session, keys, rows, step, tf.train.Saver([table])

    sok.init()
    with tf.Graph().as_default():
        session, keys, _, step, saver = model()
        with session:
            for _ in range(3):
                session.run(step, {keys: [100, 101, 102]})
            saver.save(session, prefix)
    with tf.Graph().as_default():
        session, keys, rows, step, saver = model()
        with session:
            for _ in range(8):
                session.run(step, {keys: [200, 201, 202, 203]})
            saver.restore(session, prefix)
            asked = {keys: [100, 101, 102, 300, 301]}  # restored ones, and new ones
            before = session.run(rows, asked)
            session.run(step, asked)
            moved = before - session.run(rows, asked)
    np.testing.assert_allclose(moved, np.full([5, 1], 1 / np.sqrt(2)), rtol=1e-5)


def test_slots_that_another_saver_has_restored_before_stay(tmp_path):
    """In a new session the one of slots alone may come first."""
    model, session, _ = trained()
    slots = [variable for variable in model.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
             if variable.op.name.endswith("/Adagrad")]
    assert slots
    for name, variables in (("rows", [model.table]), ("slots", slots)):
        model.saver(variables).save(session, str(tmp_path / name))
    expected = session.run(slots)
    other = Model()
    with other.session() as restored:
        by_name = {variable.name: variable for variable in other.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
        other.saver([by_name[slot.name] for slot in slots]).restore(restored, str(tmp_path / "slots"))
        other.saver([other.table]).restore(restored, str(tmp_path / "rows"))
        for got, value in zip(restored.run([by_name[slot.name] for slot in slots]), expected):
            np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("kind", ["grows", "cached"])
@pytest.mark.parametrize("held", [
    lambda table: [table._graph_element], lambda table: {"table": table._graph_element},
    lambda table: {"table": table.value()}], ids=["list", "dict", "value"])
def test_a_saver_of_a_tensor_that_reads_the_rows_has_their_keys_too(kind, held, tmp_path):
    sok.init()
    with tf.Graph().as_default():
        table = sok.DynamicVariable(1, "1", name="table", **{
            "grows": {}, "cached": {"var_type": "hybrid", "cache_rows": 4}}[kind])
        keys = tf.placeholder(tf.int64, [None])
        step = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(
            sok.all2all_dense_embedding(table, keys)))
        exported, savers = sok.export(table), [tf.train.Saver([table]), tf.train.Saver(held(table))]
        with tf.Session() as session:
            session.run(sok.Init(global_batch_size=1))
            for number, (saves, restores) in enumerate([savers, savers[::-1], savers[1:] * 2]):
                session.run(tf.global_variables_initializer())
                for asked in ([5, 6, 7], [7, 8], [9, 10]):
                    session.run(step, {keys: asked})
                expected = session.run(exported)
                assert len(expected[0]) == 6
                prefix = saves.save(session, str(tmp_path / "model"), global_step=number)
                session.run(tf.global_variables_initializer())
                session.run(step, {keys: [18, 19]})
                restores.restore(session, prefix)
                for got, value in zip(session.run(exported), expected):
                    np.testing.assert_array_equal(got, value)


def test_a_saver_that_reads_a_tables_steps_or_some_of_its_parts_has_each_once(tmp_path):
    model, session, expected = trained()
    with model.graph.as_default():
        beside = {"EmbeddingVariable/" + name: variable.value() for name, variable in zip(
            ("index", "stamps", "steps"), (model.table.index[0], model.table.stamps, model.table.steps))}
        chosen = dict(beside, EmbeddingVariable=model.table)
    for number, var_list in enumerate([chosen, list(chosen.values())]):
        prefix = model.saver(var_list).save(session, str(tmp_path / str(number)))
        assert sorted(name for name, _ in tf.train.list_variables(prefix)) == sorted(
            list(chosen) + ["EmbeddingVariable/count", one_rank.RANKS])
        other = Model()
        with other.session() as restored:
            other.saver([other.table]).restore(restored, prefix)
            np.testing.assert_array_equal(restored.run(other.read), expected)
