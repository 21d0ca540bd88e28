"""EmbeddingVariable as TensorFlow sees it: names, collections, slots, savers, reports, gradients."""
import os

import numpy as np
import pytest
import stock_lazy_adam
import tensorflow
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok
from sok1x import EmbeddingVariable
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.embeddings.layer import EmbeddingLayer

v1 = tf
KEYS = np.array([[[5, -2, 5], [9, 2 ** 62, 0]]], np.int64)


def names(variables):
    return [variable.name for variable in variables]


def test_made_at_the_root_whatever_surrounds_it():
    with graph():
        with tf.name_scope("a"), v1.variable_scope("b", reuse=v1.AUTO_REUSE, use_resource=False):
            blocked = v1.placeholder(tf.bool, [])
            with tf.control_dependencies([blocked]):
                first = dense_layer()
        second = sparse_layer(name="other")  # its table is called after it, at the root too
        built = []
        v1.while_loop(lambda i: i < 1, lambda i: (built.append(dense_layer()), i + 1)[1], [0])
        v1.cond(blocked, lambda: built.append(dense_layer()) or tf.constant(0), lambda: tf.constant(1))
        layers = [first, second] + built
        got = [layer.embedding_variable.m_var_name for layer in layers]
        assert got == ["EmbeddingVariable", "EmbeddingVariable_1", "EmbeddingVariable_2", "EmbeddingVariable_3"]
        got[1] = "other/EmbeddingVariable"
        assert [layer.embedding_variable.name for layer in layers] == [name + ":0" for name in got]
        assert [layer.embedding_variable.table.name for layer in layers] == got
        with session() as run:  # the placeholder is not fed: nothing may depend on it
            run.run([layer.embedding_variable for layer in layers])
    with graph():
        assert dense_layer().embedding_variable.m_var_name == "EmbeddingVariable"


def test_collections():
    with graph():
        layer, direct = dense_layer(), sparse_layer(use_hashtable=False)
        frozen = dense_layer(trainable=False)
        shard = layer.embedding_variable
        assert names(v1.global_variables()) == [
            "EmbeddingVariable:0", "EmbeddingVariable/stamps:0", "EmbeddingVariable/steps:0",
            "EmbeddingVariable/index:0", "EmbeddingVariable/count:0",
            "EmbeddingVariable_1:0", "EmbeddingVariable_1/stamps:0", "EmbeddingVariable_1/steps:0",
            "EmbeddingVariable_2:0", "EmbeddingVariable_2/stamps:0", "EmbeddingVariable_2/steps:0",
            "EmbeddingVariable_2/index:0", "EmbeddingVariable_2/count:0"]
        assert names(v1.trainable_variables()) == ["EmbeddingVariable:0", "EmbeddingVariable_1:0"]
        assert v1.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES) == [
            each.embedding_variable for each in (layer, direct, frozen)]
        assert names(layer.trainable_weights) == ["EmbeddingVariable:0"]
        beside = shard.index + [shard.stamps, shard.steps]
        assert names(layer.non_trainable_weights) == names(beside) and len(shard.index) == 2
        assert frozen.trainable_weights == [] and direct.embedding_variable.index == []
        assert isinstance(shard, tensorflow.Variable) and shard.shape == [32, 4] and shard.dtype == tf.float32
        assert [(each.dtype.name, each.trainable, each.shape.as_list()) for each in beside] == [
            ("int64", False, [64, 2]), ("int64", False, []), ("int64", False, [32]), ("int64", False, [])]
        assert all(isinstance(each, ShardVariable) for each in beside)


def test_on_the_device_asked_for():
    with graph():
        with tf.device("/cpu:0"):
            layer = dense_layer()
        shard = layer.embedding_variable
        assert {variable.device for variable in [shard, shard.stamps, shard.steps] + shard.index} == {"/device:CPU:0"}


