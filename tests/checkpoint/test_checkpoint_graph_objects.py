"""tf.train.Checkpoint and Keras' load_weights in graphs, on one rank: what a table's rows were before is void then."""
import datetime
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok

keras = tf.keras


class Model:
    """A table that forgets, in a Keras model, trained by Adagrad of TensorFlow, in Keras' session."""

    def __init__(self, run):
        keras.backend.set_session(run)
        self.session, self.keys = run, keras.Input([1, 1], dtype=tf.int64)
        layer = sok.All2AllDenseEmbedding(None, 2, 1, 1, max_capacity=64, evict_strategy="lru", remember_evicted=32,
                                          embedding_initializer="ones", name="layer")
        rows = layer(self.keys, training=True)
        self.model, self.table = keras.Model(self.keys, rows), layer.embedding_variable
        optimizer = tf.train.AdagradOptimizer(0.1)
        self.step = optimizer.minimize(tf.reduce_sum(rows ** 2))
        self.slot = optimizer.get_slot(self.table, "accumulator")
        self.alone, self.whole = tf.train.Checkpoint(layer=layer), tf.train.Checkpoint(layer=layer, by=optimizer)
        self.saver = tf.train.Saver([self.table, self.alone.save_counter])
        run.run(tf.global_variables_initializer())

    def train(self, *keys):
        self.session.run(self.step, {self.keys: np.reshape(keys, [-1, 1, 1])})

    def rows(self):
        keys, rows = sok.export(self.table, self.session)
        return dict(zip(keys.tolist(), rows.tolist()))

    def slots(self):
        """Of the keys that there are."""
        index, slot = self.session.run([self.table.index[0], self.slot])
        return {key: slot[row].tolist() for key, row in index.tolist() if row >= 0}

    def save(self, how, path):
        if how == "load_weights":
            self.model.save_weights(path)
        elif how == "by name":
            self.saver.save(self.session, path)
        else:
            path = (self.whole if how == "with slots" else self.alone).write(path, session=self.session)
        return path

    def restore(self, how, path):
        if how == "load_weights":
            self.model.load_weights(path)
        elif how == "initialize_or_restore":
            self.alone.restore(path).initialize_or_restore(self.session)
        else:
            (self.whole if how == "with slots" else self.alone).restore(path).run_restore_ops(self.session)


def trained(run, how, folder):
    """(a model that has trained three keys, its rows and slots, where it is saved)."""
    model = Model(run)
    model.train(0, 1, 2)
    return model, model.rows(), model.slots(), model.save(how, str(folder / "saved"))


WAYS = ["run_restore_ops", "initialize_or_restore", "with slots", "load_weights", "by name"]


@pytest.mark.parametrize("how", WAYS)
def test_a_restored_table_is_another(how, tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as run:
        model, saved, slots, path = trained(run, how, tmp_path)
        for _ in range(2):
            model.train(100, 2)
            model.train(101, 102)
        time.sleep(0.3)
        step, before = int(run.run(model.table.steps)), datetime.datetime.utcnow()
        model.restore(how, path)
        assert model.rows() == saved
        begun = slots if how == "with slots" else dict.fromkeys(saved, list(np.float32([0.1, 0.1])))
        assert model.slots() == begun
        assert not sok.evicted_keys(model.table, step, run)[1]
        (keys,), _, (gone,), complete = sok.incremental_model_dump([model.table], before, run, evicted=True)
        assert sorted(keys.tolist()) == [0, 1, 2] and gone.tolist() == [] and complete == [False]
        operations = len(run.graph.get_operations())
        while run.run(model.table.steps) <= step:  # before that it may be any of both histories
            model.train(2)
        time.sleep(0.3)
        before = datetime.datetime.utcnow()
        model.train(1)
        (keys,), _, _, complete = sok.incremental_model_dump([model.table], before, run, evicted=True)
        assert keys.tolist() == [1] and complete == [True]
        assert len(run.graph.get_operations()) == operations


@pytest.mark.parametrize("how", WAYS)
def test_a_new_session_is_restored_as_ever(how, tmp_path):
    """Slots that another Saver has restored stay."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as run:
        model, saved, slots, path = trained(run, how, tmp_path)
        others = tf.train.Checkpoint(slot=model.slot)
        apart = others.write(str(tmp_path / "slots"), session=run)
        with tf.Session() as again:
            keras.backend.set_session(again)
            model.session = again
            others.restore(apart).run_restore_ops(again)
            if how == "by name":
                again.run(model.model.layers[1].embedding_variable.initializer)
            model.restore(how, path)
            assert model.rows() == saved and model.slots() == slots


def test_rows_without_keys_are_as_tensorflow_restores_them(tmp_path):
    """Of a table without a hash table a tf.train.Checkpoint has no more than the rows."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as run:
        table = sok.EmbeddingVariable(rows=8, dim=2, use_hashtable=False, initializer="ones")
        run.run(table.initializer)
        checkpoint = tf.train.Checkpoint(table=table)
        path = checkpoint.write(str(tmp_path / "saved"), session=run)
        run.run(table.assign(2 * table))
        time.sleep(0.3)
        before = datetime.datetime.utcnow()
        checkpoint.restore(path).run_restore_ops(run)
        assert (run.run(table) == 1).all()
        (keys,), _ = sok.incremental_model_dump([table], before, run)
        assert sorted(keys.tolist()) == list(range(8))
        with tf.Session() as again:
            checkpoint.restore(path).run_restore_ops(again)
            assert (again.run(table) == 1).all()
