"""EmbeddingVariables: each option, optimizers, and what is refused. Scopes: test_sok1x_deeprec_scopes.py; filters:
test_sok1x_deeprec_filters.py; target_gpu: test_sok1x_deeprec_target_gpu.py."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from deeprec_table import Trained

import sok1x as sok
from sok1x import deeprec
from sok1x.deeprec import EmbeddingVariableOption as Option
from sok1x.deeprec import config_pb2


@pytest.fixture(autouse=True)
def one_graph():
    sok.init()
    with tf.Graph().as_default():
        yield


def test_keys_are_never_taken_for_numbers_of_rows():
    items = deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
    rows = tf.gather_nd(items, tf.constant([[7], [2 ** 40]], tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(rows).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match=r"'items': tf.gather_nd: got indices of shape \(1, 2\), expected \[..., 1\]"):
        tf.gather_nd(items, [[7, 0]])
    with pytest.raises(TypeError, match=r"'items': got \[7\]: its rows lie in the order"):
        items[7]
    # `gather` along rows and `value` are of no key; what numbers rows is refused.
    assert tf.gather(items, [1], axis=1).shape.as_list() == [None, 1]
    assert items.value()[:2].shape.as_list() == [None, 2]
    rows, mask = np.ones([1, 2], np.float32), tf.constant([True])
    for name, call in (
            ("slice", lambda: tf.slice(items, [0, 0], [1, 2])),
            ("strided_slice", lambda: tf.strided_slice(items, [0], [1])),
            ("boolean_mask", lambda: tf.boolean_mask(items, mask)),
            ("gather", lambda: tf.gather(items, [7], axis=-2)),
            ("(batch_)?gather", lambda: tf.gather(items, [[0]], batch_dims=1)),
            ("(batch_)?gather", lambda: tf.batch_gather(items, [[0]])),
            ("tensor_scatter_update", lambda: tf.tensor_scatter_nd_update(items, [[7]], rows)),
            ("tensor_scatter_add", lambda: tf.tensor_scatter_nd_add(items, [[7]], rows)),
            ("sparse_segment_sum", lambda: tf.sparse_segment_sum(items, [7], [0])),
            ("sparse_segment_mean", lambda: tf.sparse_segment_mean(items, [7], [0], num_segments=2))):
        with pytest.raises(TypeError, match="'items': tf.{} takes rows by their numbers".format(name)):
            call()
    for name, call in (
            ("scatter_update", lambda: tf.scatter_update(items, [7], rows)),
            ("scatter_add", lambda: tf.scatter_add(items, [7], rows)),
            ("scatter_nd_update", lambda: tf.scatter_nd_update(items, [[7]], rows)),
            ("(scatter_nd|batch_scatter)_update", lambda: tf.batch_scatter_update(items, [7], rows))):
        with pytest.raises(TypeError, match="'items': tf.{} writes rows by their numbers.*sok.assign".format(name)):
            call()


@pytest.mark.parametrize("make", [lambda: deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer()),
                                  lambda: sok.DynamicVariable(2, "1", name="items")])
def test_methods_that_write_numbered_rows_take_those_of_a_gradient_alone(make):
    items = make()
    methods = sorted(name for name in dir(items) if name.startswith(("scatter_", "batch_scatter_")))
    assert len(methods) >= 11, methods
    rows = np.ones([1, 2], np.float32)
    for name in methods:
        nd = name.startswith("scatter_nd")
        for given in ([[7]], rows) if nd else (tf.IndexedSlices(rows, tf.constant([7])),):
            with pytest.raises(TypeError, match="'items': .*scatter.* writes rows by their numbers.*sok.assign"):
                getattr(items, name)(given, rows) if nd else getattr(items, name)(given)
    with pytest.raises(TypeError, match="method scatter_add writes"):
        items.scatter_add(sparse_delta=tf.IndexedSlices(rows, tf.constant([7])))
    for keys in (tf.ragged.constant([[7], []]), tf.SparseTensor([[0, 0]], [7], [1, 1])):
        for read in (items.sparse_read, items.gather_nd):
            with pytest.raises(TypeError, match="'items': got keys in a .*Tensor.*sok.lookup_sparse"):
                read(keys)
    gradient, = tf.gradients(sok.all2all_dense_embedding(items, tf.constant([7, 9, 7], tf.int64)), [items])
    step = items.scatter_sub(tf.IndexedSlices(gradient.values, gradient.indices))
    exported = sok.export(items)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert dict(zip(*[one.tolist() for one in session.run(exported)])) == {7: [-1, -1], 9: [0, 0]}


@pytest.mark.skipif(not tf.VERSION.startswith("1."), reason="tf.contrib is TensorFlow 1's")
def test_the_lookup_of_contrib_is_refused():
    from tensorflow.contrib.layers.python.layers import embedding_ops
    items = deeprec.get_embedding_variable("items", 2)
    ids = tf.SparseTensor([[0, 0]], tf.constant([7], tf.int64), [1, 1])
    with pytest.raises(TypeError, match="'items': tf.contrib.layers.safe_embedding_lookup_sparse reads numbered rows"):
        embedding_ops.safe_embedding_lookup_sparse([items], ids)
    assert tf.convert_to_tensor(items).shape.as_list() == [None, 2]


@pytest.mark.parametrize("given, low, high", [
    (None, -(6 / 4098) ** 0.5, (6 / 4098) ** 0.5),  # as tf.glorot_uniform_initializer for [4096, 2]
    (tf.random_uniform_initializer(2, 3), 2, 3),
    (tf.constant_initializer([5.0, 5.0]), 5, 5),
    (np.array([[4.0, 4.0]], np.float32), 4, 4),
])
def test_how_rows_begin(given, low, high):
    trained = Trained(Option(init_option=deeprec.InitializerOption(given)),
                      initializer=None if given is None else tf.zeros_initializer())
    rows = np.array(trained.step(*range(500)))
    assert low <= rows.min() <= rows.max() <= high
    assert low == high or rows.max() - rows.min() > 0.95 * (high - low)


def test_a_pool_of_rows_to_begin_with(seed):
    """Keys that are equal modulo default_value_dim begin alike, as in DeepRec; with none each has its own row."""
    keys = np.random.RandomState(seed).permutation(np.concatenate([
        np.random.RandomState(seed).randint(-2 ** 62, 2 ** 62, 40), np.arange(-10, 10)]))
    for pool in (7, None):
        with tf.Graph().as_default():
            trained = Trained(Option(init_option=deeprec.InitializerOption(
                tf.random_normal_initializer(), default_value_dim=pool)))
            rows = np.array(trained.step(*keys))
        expected = keys if pool is None else keys % pool
        same = (rows[:, None] == rows[None]).all(2)
        np.testing.assert_array_equal(same, expected[:, None] == expected[None])


def test_rows_that_are_old_leave_when_the_table_is_saved(tmp_path):
    trained = Trained(Option(evict_option=deeprec.GlobalStepEvict(2)), initializer=1.0)
    trained.step(7)
    for _ in range(2):
        trained.step(8, 9)
    assert trained.saved(tmp_path) == [7, 8, 9]
    trained.step(9)
    assert trained.saved(tmp_path) == [8, 9]
    assert trained.step(7, 8) == [[1, 1], pytest.approx([0.8, 0.8])]  # the former as new
    trained.saver.restore(trained.session, str(tmp_path / "model"))
    assert sorted(trained.session.run(trained.keys).tolist()) == [8, 9]


def test_rows_that_are_small_leave_when_the_table_is_saved(tmp_path):
    trained = Trained(Option(evict_option=deeprec.L2WeightEvict(0.5)), initializer=0.85)
    for keys in ((7, 8), (8, 9), (8, 9)):
        trained.step(*keys)
    assert trained.saved(tmp_path) == [7]  # of 2 x 0.75^2 / 2; the others have 0.65 and less
    checkpoints = sok.CheckpointManager(str(tmp_path / "whole"))
    trained.step(1)
    trained.step(7)
    checkpoints.save(trained.session, 1)
    assert sorted(trained.session.run(trained.keys).tolist()) == [1]


def test_rows_leave_in_dumps_too(tmp_path):
    trained = Trained(Option(evict_option=deeprec.GlobalStepEvict(2)), initializer=1.0)
    dumped = sok.Saver().dump_to_file(trained.table, str(tmp_path / "dumped"))
    for key in range(6):
        trained.step(key)
    sok.dump(str(tmp_path / "dump"), trained.table, session=trained.session)
    keys, = [name for name in (tmp_path / "dump").iterdir() if name.name.endswith("-key")]
    assert sorted(np.fromfile(str(keys), np.int64)[-3:].tolist()) == [3, 4, 5]
    assert sorted(trained.session.run(trained.keys).tolist()) == [3, 4, 5]
    trained.step(6)
    trained.session.run(dumped)
    keys, = (tmp_path / "dumped").glob("*_keys.file")
    assert sorted(np.fromfile(str(keys), np.int64).tolist()) == [4, 5, 6]


@pytest.mark.parametrize("kind", [None, config_pb2.StorageType.HBM, config_pb2.DRAM, config_pb2.HBM_DRAM])
def test_storage(kind):
    trained = Trained(Option(storage_option=deeprec.StorageOption(kind)), initializer=tf.ones_initializer())
    assert trained.step(7) == [[1, 1]] and trained.step(7) == [pytest.approx([0.9, 0.9])]
    assert trained.table.backend_type == ("hybrid" if kind == config_pb2.HBM_DRAM else "hbm")
    assert (trained.table.device == "/device:CPU:0") == (kind == config_pb2.DRAM)


@pytest.mark.parametrize("arguments, kind, words", [
    (dict(ev_option=Option(ht_type="dense_hash_map_lockless")), ValueError, "ht_type: got 'dense_.*no counterpart"),
    (dict(ev_option=Option(ht_partition_num=7)), ValueError, "ht_partition_num: got 7.*no counterpart"),
    (dict(ev_option=Option(ckpt=deeprec.CheckpointOption("old"))), ValueError, "ckpt.ckpt_to_load_from: got 'old'"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(config_pb2.StorageType.SSDHASH))), ValueError,
     "storage_type: got SSDHASH, expected HBM, DRAM or HBM_DRAM"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(config_pb2.DRAM_PMEM))), ValueError,
     "storage_type: got DRAM_PMEM"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(storage_path="/tmp"))), ValueError,
     "storage_path: got"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(layout="light"))), ValueError, "layout: got 'light'"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(storage_size=[7]))), ValueError, "storage_size: got"),
    (dict(ev_option=Option(storage_option=deeprec.StorageOption(cache_strategy=9))), ValueError, "cache_strategy: got"),
    (dict(ev_option=Option(filter_option=deeprec.CounterFilter(2 ** 31))), ValueError, "filter_freq: got 214.*at most"),
    (dict(ev_option=Option(filter_option=deeprec.CBFFilter(3, 10, 2.0))), ValueError, "false_positive_probability"),
    (dict(ev_option=Option(filter_option=deeprec.CBFFilter(3, counter_type=tf.int8))), ValueError, "counter_type"),
    (dict(ev_option=Option(filter_option=deeprec.GlobalStepEvict(3))), TypeError, "filter_option: got"),
    (dict(ev_option=Option(evict_option=deeprec.GlobalStepEvict("3"))), TypeError, "steps_to_live: got '3'"),
    (dict(ev_option=Option(evict_option=deeprec.L2WeightEvict("3"))), TypeError, "l2_weight_threshold: got '3'"),
    (dict(ev_option=Option(init_option=deeprec.InitializerOption(default_value_dim=0))), ValueError,
     "default_value_dim: got 0"),
    (dict(ev_option=Option(init_option=deeprec.InitializerOption(default_value_no_permission=1.0))), ValueError,
     "default_value_no_permission: got 1.0 without filter_option"),
    (dict(ev_option=Option(filter_option=deeprec.CounterFilter(1), init_option=deeprec.InitializerOption(
        default_value_no_permission=1.0))), ValueError, "got 1.0 with filter_option.filter_freq 1, .* 2 or more"),
    *((dict(ev_option=Option(evict_option=evict, storage_option=deeprec.StorageOption(config_pb2.HBM_DRAM))),
       ValueError, "got HBM_DRAM with evict_option " + type(evict).__name__)
      for evict in (deeprec.GlobalStepEvict(3), deeprec.L2WeightEvict(0.5))),
    (dict(ev_option="HBM"), TypeError, "ev_option: got 'HBM'"),
    (dict(ev_option=Option(evict_option=deeprec.GlobalStepEvict(3)), steps_to_live=3), ValueError, "expected one of"),
    (dict(regularizer=tf.nn.l2_loss), ValueError, "regularizer: got .*no counterpart"),
    (dict(custom_getter=len), ValueError, "custom_getter: got"),
    (dict(caching_device="/cpu:0"), ValueError, "caching_device: got"),
    (dict(init_data_source="x"), ValueError, "init_data_source: got"),
    (dict(validate_shape=False), ValueError, "validate_shape: got"),
    (dict(partitioner=4), TypeError, "partitioner: got 4"),
    (dict(value_dtype=tf.float64), TypeError, "dtype: got float64"),
    (dict(value_dtype=tf.ones_initializer()), TypeError, "value_dtype: got .*initializer goes by its name"),
    (dict(initializer=[1.0, 2.0], steps_to_live=3), ValueError, "has rows leave when it is saved.* no evict_option"),
    (dict(initializer=np.zeros([3, 2])), ValueError, r"initializer: got values of shape \(3, 2\)"),
    (dict(initializer=tf.orthogonal_initializer()), ValueError, "that grows"),
])
def test_what_is_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        deeprec.get_embedding_variable("items", 2, **arguments)
    assert not tf.global_variables()


@pytest.mark.parametrize("make", [
    lambda: tf.train.AdamOptimizer(0.1), lambda: tf.train.AdagradOptimizer(0.1), lambda: tf.train.FtrlOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9), lambda: tf.train.RMSPropOptimizer(0.1),
    lambda: tf.train.AdadeltaOptimizer(0.1), lambda: sok.DistributedOptimizer(tf.train.FtrlOptimizer(0.1)),
    lambda: deeprec.AdamAsyncOptimizer(0.1)])
def test_optimizers_of_tensorflow_train_them(make, seed):
    """As a variable that has all rows from the start; the table grows meanwhile."""
    ids = tf.placeholder(tf.int64, [None])
    tables = [deeprec.get_embedding_variable("ours", 2, initializer=0.5), tf.Variable(tf.fill([20000, 2], 0.5))]
    optimizers = [make(), make()]
    rows = [tf.nn.embedding_lookup(table, ids) for table in tables]
    losses = [tf.reduce_sum(tf.square(each - 0.1)) for each in rows]
    train = [optimizer.minimize(loss) for optimizer, loss in zip(optimizers, losses)]
    random = np.random.RandomState(seed)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in [random.randint(0, 100, 50) for _ in range(3)] + [np.arange(10000), random.randint(0, 100, 50)]:
            mine, theirs, _ = session.run(rows + [train], {ids: batch})
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    assert type(optimizers[0]).__name__ == type(make()).__name__


def test_optimizers_that_there_are_not():
    for name in ("AdagradDecayOptimizer", "AdagradDecayOptimizerV2", "AdamWOptimizer"):
        with pytest.raises(NotImplementedError, match=name + ".*no counterpart"):
            getattr(deeprec, name)(0.1)
    with pytest.raises(ValueError, match="apply_sparse_rmsprop"):
        deeprec.AdamAsyncOptimizer(apply_sparse_rmsprop=True)
