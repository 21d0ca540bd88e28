"""What counts as a changed row: optimizers of all kinds, the variable's own methods, gradients through its value."""
import numpy as np
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from incremental_model import D, Model, V, dump
from sok1x_cases import dense_layer, graph, session

import sok1x as sok

v1 = tf


OPTIMIZERS = {
    # name: (the optimizer, whether a row without gradient moves)
    "sgd": (lambda: v1.train.GradientDescentOptimizer(0.1), False),
    "distributed sgd": (lambda: sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1)), False),
    "momentum": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), False),
    "adagrad": (lambda: v1.train.AdagradOptimizer(0.1), False),
    "ftrl": (lambda: v1.train.FtrlOptimizer(0.1), False),
    "rmsprop": (lambda: v1.train.RMSPropOptimizer(0.1), False),
    "keras adagrad": (lambda: tf.keras.optimizers.Adagrad(0.1), False),
    "keras adamax": (lambda: tf.keras.optimizers.Adamax(0.1), False),
    "contrib lazy adam": (lambda: stock_lazy_adam.LazyAdamOptimizer(0.1), False),
    "our lazy adam": (lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), False),
    "adam": (lambda: v1.train.AdamOptimizer(0.1), True),
    "distributed adam": (lambda: sok.DistributedOptimizer(v1.train.AdamOptimizer(0.1)), True),
    "keras adam": (lambda: tf.keras.optimizers.Adam(0.1), True),
    "our keras adam": (lambda: sok.tf.keras.optimizers.Adam(0.1), True),
    "our adam": (lambda: sok.optimizers.Adam(0.1), True),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_rows_that_an_optimizer_moves(name):
    make, moves_all = OPTIMIZERS[name]
    with graph():
        model = Model(optimizer=make())
        with session() as run:
            run.run(model.step, {model.keys: np.arange(12)})
            before = run.run(model.shard)
            run.run(model.step, {model.keys: [3, 3, 5, 7, 20, 3]})
            moved = np.flatnonzero((run.run(model.shard) != before).any(1))
            assert len(moved) == (13 if moves_all else 4)  # key 20 has the thirteenth row
            assert dump(run, model, 1) == (list(range(12)) + [20] if moves_all else [3, 5, 7, 20])
            assert dump(run, model, 2) == [] and run.run(model.shard.steps) == 2


def test_two_lookups_and_a_gradient_made_by_hand():
    """Of the first, equal indices are added up; the second comes from no lookup."""
    with graph():
        model = Model(use_hashtable=False)
        twice = model.loss + tf.reduce_sum(model.layer(tf.constant([[[9, 9, 9], [10, 10, 10]]], tf.int64)))
        optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)
        step = optimizer.minimize(twice, model.number)
        slices = tf.IndexedSlices(tf.ones([2, D]), tf.constant([4, 6], tf.int64), tf.constant([V, D], tf.int64))
        by_hand = optimizer.apply_gradients([(slices, model.shard)], model.number)
        with session() as run:
            run.run(step, {model.keys: [1, 1, 1, 2, 2, 9]})
            assert dump(run, model, 0) == [1, 2, 9, 10]
            run.run(by_hand)
            assert dump(run, model, 1) == [4, 6]


def a_slice(shard):
    return shard[3:5].assign(np.zeros([2, D], np.float32))


ONE_ROW = np.zeros([1, D], np.float32)


def slices_of(rows):
    return tf.IndexedSlices(tf.zeros([len(rows), D]), tf.constant(rows))


def of_tape(shard, loss):
    with tf.GradientTape() as tape:
        found = loss(shard)
    return tape.gradient(found, shard)


