"""What Keras has of a table in a layer of a user's own: weights, early stopping, files."""
import datetime
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session

import sok1x as sok

keras = tf.keras


class _Kept(keras.layers.Layer):
    """A layer of a user's own, with its table in one of the places where Keras looks for variables."""

    def __init__(self, make, place):
        super().__init__()
        if place == "replaced":
            self.kept = make()
        self.kept = {"list": lambda table: [table], "dict": lambda table: {"of": [table]}}.get(
            place, lambda table: table)(make())

    def table(self):
        return tf.nest.flatten(self.kept)[0]

    def call(self, keys):
        return sok.all2all_dense_embedding(self.table(), tf.reshape(keys, [-1]))


@pytest.mark.parametrize("place", ["attribute", "list", "dict", "replaced"])
@pytest.mark.parametrize("kind", ["room", "evicts"])
def test_weights_of_a_layer_with_a_table_are_whole(kind, place):
    """Of early stopping, too: rows get back to their keys, whatever has come or left since."""
    sok.init()
    first, later = np.arange(40).reshape(-1, 1), np.arange(1000, 1040).reshape(-1, 1)
    wanted = np.repeat(first / 10.0 + 10, 2, axis=1)
    with graph(), session(initialize=False) as run:
        keras.backend.set_session(run)
        options = {"init_capacity": 100} if kind == "room" else {"max_capacity": 48}
        layer = _Kept(lambda: sok.DynamicVariable(dimension=2, initializer="13", **options), place)
        table = layer.table()
        inputs = keras.Input([1], dtype=tf.int64)
        model = keras.Model(inputs, layer(inputs))
        model.compile(getattr(keras.optimizers, "legacy", keras.optimizers).SGD(0.5), "mse")
        beside = [*table.index, table.stamps, table.steps, *table.forgetting.values()]
        assert [one.op.name for one in model.weights] == [one.op.name for one in [table] + beside]
        assert len(model.trainable_weights) == 1
        exported = sok.export(table)

        def by_key():
            keys, rows = run.run(exported)
            return dict(zip(keys.tolist(), map(tuple, rows.tolist())))

        model.fit(first, wanted, batch_size=10, verbose=0, shuffle=False)
        noted, weights = by_key(), model.get_weights()
        assert sorted(noted) == first.ravel().tolist() and len(set(noted.values())) > 10
        model.fit(later, wanted, batch_size=10, verbose=0, shuffle=False)
        assert set(later.ravel()) <= set(by_key())
        model.set_weights(weights)
        made = len(run.graph.get_operations())
        model.set_weights(weights)
        assert by_key() == noted and len(run.graph.get_operations()) == made
        np.testing.assert_array_equal(model.predict(later, batch_size=10), np.full([40, 2], 13.0))

        best = {}
        stops = keras.callbacks.EarlyStopping("loss", patience=1, mode="max", restore_best_weights=True)
        model.fit(np.concatenate([first, later]), np.concatenate([wanted + 100, np.zeros([40, 2])]), epochs=3,
                  verbose=0, shuffle=False, batch_size=10, callbacks=[keras.callbacks.LambdaCallback(
                      on_epoch_end=lambda epoch, logs: best.setdefault(epoch, by_key())), stops])
        # (Of the table that evicts each epoch ends as the one before: keys that come back begin anew.)
        assert len(best) == 2 and (kind == "evicts" or best[0] != best[1]) and by_key() == best[0]


@pytest.mark.parametrize("make", [
    lambda: sok.DynamicVariable(dimension=2, initializer="13", init_capacity=100),
    lambda: sok.DynamicVariable(dimension=2, initializer="13", max_capacity=48),
    lambda: sok.EmbeddingVariable(None, 2, init_capacity=4, initializer=tf.constant_initializer(13.0)),
    lambda: sok.EmbeddingVariable(100, 2, initializer=tf.constant_initializer(13.0))],
                         ids=["room", "evicts", "grows", "fixed"])
def test_rows_that_set_weights_leaves_without_a_key_begin_anew_in_slots(make):
    """Slots of rows that have one are no weights, and stay."""
    sok.init()
    first, later = np.arange(20), np.concatenate([np.arange(10), np.arange(1000, 1040)])
    with graph(), session(initialize=False) as run:
        keras.backend.set_session(run)
        layer = _Kept(make, "attribute")
        table, given = layer.table(), tf.placeholder(tf.int64, [None])
        optimizer = tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.5)
        train = optimizer.minimize(tf.reduce_sum(layer(given) ** 2 + 1), var_list=[table])
        run.run([one.initializer for one in tf.global_variables() if "Adagrad" not in one.name])
        begun = layer.get_weights()
        layer.set_weights(begun)  # while there are no slots
        run.run(tf.global_variables_initializer())
        slot = optimizer.get_slot(table, "accumulator")

        def keys_and_slot():
            index, values = run.run([table.index[0], slot])
            return {row: key for key, row in index[index[:, 1] >= 0].tolist()}, values

        run.run(train, {given: first})
        (had, _), weights = keys_and_slot(), layer.get_weights()
        run.run(train, {given: later[10:]})
        run.run(train, {given: later[:10]})
        then, before = keys_and_slot()
        layer.set_weights(weights)
        now, after = keys_and_slot()
        assert now == had and set(then) - set(now)
        free, taken = np.setdiff1d(np.arange(len(after)), list(now)), list(now)
        assert (before[sorted(set(then) - set(now))] != 0.5).any() and (after[free] == 0.5).all()
        np.testing.assert_array_equal(after[taken], before[taken])
        made = len(run.graph.get_operations())
        run.run(train, {given: later[10:]})  # and each of these has a step of its own
        now, after = keys_and_slot()
        moved = [row for row, key in now.items() if key >= 1000]
        assert len(moved) == 40 and len(np.unique(after[moved])) == 1
        layer.set_weights(weights)
        assert len(run.graph.get_operations()) == made and len(np.unique(keys_and_slot()[1][len(had):])) <= 1

        layer.set_weights(begun)  # from before the first key: what came is forgotten
        run.run(train, {optimizer._learning_rate_tensor: 0.0, given: later[10:]})
        (now, after), rows = keys_and_slot(), run.run(table.value())
        assert sorted(now.values()) == later[10:].tolist() and (rows[list(now)] == 13.0).all()
        assert len(np.unique(after[list(now)])) == 1


