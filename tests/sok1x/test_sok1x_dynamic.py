"""Tables that grow, as a graph is built: what they take, what they refuse, and what optimizers make beside them."""
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok
from sok1x.checkpoint.errors import MismatchError
from sok1x.core.tables import growing_slots
from sok1x.graph_ops.stores import growth, known_slots

v1 = tf


@pytest.mark.parametrize("options, error, words", [
    (dict(filter_rat=1), TypeError, ["unknown keyword filter_rat", "init_capacity"]),
    (dict(var_type="hdm"), ValueError, ["var_type", "'hdm'", "'hbm', 'hybrid'"]),
    (dict(dimension=0), ValueError, ["dimension: got 0"]),
    (dict(initializer="orthogonal"), ValueError,
     ["sok1x.DynamicVariable", ": initializer: got 'orthogonal' for a table that grows"]),
    (dict(initializer="13 or so"), ValueError, ["13 or so"]),
    (dict(initializer=np.ones([2, 3])), ValueError, ["shape (2, 3)", "[4] or [n, 4]"]),
    (dict(initializer=[1.0] * 4, max_capacity=3), ValueError, ["a table that forgets", "give evict_strategy=None"]),
    (dict(initializer=[1.0] * 4, cache_rows=3), ValueError, ["that has a cache", "max_hbm_for_vectors nor cache_rows"]),
    (dict(initializer=[1.0] * 4, admit_after=3), ValueError,
     ["that gives not every key a row", "give none of filter_ratio, admit_after and absent_value"]),
    (dict(initializer=[1.0] * 4, var_type="hbm", filter_ratio=0.5), ValueError, ["that gives not every key a row"]),
    (dict(init_capacity=5, max_capacity=3), ValueError, ["init_capacity: got 5, expected an integer from 1 to 3"]),
    (dict(max_capacity=2.5), TypeError, ["max_capacity: got 2.5 of type float"]),
    (dict(max_capacity=2 ** 31), ValueError, ["max_capacity", str(2 ** 31 - 1)]),
    (dict(max_hbm_for_vectors=-1), ValueError, ["max_hbm_for_vectors: got -1"]),
    (dict(mode="localised:0"), ValueError, ["mode", "'localised:0'"]),
    (dict(mode="localized:1"), ValueError, ["localized:1", "1 ranks"]),
    (dict(key_type="float32"), TypeError, ["key_type", "float32"]),
    (dict(dtype=tf.float64), TypeError, ["dtype: got float64"])])
def test_arguments_that_do_not_fit(options, error, words):
    with graph() as made:
        with pytest.raises(error) as caught:
            sok.DynamicVariable(**dict(dict(dimension=4), **options))
        assert all(word in str(caught.value) for word in words), caught.value
        assert "layer '" not in str(caught.value)
        assert not made.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)


@pytest.mark.parametrize("make", [
    lambda name: sok.DynamicVariable(2, "1", var_type="hbm", name=name),
    lambda name: sok.Variable(np.ones([4, 2], np.float32), name=name)], ids=["dynamic", "static"])
def test_a_name_that_no_op_can_have_is_refused(make):
    words = r"table 'back\\slash': name: got a backslash, expected what TensorFlow's ops can be called"
    with graph() as model:
        sok.init()
        with pytest.raises(ValueError, match=words):
            make("back\\slash")
        assert not model.get_operations()


def test_what_begins_as_what():
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    with graph():
        tables = [sok.DynamicVariable(4, initializer, init_capacity=1, name="t{}".format(number))
                  for number, initializer in enumerate([None, "random", "uniform", "normal", "-2.5", given[0], given, 7,
                                                        tf.constant(given), v1.get_variable("rows", initializer=given),
                                                        tf.keras.initializers.Ones()])]
        rows = [sok.all2all_dense_embedding(table, tf.constant([3, 5, 8], tf.int64)) for table in tables]
        with session() as run:
            values = run.run(rows)
    for one in values[:3]:
        assert np.abs(one).max() < 0.05 and len(set(one.flat)) == 12
    assert np.abs(values[3]).max() > 0.05 or values[3].std() > 0
    for one, expected in zip(values[4:], (-2.5, given[:1], given[[0, 1, 0]], 7, given[[0, 1, 0]], given[[0, 1, 0]], 1)):
        np.testing.assert_array_equal(one, np.broadcast_to(np.float32(expected), [3, 4]))


