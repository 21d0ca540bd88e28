"""Tables that grow whose rows begin as given ones: what these are given by belongs to the table."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint import CheckpointError

KEYS = list(range(1, 8))


class Model:
    """A table of two rows at first, which grows when KEYS are looked up."""

    def __init__(self, seed, initializer=None):
        self.given = np.random.RandomState(seed).randn(3, 2).astype(np.float32)
        self.table = sok.DynamicVariable(dimension=2, initializer=self.given if initializer is None else initializer,
                                         init_capacity=2, name="given")
        self.keys = tf.placeholder(tf.int64, [None])
        self.rows = sok.all2all_dense_embedding(self.table, self.keys)

    def check(self, session):
        """Keys come in order, so that key k has row k - 1."""
        for some in (KEYS[:2], KEYS):
            np.testing.assert_array_equal(session.run(self.rows, {self.keys: some}),
                                          self.given[np.arange(len(some)) % 3])


@pytest.mark.parametrize("initialize", [
    lambda table: table.initializer, lambda table: tf.variables_initializer([table]),
    lambda _: tf.global_variables_initializer()])
def test_a_tables_initializer_gives_all_that_new_rows_begin_with(graph, seed, initialize):
    model = Model(seed)
    init, report = initialize(model.table), tf.report_uninitialized_variables()
    with tf.Session() as session:
        session.run(init)
        assert not len(session.run(report))
        model.check(session)


@pytest.mark.parametrize("how", ["nothing", "initializer", "all"])
def test_a_restore_needs_no_initializers(tmp_path, seed, how):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(seed)
        session.run(tf.global_variables_initializer())
        session.run(model.rows, {model.keys: KEYS[:2]})
        sok.CheckpointManager(str(tmp_path)).save(session, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(seed)
        if how != "nothing":
            session.run(model.table.initializer if how == "initializer" else tf.global_variables_initializer())
        sok.CheckpointManager(str(tmp_path)).restore(session)
        model.check(session)


def test_a_checkpoint_has_the_rows_for_whoever_serves_it_and_gives_them_to_nobody(tmp_path, seed):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(seed)
        session.run(tf.global_variables_initializer())
        session.run(model.rows, {model.keys: KEYS[:2]})
        folder = sok.CheckpointManager(str(tmp_path)).save(session, 1)
    np.testing.assert_array_equal(tf.train.load_variable(os.path.join(folder, "model.ckpt-1"), "given/start"),
                                  model.given)
    saved = model.given
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(seed + 1)
        sok.CheckpointManager(str(tmp_path)).restore(session)
        expected = model.given[np.arange(len(KEYS)) % 3]
        expected[:2] = saved[:2]
        np.testing.assert_array_equal(session.run(model.rows, {model.keys: KEYS}), expected)


def test_a_table_without_them_does_not_grow(graph, seed):
    model = Model(seed)
    with tf.Session() as session:
        session.run([model.table._initializer_op] + [
            variable.initializer for variable in [*model.table.index, model.table.stamps, model.table.steps]])
        session.run(model.rows, {model.keys: KEYS[:2]})
        with pytest.raises(tf.errors.FailedPreconditionError, match="'given/start' has no value"):
            session.run(model.rows, {model.keys: KEYS})
        session.run(model.table.start.initializer)
        model.check(session)


def test_a_table_without_them_is_not_loaded(graph, seed, tmp_path):
    """What comes after the last key would have nothing to begin with: known before the rows are replaced."""
    model, folder = Model(seed), str(tmp_path / "dump")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(model.rows, {model.keys: KEYS[:1]})
        sok.dump(folder, model.table)
    with tf.Session() as session:
        session.run([model.table._initializer_op] + [
            variable.initializer for variable in [*model.table.index, model.table.stamps, model.table.steps]])
        session.run(model.rows, {model.keys: KEYS[:2]})
        before = session.run([model.table, *model.table.index])
        with pytest.raises(CheckpointError, match="'given/start' has no value"):
            sok.load(folder, model.table)
        for one, other in zip(before, session.run([model.table, *model.table.index])):
            np.testing.assert_array_equal(one, other)
        session.run(model.table.start.initializer)
        sok.load(folder, model.table)
        model.check(session)


def test_no_rows_at_all_are_an_error(graph, seed):
    Model(seed, tf.placeholder_with_default(np.zeros([0, 2], np.float32), [None, 2]))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 2\]"):
        session.run(tf.global_variables_initializer())