def test_eager_execution_is_refused_with_advice():
    from tensorflow.python.eager import context
    with context.eager_mode(), pytest.raises(ValueError, match="tf.Graph.*eager execution"):
        dense_layer()


@pytest.mark.parametrize("scope", [None, "train"])
def test_slots_belong_to_their_rank_as_the_shard_does(scope):
    """For every way of making slots; other variables of the optimizers are dense ones."""
    with graph():
        layer = dense_layer()
        dense = v1.get_variable("dense", [4], use_resource=True)
        loss = tf.reduce_sum(layer(tf.constant(KEYS)) * dense)
        variables = [layer.embedding_variable, dense]
        before = set(v1.global_variables())
        with v1.variable_scope(scope or v1.get_variable_scope()), v1.variable_creator_scope(
                lambda creator, **arguments: creator(**arguments)):
            v1.train.AdamOptimizer().minimize(loss)
            optimizer = tf.keras.optimizers.Adam()
            optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
            stock_lazy_adam.LazyAdamOptimizer().minimize(loss)
        v1.train.FtrlOptimizer(0.1).minimize(loss)
        made = [variable for variable in v1.global_variables() if variable not in before]
        slots = [variable for variable in made if "EmbeddingVariable" in variable.name]
        others = [variable for variable in made if "EmbeddingVariable" not in variable.name]
        assert len(slots) == 2 * 4 and len(others) > 2 * 4
        assert all(isinstance(variable, ShardVariable) for variable in slots)
        assert not any(isinstance(variable, ShardVariable) for variable in others + [dense])
        with session() as run:
            run.run(v1.report_uninitialized_variables())


def test_slots_made_by_another_thread_and_after_a_creator_scope():
    import threading
    with graph() as made:
        with v1.variable_creator_scope(lambda creator, **arguments: creator(**arguments)):
            layer = dense_layer()
        loss = tf.reduce_sum(layer(tf.constant(KEYS)))
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)

        def minimize():
            with made.as_default():
                optimizer.minimize(loss)

        thread = threading.Thread(target=minimize)
        thread.start()
        thread.join()
        assert type(optimizer.get_slot(layer.embedding_variable, "momentum")) is ShardVariable


def test_assign_is_tensorflows_own_except_from_a_broadcast():
    with graph():
        layer = dense_layer()
        shard = layer.embedding_variable
        value = np.arange(128, dtype=np.float32).reshape(32, 4)
        assigned = shard.assign(value)
        added = shard.assign_add(np.ones([32, 4], np.float32))
        with session() as run:
            np.testing.assert_array_equal(run.run(assigned), value)
            np.testing.assert_array_equal(run.run(added), value + 1)
            shard.load(value, run)
            np.testing.assert_array_equal(run.run(shard), value)
        with pytest.raises(ValueError, match="[Ss]hape"):
            shard.assign([1.0])


def test_gradients_are_indexed_slices_of_the_shard():
    with graph():
        layer = dense_layer()
        vectors = layer(tf.constant(KEYS))
        gradient, = tf.gradients(tf.reduce_sum(vectors * [1.0, 2.0, 3.0, 4.0]), layer.embedding_variable)
        assert isinstance(gradient, tf.IndexedSlices)
        assert gradient.values.shape.as_list() == [None, 4] and gradient.dense_shape.dtype.is_integer
        with session() as run:
            got = run.run(gradient)
    # Rows in order of first appearance: 5, -2, 9, 2**62, 0; key 5 came twice.
    assert got.dense_shape.tolist() == [32, 4] and sorted(got.indices) == [0, 1, 2, 3, 4]
    expected = np.outer([2, 1, 1, 1, 1], [1, 2, 3, 4])
    np.testing.assert_array_equal(got.values[np.argsort(got.indices)], expected)