@pytest.mark.parametrize("how", ["sok.load", "restore_from_file", "load_embedding_values"])
def test_rows_that_begin_as_given_do_so_after_a_load(how, tmp_path):
    """Not as those of keys that have been there before."""
    with graph():
        table = sok.DynamicVariable(2, [[7.0, 7.0]], init_capacity=16)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.gradients(rows, table)[0], table)])
        dumped = sok.Saver().dump_to_file(table, str(tmp_path))
        loads = {"restore_from_file": sok.Saver().restore_from_file(table, str(tmp_path)),
                 "load_embedding_values": sok.Saver().load_embedding_values(table, tf.fill([2, 2], 6.0))}
        with session() as run:
            run.run(step, {keys: [0, 1]})
            run.run(dumped)
            sok.dump(str(tmp_path / "dump"), table, session=run)
            for _ in range(3):
                run.run(step, {keys: np.arange(8)})
            if how == "sok.load":
                sok.load(str(tmp_path / "dump"), table, session=run)
            else:
                run.run(loads[how])
            expected = [[6.0, 6.0]] * 2 + [[7.0, 7.0]] * 6
            assert run.run(rows, {keys: [0, 1, 100, 101, 102, 103, 104, 105]}).tolist() == expected


def test_layers_without_a_number_of_rows():
    with graph():
        layer = sparse_layer(max_vocabulary_size_per_gpu=None, init_capacity=2, max_capacity=6, name="ads")
        twin = sok.DistributedEmbedding.from_config(layer.get_config())
        assert layer.embedding_variable.shape.as_list() == [None, 4]
        assert twin.embedding_variable.table.growth == layer.embedding_variable.table.growth
        assert "init_capacity" not in dense_layer().get_config()
        for options, words in ((dict(max_vocabulary_size_per_gpu=None, use_hashtable=False), "use_hashtable=False"),
                               (dict(max_capacity=9), "max_vocabulary_size_per_gpu=None")):
            with pytest.raises(ValueError, match=words):
                dense_layer(**options)


def test_a_full_table_says_how_it_could_grow():
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=2)
        out = layer(tf.constant([[[1, 2, 3], [4, 5, 6]]], tf.int64), training=True)
        with session() as run, pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            run.run(out)
    for words in ("max_vocabulary_size_per_gpu, set it to None to let the table grow",
                  "a checkpoint can be restored into a larger table"):
        assert words in caught.value.message


def test_optimizers_that_must_know_the_rows_say_what_to_do(monkeypatch):
    # Where no script of DeepRec's has run in this process.
    monkeypatch.setattr(v1.train.Optimizer, "apply_gradients", inspect.unwrap(v1.train.Optimizer.apply_gradients))
    with graph():
        table = sok.EmbeddingVariable(rows=None, dim=4)
        gradient = tf.gradients(sok.all2all_dense_embedding(table, tf.constant([1], tf.int64)), table)
        for optimizer in v1.train.FtrlOptimizer(0.1), v1.train.AdagradDAOptimizer(
                0.1, v1.train.get_or_create_global_step()):
            with pytest.raises(ValueError, match="sok1x.OptimizerWrapper"):
                optimizer.apply_gradients(list(zip(gradient, [table])))
        wrapped = sok.OptimizerWrapper(v1.train.FtrlOptimizer(0.1, initial_accumulator_value=0.5))
        wrapped.apply_gradients(list(zip(gradient, [table])))
        with session() as run:
            accum, linear = run.run([wrapped.get_slot(table, "accum"), wrapped.get_slot(table, "linear")])
        assert accum.shape == linear.shape == (8192, 4) and (accum == 0.5).all() and not linear.any()
        assert table.shape.as_list() == [None, 4] and wrapped.get_slot(table, "accum").shape.as_list() == [None, 4]


def test_slots_whose_rows_begin_with_several_numbers_are_refused():
    with graph() as made:
        table = sok.EmbeddingVariable(rows=None, dim=2)
        table.handle  # as an optimizer has it in hand
        with made.colocate_with(table.handle.op):
            beside = v1.get_variable("beside", initializer=tf.ones([3, 2]), use_resource=True)  # of another shape
            with pytest.raises(ValueError, match="not one number"):
                v1.get_variable("slot", initializer=lambda: tf.random.uniform(tf.shape(table)), use_resource=True)
            slot = v1.get_variable("zeros", initializer=tf.zeros_like(table), use_resource=True, validate_shape=False)
        assert growing_slots.table_of(beside) is None and growing_slots.table_of(slot) == table.m_var_name
        assert [one.name for one in sum(map(list, _slots_of(made)), [])] == ["zeros"]