def test_weights_are_set_in_a_finalized_graph():
    """Of which Keras has made its ops, by an earlier call, before there were slots."""
    sok.init()
    with graph(), session(initialize=False) as run:
        keras.backend.set_session(run)
        layer, given = _Kept(lambda: sok.EmbeddingVariable(20, 2), "attribute"), tf.placeholder(tf.int64, [None])
        table, loss = layer.table(), tf.reduce_sum(layer(given) ** 2)
        run.run(tf.global_variables_initializer())
        layer.set_weights(layer.get_weights())
        optimizer = tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.5)
        train = optimizer.minimize(loss, var_list=[table])
        slot = optimizer.get_slot(table, "accumulator")
        run.run(slot.initializer)
        weights = layer.get_weights()
        run.graph.finalize()
        run.run(train, {given: np.arange(5)})
        assert (run.run(slot) > 0.5).any() and run.run(table.index[1]) == 5
        layer.set_weights(weights)
        assert run.graph.finalized and (run.run(slot) == 0.5).all() and run.run(table.index[1]) == 0


@pytest.mark.parametrize("capacity", [2, 100])
def test_files_of_a_model_with_a_table_have_its_keys(capacity, tmp_path):
    """Those of Keras in TensorFlow's format, and a tf.train.Checkpoint, into a model that has trained nothing."""
    sok.init()
    keys, wanted = np.arange(7, 47).reshape(-1, 1), np.arange(80.0).reshape(40, 2)

    def build():
        layer = _Kept(lambda: sok.DynamicVariable(dimension=2, initializer="13", init_capacity=capacity), "list")
        inputs = keras.Input([1], dtype=tf.int64)
        model = keras.Model(inputs, layer(inputs))
        model.compile(getattr(keras.optimizers, "legacy", keras.optimizers).SGD(0.5), "mse")
        return model, tf.train.Checkpoint(model=model)

    with graph(), session(initialize=False) as run:
        keras.backend.set_session(run)
        model, checkpoint = build()
        model.fit(keys, wanted, batch_size=10, verbose=0)
        expected = model.predict(keys)
        model.save_weights(str(tmp_path / "weights"))
        path = checkpoint.save(str(tmp_path / "checkpoint"), session=run)
        model.save_weights(str(tmp_path / "weights.h5"))
        values = model.get_weights()
    # (What one session.run assigns, it assigns in any order.)
    for restore in ["weights", "checkpoint"] + (["h5", "values"] * 6 if capacity == 100 else []):
        with graph(), session(initialize=False) as run:
            keras.backend.set_session(run)
            model, checkpoint = build()
            if restore in ("weights", "h5"):
                model.load_weights(str(tmp_path / {"h5": "weights.h5"}.get(restore, restore)))
            elif restore == "values":
                model.set_weights(values)
            else:
                checkpoint.restore(path).initialize_or_restore(run)
            np.testing.assert_array_equal(model.predict(keys), expected)
            assert (model.predict(keys + 1000) == 13).all()


@pytest.mark.parametrize("how", ["h5", "values"])
def test_keys_of_replaced_weights_are_known_to_be_gone(how, tmp_path):
    """A dump of what has changed since gives all rows, and says that it does not know which keys have left."""
    sok.init()
    with graph(), session(initialize=False) as run:
        keras.backend.set_session(run)
        layer = _Kept(lambda: sok.DynamicVariable(dimension=2, initializer="13", init_capacity=100), "attribute")
        inputs = keras.Input([1], dtype=tf.int64)
        model = keras.Model(inputs, layer(inputs))
        model.compile(getattr(keras.optimizers, "legacy", keras.optimizers).SGD(0.5), "mse")
        model.fit(np.arange(4).reshape(-1, 1), np.ones([4, 2]), verbose=0)
        path, values = str(tmp_path / "weights.h5"), model.get_weights()
        model.save_weights(path)
        for _ in range(3):
            model.fit(np.arange(2, 8).reshape(-1, 1), np.ones([6, 2]), verbose=0)
        time.sleep(0.3)
        before = datetime.datetime.utcnow()
        if how == "h5":
            model.load_weights(path)
        else:
            model.set_weights(values)
        (keys,), _, _, complete = sok.incremental_model_dump([layer.table()], before, run, evicted=True)
        assert sorted(keys.tolist()) == [0, 1, 2, 3] and complete == [False]
