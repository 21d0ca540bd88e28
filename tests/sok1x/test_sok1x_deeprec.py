"""DeepRec's names: the switch, lookups beside TensorFlow's, and what is refused."""
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import deeprec
from sok1x.deeprec import strategy, switch


@pytest.fixture(autouse=True)
def one_graph():
    sok.init()
    with tf.Graph().as_default():
        yield
    deeprec.uninstall_as_deeprec()


def sparse(lists, dtype=np.int64):
    rows = [(i, j) for i, each in enumerate(lists) for j in range(len(each))]
    return tf.SparseTensor(np.array(rows, np.int64).reshape(-1, 2), tf.constant(np.concatenate(lists).astype(dtype)),
                           [len(lists), max(map(len, lists))])


# ---- the switch

def test_the_switch_goes_on_and_off():
    import tensorflow
    before = {place: dir(owner) for place, owner in (("tf", tensorflow), ("nn", tensorflow.nn), ("v1", tf))}
    initializer = tf.variables_initializer
    sok.install_as_deeprec()
    sok.install_as_deeprec()
    from tensorflow.core.framework.embedding import config_pb2
    from tensorflow.python.ops import variables
    assert config_pb2.HBM_DRAM == config_pb2.StorageType.HBM_DRAM == 13
    for root in (tensorflow, tf, tensorflow.compat.v1):
        for place, name in switch.NAMES.items():
            owner = root
            for step in place.split("."):
                owner = getattr(owner, step)
            assert owner is getattr(deeprec, name), place
    assert variables.CounterFilter is deeprec.CounterFilter
    tf.config.experimental.enable_distributed_strategy(strategy="collective")
    assert strategy.current().average_gradients and tf.variables_initializer is not initializer
    deeprec.uninstall_as_deeprec()
    assert strategy.current() is None and tf.variables_initializer is initializer
    assert {place: dir(owner) for place, owner in (
        ("tf", tensorflow), ("nn", tensorflow.nn), ("v1", tf))} == before
    with pytest.raises(ImportError):
        from tensorflow.core.framework.embedding import config_pb2  # noqa: F811


@pytest.mark.parametrize("given, words", [
    ("parameter_server", "no parameter servers"), ("hybrid", "expected 'collective' or 'localized'")])
def test_strategies_that_there_are_not(given, words):
    with pytest.raises(ValueError, match=words):
        deeprec.enable_distributed_strategy(given)
    assert strategy.current() is None


def test_one_strategy():
    deeprec.enable_group_embedding(fusion_type="collective")
    deeprec.enable_distributed_strategy()
    with pytest.raises(ValueError, match="'collective' with average_gradients=False.*in force already"):
        deeprec.enable_distributed_strategy(average_gradients=False)
    deeprec.disable_distributed_strategy()
    deeprec.enable_distributed_strategy("localized")
    assert sok.communication.num_ranks() == 1