def test_a_slot_that_was_read_before_a_growth_keeps_what_came_with_it():
    with graph():
        table = sok.EmbeddingVariable(rows=None, dim=2, init_capacity=2)
        keys = v1.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        optimizer = v1.train.AdagradOptimizer(0.5, initial_accumulator_value=3.0)
        step = optimizer.apply_gradients([(tf.gradients(rows, table)[0], table)])
        slot = optimizer.get_slot(table, "accumulator")
        given = v1.placeholder(tf.float32, [None, 2])
        assigned = slot.assign(given)
        with session() as run:
            before = run.run(slot)
            run.run(step, {keys: [1, 2, 3]})
            run.run(assigned, {given: before * 2})
            assert run.run(slot).tolist() == [[6, 6], [6, 6], [4, 4], [3, 3]]
            with pytest.raises(tf.errors.InvalidArgumentError, match="to assign to slot 'EmbeddingVariable/Adagrad'"):
                run.run(assigned, {given: np.ones([5, 2])})


class Decays(v1.train.MomentumOptimizer):
    """Reads the rows that it is about to change, as tf.contrib.opt.MomentumWOptimizer does."""

    def _resource_apply_sparse(self, grad, handle, indices):
        decay = handle.scatter_sub(tf.IndexedSlices(0.25 * tf.gather(handle, indices), indices))
        with tf.control_dependencies([decay]):
            return super()._resource_apply_sparse(grad, handle, indices)


@pytest.mark.parametrize("lookup", [sok.all2all_dense_embedding, tf.nn.embedding_lookup])
def test_an_optimizer_that_reads_rows_by_their_numbers_looks_no_keys_up(lookup):
    with graph():
        table = sok.DynamicVariable(2, "2", init_capacity=2, max_capacity=9)
        keys = v1.placeholder(tf.int64, [None])
        step = Decays(0.5, 0.0).minimize(tf.reduce_sum(lookup(table, keys)), var_list=[table])
        exported = sok.export(table)
        with session() as run:
            run.run(step, {keys: [7, 9]})
            run.run(step, {keys: [9, 1, 0]})
            found, values = run.run(exported)
    assert sorted(found) == [0, 1, 7, 9]
    assert dict(zip(found, values[:, 0])) == {7: 1, 9: 0.25, 1: 1, 0: 1}


@pytest.mark.parametrize("key_type, fits", [("int32", [-1, 2 ** 31 - 1]), ("uint32", [0, 2 ** 32 - 1])])
def test_ids_beyond_a_tables_keys_are_no_other_keys(key_type, fits):
    with graph():
        table = sok.DynamicVariable(2, "1", key_type=key_type, max_capacity=9)
        ids = v1.placeholder(tf.int64, [None])
        ragged = tf.RaggedTensor.from_row_lengths(ids, tf.ones_like(ids))
        looks = [sok.all2all_dense_embedding(table, ids), sok.lookup_sparse(table, ragged),
                 tf.nn.embedding_lookup(table, ids), sok.sparse_read_and_evict(table, ids)[0]]
        assigned = sok.assign(table, ids, tf.ones([tf.size(ids), 2]))
        narrow = sok.assign(table, tf.constant([-1, 7]), tf.fill([2, 2], 5.0))  # the same 32 bits, as of lookups
        keys, rows = sok.export(table)
        with session() as run:
            for op in looks + [assigned]:
                run.run(op, {ids: fits})
                with pytest.raises(tf.errors.InvalidArgumentError, match="{}".format(2 ** 32 + 5)):
                    run.run(op, {ids: [7, 2 ** 32 + 5]})
                with pytest.raises(tf.errors.InvalidArgumentError, match="key_type {}".format(key_type)):
                    run.run(op, {ids: [-2 ** 31 - 1, fits[0]]})
            assert sorted(run.run(keys)) == fits
            run.run(narrow)
            found, values = run.run([keys, rows])
    same = fits[0] if key_type == "int32" else fits[1]
    assert {int(key) for key, value in zip(found, values[:, 0]) if value == 5} == {same, 7} and len(found) == 3