EVERY = list(range(V))
WRITES = {
    "assign": (lambda shard: shard.assign(tf.zeros([V, D])), EVERY),
    "assign, op alone": (lambda shard: shard.assign(tf.zeros([V, D]), read_value=False), EVERY),
    "assign_add": (lambda shard: shard.assign_add(tf.zeros([V, D]), read_value=False), EVERY),
    "assign_sub": (lambda shard: shard.assign_sub(tf.zeros([V, D])), EVERY),
    "tf.assign": (lambda shard: v1.assign(shard, tf.zeros([V, D])), EVERY),
    "tf.assign_sub": (lambda shard: v1.assign_sub(shard, tf.zeros([V, D])), EVERY),
    "slice": (a_slice, EVERY),
    "scatter_sub": (lambda shard: shard.scatter_sub(slices_of([3, 5])), [3, 5]),
    "scatter_update": (lambda shard: shard.scatter_update(slices_of([31, 0])), [0, 31]),
    "tf.scatter_add": (lambda shard: v1.scatter_add(shard, [7], ONE_ROW), [7]),
    "tf.scatter_mul": (lambda shard: v1.scatter_mul(shard, tf.constant([[7], [8]], tf.int64), tf.ones([2, 1, D])),
                       [7, 8]),
    "tf.scatter_nd_add": (lambda shard: v1.scatter_nd_add(shard, [[2], [4]], tf.ones([2, D])), [2, 4]),
    "scatter_nd_update": (lambda shard: shard.scatter_nd_update([[2, 1], [9, 0]], [1.0, 2.0]), [2, 9]),
    "gradient of the value": (lambda shard: tf.gradients(tf.nn.l2_loss(shard), shard)[0], EVERY),
    "gradient of a read": (lambda shard: tf.gradients(tf.nn.l2_loss(shard.read_value()), shard)[0], EVERY),
    "gradient of some rows": (lambda shard: tf.gradients(
        tf.nn.l2_loss(tf.nn.embedding_lookup(shard, [[6, 1], [6, 2]])), shard)[0].values, [1, 2, 6]),
    "gradient of a tape": (lambda shard: of_tape(shard, tf.nn.l2_loss), EVERY),
    "gradient of a tape, of some rows": (lambda shard: of_tape(shard, lambda shard: tf.nn.l2_loss(
        tf.gather(shard, [6, 1, 6]))).values, [1, 6]),
    "gradient in a loop": (lambda shard: tf.gradients(v1.while_loop(
        lambda i, total: i < 2, lambda i, total: (i + 1, total + tf.nn.l2_loss(shard)), [0, 0.0])[1], shard)[0], EVERY),
}


@pytest.mark.parametrize("global_step", [True, False])
@pytest.mark.parametrize("name", sorted(WRITES))
def test_what_the_variable_itself_is_asked_for(name, global_step):
    with graph():
        model = Model(use_hashtable=False, global_step=global_step)
        write, expected = WRITES[name]
        op = write(model.shard)
        with session() as run:
            run.run(model.step, {model.keys: np.arange(6)})
            run.run(op)
            assert dump(run, model, 1) == expected and dump(run, model, 2) == []
            run.run(model.step, {model.keys: [0] * 6})
            assert dump(run, model, 2) == ([] if global_step else [0])
            assert dump(run, model, 1) == sorted(set(expected) | {0})


def test_load_and_a_read_without_gradient():
    with graph():
        model = Model(use_hashtable=False)
        with session() as run:
            run.run([model.shard.read_value(), model.shard.sparse_read([1, 2])])
            assert dump(run, model, 0) == []
            model.shard.load(np.ones([V, D], np.float32), run)
            model.shard.load(np.ones([V, D], np.float32), run)
            assert dump(run, model, 0) == EVERY and dump(run, model, 1) == []
            run.run(model.step, {model.keys: [4] * 6})
            run.run(model.step, {model.keys: [5] * 6})
            assert dump(run, model, 1) == [5]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("how", ["sok.load", "restore_from_file", "load"])
def test_what_is_loaded_changes_at_the_global_step(how, resource, tmp_path):
    """Of a table that has not been trained for long, or by nobody in this process."""
    with graph() as made:
        number = v1.get_variable("global_step", [], tf.int64, v1.zeros_initializer(), trainable=False,
                                 use_resource=resource, collections=["variables", "global_step"])
        model = Model(use_hashtable=False)
        assert model.number is number
        dumped = sok.Saver().dump_to_file(model.shard, str(tmp_path))
        restored = sok.Saver().restore_from_file(model.shard, str(tmp_path))
        at_26 = v1.assign(number, 26)
        with session() as run:
            made.finalize()
            run.run(model.step, {model.keys: np.arange(6)})
            run.run(dumped)
            sok.dump(str(tmp_path / "dump"), model.shard, session=run)
            run.run(at_26)
            if how == "sok.load":
                sok.load(str(tmp_path / "dump"), model.shard, session=run)
            elif how == "load":
                model.shard.load(np.ones([V, D], np.float32), run)
            else:
                run.run(restored)
            assert dump(run, model, 26) == EVERY and dump(run, model, 27) == []
            run.run(model.step, {model.keys: [7] * 6})
            assert dump(run, model, 26) == EVERY and dump(run, model, 27) == []
            run.run(model.step, {model.keys: [8] * 6})
            assert dump(run, model, 27) == [8]