def test_uninitialized_variables_are_reported():
    with graph():
        dense_layer()
        with session(initialize=False) as run:
            report = v1.report_uninitialized_variables()
            assert run.run(report).tolist() == [
                b"EmbeddingVariable", b"EmbeddingVariable/stamps", b"EmbeddingVariable/steps",
                b"EmbeddingVariable/index", b"EmbeddingVariable/count"]
            run.run(v1.global_variables_initializer())
            assert run.run(report).tolist() == []


def test_a_tables_initializer_begins_all_of_it():
    sok.init()
    with graph():
        tables = [sok.Variable(np.ones([4, 2], np.float32)), dense_layer().embedding_variable,
                  sok.DynamicVariable(2, var_type="hbm"), sok.DynamicVariable(2, init_capacity=4, max_capacity=4),
                  sok.DynamicVariable(2, init_capacity=4, cache_rows=4)]
        lookups = [sok.all2all_dense_embedding(table, tf.constant([1, 2])) for table in tables]
        used = [table.rows_in_use() for table in tables]
        with session(initialize=False) as run:
            for initializer in ([table.initializer for table in tables], tf.variables_initializer(tables)):
                run.run(initializer)
                assert run.run(used) == [4, 0, 0, 0, 0]
                run.run(lookups)
                assert run.run(used) == [4, 2, 2, 2, 2]
            assert not run.run(tf.report_uninitialized_variables(tf.global_variables())).size


@pytest.mark.parametrize("make", [dense_layer, sparse_layer], ids=["dense", "sparse"])
def test_saver_round_trip_into_a_fresh_graph(tmp_path, make):
    """Rows, index and slots: lookups after the restore are those before the save, and new keys get new rows."""
    def build():
        layer = make(embedding_initializer="normal")
        keys = v1.placeholder(tf.int64, [None])
        bags = tf.stack([tf.range(tf.size(keys)), tf.zeros_like(tf.cast(keys, tf.int32))], 1)
        if make is dense_layer:
            given = tf.reshape(keys, [-1, 2, 3])
        else:
            given = tf.SparseTensor(tf.cast(bags, tf.int64), keys, [tf.size(keys, out_type=tf.int64), 3])
        vectors = layer(given)
        step = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(vectors ** 2))
        read = layer(given, training=False)
        return layer, keys, step, read

    path = os.path.join(str(tmp_path), "model")
    known = np.array([7, -7, 7, 2 ** 62, -2 ** 63, 0])
    with graph():
        layer, keys, step, read = build()
        with session() as run:
            for _ in range(3):
                run.run(step, {keys: known})
            expected = run.run(read, {keys: known})
            state = run.run(v1.global_variables())
            v1.train.Saver().save(run, path)
            run.run(step, {keys: known + 1})
            after = run.run(v1.global_variables())
    with graph():
        layer, keys, step, read = build()
        with session(initialize=False) as run:
            v1.train.Saver().restore(run, path)
            for one, other in zip(run.run(v1.global_variables()), state):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(run.run(read, {keys: known}), expected)
            run.run(step, {keys: known + 1})
            for variable, one, other in zip(v1.global_variables(), run.run(v1.global_variables()), after):
                np.testing.assert_array_equal(one, other, variable.name)


def test_meta_graphs_can_be_written():
    """Collections that cannot be written make the Saver warn at every checkpoint."""
    with graph():
        dense_layer()
        collections = v1.train.export_meta_graph().collection_def
        for key in (sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES, v1.GraphKeys.TRAINABLE_VARIABLES):
            assert len(collections[key].bytes_list.value) == 1