def test_tensorflows_saver_gives_no_table_more_rows_than_it_may_have(tmp_path):
    def run(work, **options):
        with graph():
            table, keys = sok.DynamicVariable(2, "1", name="t", **options), v1.placeholder(tf.int64, [None])
            rows = sok.all2all_dense_embedding(table, keys)
            step = v1.train.MomentumOptimizer(0.5, 0.5).minimize(tf.reduce_sum(rows), var_list=[table])
            saver, state = v1.train.Saver(), (sok.export(table), tf.shape(table))
            with session() as made:
                return work(made, saver, lambda *given: made.run(step, {keys: given}), lambda: made.run(state))

    def save(made, saver, train, state):
        train(*range(20))
        train(*range(6))
        saver.save(made, str(tmp_path / "saved"))

    def restore(made, saver, train, state):
        saver.restore(made, str(tmp_path / "saved"))
        (found, values), shape = state()
        train(0, 10)
        after = dict(zip(*[one.tolist() for one in (state()[0][0], state()[0][1][:, 0])]))
        assert sorted(found) == list(range(20)) and after[0] == -1.125 and after[10] == -0.25 and after[1] == -0.25
        return shape[0]

    def too_small(made, saver, train, state):
        train(50)
        with pytest.raises(MismatchError, match="20 rows of table 't' .* has 10 rows at most"):
            saver.restore(made, str(tmp_path / "saved"))
        assert state()[0][0].tolist() == [50]

    run(save, max_capacity=64, init_capacity=32)
    assert run(restore, max_capacity=100) == 32  # as TensorFlow has them
    assert run(restore, max_capacity=25) <= 25
    run(too_small, max_capacity=10)
    run(too_small, var_type="hbm", max_capacity=10)


def _slots_of(made):
    from sok1x.graph_ops.bridge import plan
    slots = plan.of(made).slots
    assert all(isinstance(one, known_slots.Slot) for of_table in slots.values() for one in of_table)
    return slots.values()


@pytest.mark.parametrize("rows, needed, most, expected", [
    (16, 17, None, 32), (16, 33, None, 64), (16, 1000, None, 1024), (1, 2, None, 2), (0, 5, None, 8),
    (16, 17, 100, 50), (16, 51, 100, 100), (50, 51, 100, 100), (90, 91, 100, 100), (3, 4, 1000, 8), (8, 9, 1000, 16)])
def test_capacities(rows, needed, most, expected):
    got = growth.capacity_after(rows, needed, most)
    assert got == expected and got >= needed and (most is None or got <= most)
    assert needed <= growth.capacity_after(rows, needed, most, 1.25) <= got


@pytest.mark.parametrize("options", [dict(max_vocabulary_size_per_gpu=None, init_capacity=4),
                                     dict(max_vocabulary_size_per_gpu=50, evict_strategy="lfu", admit_after=2)])
def test_keras_sums_up_trains_and_describes_layers_whose_tables_grow(options):
    with graph(), v1.Session() as run:
        keras = tf.keras
        keras.backend.set_session(run)
        run.run(sok.Init())
        layer = sok.All2AllDenseEmbedding(embedding_vec_size=4, slot_num=3, nnz_per_slot=1, **options)
        inputs = keras.Input([3, 1], dtype=tf.int64)
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Reshape([12])(layer(inputs))))
        model.compile(sok.tf.keras.optimizers.LazyAdamOptimizer(0.05), "mse")
        lines = []
        model.summary(print_fn=lines.append)
        first = options.get("init_capacity", 50)
        assert layer.count_params() >= first * 4 and "Trainable params: {}".format(first * 4 + 13) in "\n".join(lines)
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
        keys = np.arange(60).reshape(20, 3, 1)
        losses = model.fit(keys % 40, np.ones([20, 1]), epochs=3, verbose=0, batch_size=5).history["loss"]
        assert losses[-1] < losses[0] and model.predict(keys).shape == (20, 1)
        assert run.run(sok.table_stats(layer)).rows_in_use == 40


def test_dense_weights_are_refused_with_what_weights_must_be():
    """What is said of dense ids would be of no use for them."""
    sok.init()
    with tf.Graph().as_default():
        table, ids = sok.DynamicVariable(dimension=2), tf.ragged.constant([[7, 8], [9]], dtype=tf.int64)
        with pytest.raises(TypeError, match=r"sp_weights: got .* expected .* of weights; one float for each id, .*"
                                            r"ids.with_values\(weights\)"):
            sok.lookup_sparse(table, ids, sp_weights=tf.ones([3]), combiners="sum")
        with pytest.raises(TypeError, match="sp_ids: got .* use sok1x.all2all_dense_embedding for a dense tensor of"):
            sok.lookup_sparse(table, tf.constant([[7, 8]], tf.int64), combiners="sum")
        weights = ids.with_values(tf.constant([1.0, 2.0, 3.0]))
        assert sok.lookup_sparse(table, ids, sp_weights=weights, combiners="sum").shape.as_list()[1] == 2
