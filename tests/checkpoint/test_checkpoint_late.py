"""CheckpointManager in a graph that gets variables after it, as Keras' does."""
import contextlib
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session import manager as managers

KEYS = np.arange(24).reshape(8, 3, 1) % 5


@contextlib.contextmanager
def keras_model():
    """A compiled model, whose optimizer has made no slots, and its session."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.keras.backend.set_session(session)
        try:
            yield compiled(), session
        finally:
            tf.keras.backend.set_session(None)


def compiled():
    layer = sok.All2AllDenseEmbedding(64, 4, 3, 1, name="emb")
    keys = tf.keras.Input([3, 1], dtype=tf.int64)
    found = tf.keras.layers.Reshape([12])(layer(keys))
    model = tf.keras.Model(keys, tf.keras.layers.Dense(1, kernel_initializer="ones")(found))
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.Adagrad(0.3), average=False), "mse")
    return model


def fitted(model):
    model.fit(KEYS, np.ones([8, 1]), epochs=3, verbose=0)
    return model.predict(KEYS)


def test_slots_that_keras_makes_after_the_manager(tmp_path):
    """Saved with what Keras makes as it first trains; restored, after one batch, a run goes on as if unbroken."""
    sok.init()
    with keras_model() as (model, session):
        manager = sok.CheckpointManager(str(tmp_path))
        fitted(model)
        manager.save(session, 3)
        expected = fitted(model)
    with keras_model() as (model, session):
        manager = sok.CheckpointManager(str(tmp_path))
        with mock.patch.object(tf.logging, "warning") as warning:
            assert manager.restore(session) == 3  # too early, which is told once
            assert manager.restore(session) == 3
        told, = [call[0][0] % call[0][1:] for call in warning.call_args_list]
        assert "slots that this graph has no variables for (" in told and "train_on_batch" in told, told
        model.train_on_batch(KEYS[::-1] + 1, np.zeros([8, 1]))
        with mock.patch.object(tf.logging, "warning") as warning:
            assert manager.restore(session) == 3
        assert not warning.called
        np.testing.assert_array_equal(fitted(model), expected)


def test_a_table_and_variables_after_the_manager(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        one = sok.Variable(np.ones([4, 2], np.float32), name="one")
        manager = sok.CheckpointManager(str(tmp_path))
        other = sok.Variable(np.ones([3, 2], np.float32), name="other")
        weights = tf.get_variable("weights", [2], initializer=tf.ones_initializer())
        loss = tf.reduce_sum((sok.all2all_dense_embedding(one, tf.constant([1])) +
                              sok.all2all_dense_embedding(other, tf.constant([2]))) * weights)
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        everything = [variable for variable in tf.global_variables() if variable is not one and variable is not other]
        everything += [sok.all2all_dense_embedding(table, tf.range(3)) for table in (one, other)]
        session.run(tf.global_variables_initializer())
        session.run(step)
        manager.save(session, 1)
        saved = session.run(everything)
        assert any((values != 1).any() for values in saved[-1:])
        session.run(step)
        assert manager.restore(session) == 1
        for now, then in zip(session.run(everything), saved):
            np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("kind", ["table", "slots", "variables"])
def test_what_comes_after_the_manager_in_a_finalized_graph(tmp_path, kind):
    """A table, or slots, would be missing; of a hook's own variables it is told."""
    sok.init()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        table = sok.Variable([[1.0, 2.0]], name="table")
        rows = sok.all2all_dense_embedding(table, tf.constant([0]))
        manager = sok.CheckpointManager(str(tmp_path))
        for number in range(managers._FEW + 2):
            tf.get_variable("late_{}".format(number), [])
        if kind == "table":
            sok.Variable([[1.0, 2.0]], name="another")
        elif kind == "slots":
            tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
        session.run(tf.global_variables_initializer())
        graph.finalize()
        if kind != "variables":
            for call in (lambda: manager.save(session, 1), lambda: manager.restore(session)):
                with pytest.raises(CheckpointError, match=r"made after the manager in a graph that is finalized \(.*"
                                                          r"late_0.* and \d+ more\), expected none of a table"):
                    call()
            return
        with mock.patch.object(tf.logging, "warning") as warning:
            manager.save(session, 1)
            assert manager.restore(session) == 1
        told, = [call[0][0] % call[0][1:] for call in warning.call_args_list]
        assert "in none of its checkpoints: late_0, late_1, late_2, late_3, late_4 and 2 more" in told, told


def test_a_save_inside_of_the_look_that_a_save_takes(tmp_path, monkeypatch):
    """As by the handler of a signal that comes then."""
    sok.init()
    stock, inside = managers.are_all_of, []
    with tf.Graph().as_default(), tf.Session() as session:
        manager = sok.CheckpointManager(str(tmp_path))
        late = sok.Variable([[1.0, 2.0]], name="table")
        session.run(tf.global_variables_initializer())

        def are_all_of(*given):
            if not inside:
                inside.append(True)
                manager.save(session, 2)
            return stock(*given)

        monkeypatch.setattr(managers, "are_all_of", are_all_of)
        manager.save(session, 1)
        session.run(late.assign([[0.0, 0.0]]))
        for step in 1, 2:
            assert manager.restore(session, step) == step
            assert session.run(late).tolist() == [[1.0, 2.0]]