def test_a_row_of_two_lookups_counts_once_in_the_norm_on_one_rank_too():
    """As on several ranks, and as the dense gradient of one process: clipping does not depend on how many there are."""
    sok.install_as_deeprec()
    tf.config.experimental.enable_distributed_strategy(strategy="collective")
    table = tf.get_embedding_variable("table", 2, initializer=tf.constant_initializer(1.0))
    dense = tf.get_variable("dense", initializer=[1.0, 2.0])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([3, 4], tf.int64)) * [[1.0, 2.0], [3.0, 0.0]])
    loss += tf.reduce_sum(tf.nn.embedding_lookup(table, tf.constant([4, 5], tf.int64))) + tf.reduce_sum(dense)
    clipped, norm = tf.clip_by_global_norm(tf.gradients(loss, [table, dense]), 1.0)
    step = tf.train.GradientDescentOptimizer(1.0).apply_gradients(zip(clipped, [table, dense]))
    rows = {3: [1, 2], 4: [3 + 1, 0 + 1], 5: [1, 1]}
    expected = np.linalg.norm(np.concatenate([*rows.values(), [1, 1]]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run([norm, step])[0], expected, rtol=1e-6)
        for key, values in zip(*session.run(sok.export(table))):
            np.testing.assert_allclose(values, 1 - np.array(rows[int(key)]) / expected, rtol=1e-5)
        np.testing.assert_allclose(session.run(dense), [1 - 1 / expected, 2 - 1 / expected], rtol=1e-5)


def test_clipped_gradients_of_plain_variables_alone():
    """Of half precision, which the norm is not made in, and slices that do not say how many rows there are."""
    sok.install_as_deeprec()
    tf.config.experimental.enable_distributed_strategy(strategy="collective")
    half = tf.get_variable("half", [64, 2], tf.float16, tf.zeros_initializer(), use_resource=True)
    clipped, norm = tf.clip_by_global_norm(tf.gradients(tf.reduce_sum(tf.gather(half, [5, 6, 5])), [half]), 1.0)
    assert clipped[0].values.dtype == tf.float16
    unknown = tf.clip_by_global_norm([tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]))], 1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        dense, found = session.run([tf.convert_to_tensor(clipped[0])[5:7], norm])
        np.testing.assert_allclose(found, 10 ** 0.5, rtol=1e-3)
        np.testing.assert_allclose(dense, np.array([[2, 2], [1, 1]]) / 10 ** 0.5, rtol=3e-3)
        np.testing.assert_allclose(session.run(unknown[1]), 2)


# ---- lookups