def test_split_and_scope():
    with graph():
        layers = [dense_layer(), sparse_layer()]
        dense = [v1.get_variable("a", [1]), v1.get_variable("b", [1], use_resource=True)]
        shards = [layer.embedding_variable for layer in layers]
        mixed = [dense[0], shards[1], dense[1], shards[0]]
        for kind in (list, tuple):
            assert sok.split_embedding_variable_from_others(kind(mixed)) == ([shards[1], shards[0]], dense)
            with sok.OptimizerScope(kind(shards)):
                pass
        assert sok.split_embedding_variable_from_others([]) == ([], [])
        for function in (sok.split_embedding_variable_from_others, sok.OptimizerScope):
            for wrong in (shards[0], set(shards), {"a": 1}, None, "shards", iter(shards)):
                with pytest.raises(ValueError, match="expected a list or tuple of variables"):
                    function(wrong)
            with pytest.raises(ValueError, match="at position 1, expected a variable"):
                function([shards[0], tf.constant(1.0)])


@pytest.mark.parametrize("options, error, words", [
    (dict(rows=8.5), TypeError, "rows: got 8.5 of type float, expected a positive integer"),
    (dict(rows=True), TypeError, "rows: got True of type bool"),
    (dict(rows=0), ValueError, "rows: got 0, expected a positive integer up to 2147483647, or None for"),
    (dict(dim=0), ValueError, "dim: got 0, expected an integer from 1"),
    (dict(dim=4.7), TypeError, "dim: got 4.7 of type float"),
    (dict(key_dtype="int16"), TypeError, "key_dtype: got 'int16', expected one of int64, uint32, int32"),
    (dict(use_hashtable=1), TypeError, "use_hashtable: got 1 of type int, expected True or False")])
def test_wrong_arguments_are_refused_and_leave_nothing(options, error, words):
    with tf.Graph().as_default():
        with pytest.raises(error) as raised:
            EmbeddingVariable(**dict(dict(rows=8, dim=4), **options))
        assert "sok1x.EmbeddingVariable: " + words in str(raised.value)
        assert not tf.global_variables()
        made = EmbeddingVariable(rows=np.int64(8), dim=np.int32(4), key_dtype=tf.uint32)
        assert made.m_var_name == "EmbeddingVariable" and made.table.key_dtype == "uint32"


def test_layers_stand_for_their_tables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        layer = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=None, embedding_vec_size=4, slot_num=1, nnz_per_slot=1, init_capacity=8,
            max_capacity=8, evict_strategy="lru", embedding_initializer="ones")
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([5, 7], tf.int64), [2])
        summed, dense = sok.lookup_sparse(layer, ids, combiners="sum"), sok.all2all_dense_embedding(layer, [7])
        assigned = sok.assign(layer, [7], [[3.0] * 4])
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        assert session.run(summed).tolist() == [[2.0] * 4]
        session.run(assigned)
        assert session.run(dense).tolist() == [[3.0] * 4]
        keys, values = sok.export(layer, session)
        assert dict(zip(keys.tolist(), values[:, 0].tolist())) == {5: 1.0, 7: 3.0}
        assert len(sok.incremental_dump([layer], -1, session)[0][0]) == 2
        assert sok.evicted_keys(layer, 0, session)[0].size == 0
        sok.dump(str(tmp_path / "dumped"), layer, session=session)
        session.run(layer.embedding_variable.initializer)
        sok.load(str(tmp_path / "dumped"), [layer], session=session)
        assert session.run(dense).tolist() == [[3.0] * 4]
    class Own(EmbeddingLayer):
        """Makes no table."""

    own = Own(max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1)
    with pytest.raises(TypeError, match="sok1x.export: variable: got .*Own object .* of type Own, expected"):
        sok.export(own)
    for function, words in ((sok.export, "sok1x.export: variable: got 3 of type int, expected a sok1x.Variable, a "
                                         "sok1x.DynamicVariable, a layer of sok1x or its embedding_variable"),
                            (sok.table_stats, "sok1x.table_stats: table: got 3"),
                            (sok.summary, "sok1x.summary: layer: got 3"),
                            (lambda given: sok.all2all_dense_embedding(given, [1]),
                             "sok1x.all2all_dense_embedding: param: got 3 of type int, expected a sok1x.Variable")):
        with pytest.raises(TypeError) as raised:
            function(3)
        assert words in str(raised.value)