def test_a_global_step_without_a_value_is_none(tmp_path):
    with graph():
        model = Model()
        with session(initialize=False) as run:
            run.run(model.shard.initializer)
            sok.dump(str(tmp_path / "dump"), model.shard, session=run)
            sok.load(str(tmp_path / "dump"), model.shard, session=run)
            run.run(v1.global_variables_initializer())
            model.shard.load(np.ones([V, D], np.float32), run)
            assert run.run(model.shard.stamps).tolist() == [1] * V


def test_a_global_step_that_tables_do_not_go_by():
    """It has been made after what trains them, so they count for themselves."""
    with graph():
        model = Model(global_step=False)
        late = v1.assign(v1.train.create_global_step(), 1000)
        with session() as run:
            run.run(late)
            run.run(model.step, {model.keys: np.arange(6)})
            model.shard.load(np.ones([V, D], np.float32), run)
            assert run.run(model.shard.stamps).tolist() == [2] * V


def test_loaded_rows_stay_for_their_time_to_live(tmp_path):
    """A script that takes all but its tables from elsewhere, the global step too, and those by sok.load."""
    for first in (0, 1000):
        with graph():
            number = v1.train.create_global_step()
            table = sok.DynamicVariable(2, "1", name="t", init_capacity=16, max_capacity=16, evict_strategy="ttl",
                                        time_to_live=100)
            keys = v1.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys))
            step = v1.train.AdagradOptimizer(0.1).minimize(loss, number, [table])
            goes_on = v1.assign(number, first)
            with session() as run:
                if not first:
                    for key in range(12):
                        run.run(step, {keys: [key]})
                    sok.dump(str(tmp_path / "dump"), table, session=run)
                    continue
                run.run(goes_on)
                sok.load(str(tmp_path / "dump"), table, session=run)
                for key in range(12, 16):
                    run.run(step, {keys: [key]})
                with pytest.raises(tf.errors.ResourceExhaustedError):  # nothing is that old
                    run.run(step, {keys: [16]})
                assert sorted(run.run(sok.export(table))[0]) == list(range(16))


def test_lookups_in_a_loop():
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=V)
        shard = layer.embedding_variable
        v1.train.create_global_step()
        keys = tf.reshape(tf.range(12, dtype=tf.int64), [2, 1, 2, 3])
        total = v1.while_loop(lambda i, total: i < 2,
                              lambda i, total: (i + 1, total + tf.reduce_sum(layer(keys[i]) ** 2)), [0, 0.0])[1]
        gradient = tf.gradients(total, shard)[0]
        with session() as run:
            run.run(gradient.values)
            assert sorted(sok.incremental_dump(shard, 0, run)[0]) == list(range(12))  # iterations run in any order
            run.run(gradient.values)
            assert run.run(shard.stamps).tolist() == [1] * 12 + [0] * 20


def test_checks_of_numbers_of_the_whole_graph():
    """tf.add_check_numerics_ops runs all that gives floats, of which a table's changed rows are one."""
    with graph():
        layer = dense_layer()
        keys = tf.placeholder(tf.int64, [None, 2, 3])
        loss = tf.reduce_sum(layer(keys, training=True) ** 2)
        with tf.control_dependencies([v1.add_check_numerics_ops()]):
            step = v1.train.GradientDescentOptimizer(0.25).minimize(loss)
        with session() as run:
            feed = {keys: np.arange(6).reshape(1, 2, 3)}
            before = run.run(loss, feed)
            run.run(step, feed)
            np.testing.assert_allclose(run.run(loss, feed), before / 4, rtol=1e-5)
            layer.embedding_variable.load(np.full([32, 4], np.nan, np.float32), run)
            with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
                run.run(step, feed)