def test_as_tensorflows_own_lookups(seed):
    """Tables of all kinds and plain variables in one call, 20 steps of training each, with weights and without."""
    random = np.random.RandomState(seed)
    keys, batch, steps = 12, 6, 20
    wholes = [random.normal(size=[keys, dim]).astype(np.float32) for dim in (2, 3, 4, 2)]
    wholes[2][4:], wholes[3][:] = np.tile(wholes[2][:4], [2, 1]), 0.25  # of its three parts each begins so
    ours = [sok.Variable(wholes[0], name="ours"), tf.Variable(wholes[1], name="plain"),
            tf.get_variable("parts", [keys, 4], initializer=tf.constant_initializer(wholes[2][:4]),
                            partitioner=tf.fixed_size_partitioner(3)),
            deeprec.get_embedding_variable("ev", 2, initializer=0.25)]
    stock = [tf.Variable(whole) for whole in wholes]
    combiners, ids, weights, feeds = ["sum", "sqrtn", "mean", None], [], [], []
    for _ in wholes:
        ids.append(tf.ragged.placeholder(tf.int64, 1, []))
        weights.append(tf.ragged.placeholder(tf.float32, 1, []))
    for step in range(steps):
        feed = {}
        for each, weight in zip(ids, weights):
            lengths = random.randint(1, 4, batch)  # TensorFlow's own gives no rows to the last samples without ids
            splits = np.append(0, np.cumsum(lengths))
            feed[each] = tf.ragged.RaggedTensorValue(random.randint(0, keys, splits[-1]), splits)
            feed[weight] = tf.ragged.RaggedTensorValue(
                random.uniform(0.5, 2, splits[-1]).astype(np.float32), splits)
        feeds.append(feed)
    given = [weights[0], None, weights[2], weights[3]]
    found = deeprec.group_embedding_lookup_sparse(ours, ids, combiners, given, partition_strategy="div")
    right = [tf.nn.embedding_lookup_sparse(table, each.to_sparse(), None if weight is None else weight.to_sparse(),
                                           combiner=combiner or "mean")
             for table, each, weight, combiner in zip(stock, ids, given, combiners)]
    train = [tf.train.AdagradOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(tf.sin(out)) for out in outs]))
             for outs in (found, right)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for feed in feeds:
            mine, theirs, _ = session.run([found, right, train], feed)
            for one, other in zip(mine, theirs):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_sequences_and_empty_samples():
    table = sok.Variable(np.arange(8).reshape(4, 2), dtype=tf.float32)
    plain = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))
    ids, weights = sparse([[1, 3], [], [2]]), sparse([[2.0, 0.5], [], [3.0]], np.float32)
    calls = [deeprec.group_embedding_lookup_sparse([each] * 2, [ids] * 2, ["sum", "mean"], [weights] * 2,
                                                   is_sequence=sequence)
             for each in (table, plain) for sequence in (True, False)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        ours, ours_combined, plains, plains_combined = session.run(calls)
    assert ours[0].tolist() == [[[4, 6], [3, 3.5]], [[0, 0]] * 2, [[12, 15], [0, 0]]]
    assert ours[1].tolist() == [[[2, 3], [6, 7]], [[0, 0]] * 2, [[4, 5], [0, 0]]]
    assert [each.tolist() for each in ours] == [each.tolist() for each in plains]
    assert ours_combined[0].tolist() == plains_combined[0].tolist() == [[7, 9.5], [0, 0], [12, 15]]


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_plain_variables_of_other_floats(dtype):
    """As exact as they are."""
    exact = dtype == "float64"
    values = np.array([[1 + 1e-12], [2.0 ** 30 + 1]] if exact else [[1.5], [0.25]], dtype)
    weighing = np.array([1 + 1e-13, 0.5], dtype)
    plain = tf.get_variable("plain", initializer=values)
    ids, weights = sparse([[0], [1]]), sparse([weighing[:1], weighing[1:]], dtype)
    found = [deeprec.group_embedding_lookup_sparse([plain] * 4, [ids] * 4, ["sum", "mean", "sqrtn", "sum"],
                                                   [None, None, None, weights], is_sequence=sequence)
             for sequence in (False, True)]
    gradient, = tf.gradients(found[0][3], plain)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for each in session.run(found):
            assert {one.dtype.name for one in each} == {dtype}
            for one, expected in zip(each, [values] * 3 + [values * weighing[:, None]]):
                assert one.reshape(-1).tolist() == expected.reshape(-1).tolist()
        assert session.run(tf.convert_to_tensor(gradient)).reshape(-1).tolist() == weighing.tolist()


def test_plain_variables_of_integers_have_sums_and_nothing_else():
    plain, ids = tf.get_variable("plain", initializer=[[2 ** 30 + 1], [4]]), sparse([[0, 1]])
    found = [deeprec.group_embedding_lookup_sparse([plain], [ids], ["sum"])[0],
             deeprec.group_embedding_lookup_sparse([plain], [ids], ["mean"], is_sequence=True)[0]]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [each.tolist() for each in session.run(found)] == [[[2 ** 30 + 5]], [[[2 ** 30 + 1], [4]]]]
    for combiner, weights in (("mean", None), ("sqrtn", None), ("sum", [sparse([[1.0, 2.0]], np.float32)])):
        with pytest.raises(TypeError, match="params: got 'plain:0' of int32, .*expected a variable of floats"):
            deeprec.group_embedding_lookup_sparse([plain], [ids], [combiner], weights)


def test_sums_of_integers_are_exact():
    """Beyond 2 ** 53, where floats have gaps."""
    values = np.array([[2 ** 53 + 1, -2 ** 62 - 3], [2, 1], [2 ** 62 + 3, 0]], np.int64)
    variables = [tf.get_variable(name, initializer=tf.constant(values.astype(dtype), dtype))
                 for name, dtype in (("long", "int64"), ("short", "int32"))]
    lists = [[0], [0, 1, 1], [], [2]]
    found = deeprec.group_embedding_lookup_sparse(variables, [sparse(lists)] * 2, ["sum"] * 2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for each, variable in zip(session.run(found), session.run(variables)):
            np.testing.assert_array_equal(each, [variable[some].sum(0, each.dtype) for some in lists])
            assert each.dtype == variable.dtype


def test_partition_strategy_and_weights_in_either_order():
    table = sok.Variable(np.eye(3), dtype=tf.float32)
    ids, weights = sparse([[1], [2]]), sparse([[2.0], [3.0]], np.float32)
    calls = [deeprec.group_embedding_lookup_sparse([table], [ids], ["sum"], *more) for more in (
        ([weights], "div"), ("div", [weights]), ("mod", [weights]), ([weights],))]
    bare = deeprec.group_embedding_lookup_sparse([table], [ids], ["sum"], "mod")
    named = deeprec.group_embedding_lookup_sparse(
        [table], [ids], ["sum"], partition_strategy="mod", sp_weights=[weights], params_num_per_group=1)
    mixed = [deeprec.group_embedding_lookup_sparse([table], [ids], ["sum"], each, sp_weights=[weights], name="mixed")
             for each in ("mod", None)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for call in session.run(calls + [named] + mixed):
            assert call[0].tolist() == [[0, 2, 0], [0, 0, 3]]
        assert session.run(bare)[0].tolist() == [[0, 1, 0], [0, 0, 1]]
    with pytest.raises(TypeError, match="multiple values for argument 'sp_weights'"):
        deeprec.group_embedding_lookup_sparse([table], [ids], ["sum"], [weights], sp_weights=[weights])
    assert list(inspect.signature(deeprec.group_embedding_lookup_sparse).parameters)[2:5] == [
        "combiners", "sp_weights", "partition_strategy"]


@pytest.mark.parametrize("arguments, kind, words", [
    (dict(params=None), ValueError, "params: got None"),
    (dict(params=[]), ValueError, "params: got no variable"),
    (dict(sp_ids=[]), ValueError, "sp_ids: got 0 for 1 params"),
    (dict(combiners=["sum", "mean"]), ValueError, "combiners: got 2 for 1 params"),
    (dict(combiners=["max"]), ValueError, "combiners: got 'max', expected 'mean', 'sum' or 'sqrtn'"),
    (dict(sp_weights=[None, None]), ValueError, "sp_weights: got 2 for 1 params"),
    (dict(partition_strategy="hash"), ValueError, "partition_strategy: got 'hash'"),
    (dict(params_num_per_group=0), ValueError, "params_num_per_group: got 0"),
    (dict(sp_ids=[[1, 2]]), TypeError, "group_embedding_lookup_sparse: sp_ids: got .* expected a tf.RaggedTensor"),
    (dict(params=["items"]), TypeError, "params: got 'items' of type str"),
])
def test_what_a_lookup_refuses(arguments, kind, words):
    given = dict(params=[sok.Variable(np.eye(3), dtype=tf.float32)], sp_ids=[sparse([[1], [2]])], combiners=["sum"])
    with pytest.raises(kind, match=words):
        deeprec.group_embedding_lookup_sparse(**dict(given, **arguments))


def test_tensorflows_own_lookups_read_whole_tables():
    table = deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer())
    found = [tf.nn.embedding_lookup(table, [[7, 2 ** 40]]),
             tf.nn.embedding_lookup_sparse(table, sparse([[7, 8], [9]]), None, combiner="sum"),
             deeprec.group_embedding_lookup([table, tf.ones([4, 1])], [[7], [3]])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        dense, combined, (ours, plain) = session.run(found)
        assert session.run(table.total_count()).tolist() == [4, 2]
    assert (dense.tolist(), combined.tolist()) == ([[[1, 1], [1, 1]]], [[2, 2], [1, 1]])
    assert (ours.tolist(), plain.tolist()) == ([[1, 1]], [[1]])


def test_no_partition_strategy_is_the_usual_one():
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        parts = tf.get_variable("parts", [5, 2], initializer=tf.random_normal_initializer(),
                                partitioner=tf.fixed_size_partitioner(2))
        found = [deeprec.group_embedding_lookup([parts], [[0, 3, 4]], partition_strategy=given)[0]
                 for given in (None, "mod")]
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(*session.run(found))
