"""Tables in host memory with a cache, in one process: options, whose the memory is, and what else looks rows up."""
import gc
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hybrid_table import Small
from stock_lazy_adam import LazyAdamOptimizer

import sok1x as sok
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import cache, crossing, host_tier


@pytest.fixture(autouse=True)
def joined():
    sok.init()


@pytest.mark.parametrize("options, error, words", [
    (dict(cache_rows=0), ValueError, "cache_rows: got 0, expected an integer from 1"),
    (dict(cache_rows=2, cache_strategy="fifo"), ValueError,
     "cache_strategy: got 'fifo', expected None or one of 'lru', 'lfu'"),
    (dict(cache_rows=True), TypeError, "cache_rows: got True of type bool"),
    (dict(cache_rows=2, var_type="hbm"), ValueError, "cache_rows: got 2 with var_type='hbm'"),
    (dict(max_hbm_for_vectors=-1), ValueError, "max_hbm_for_vectors: got -1, expected a number of GB"),
    (dict(max_hbm_for_vectors=float("inf")), ValueError, "max_hbm_for_vectors: got inf, expected a number of GB"),
    (dict(max_pinned_memory="much"), TypeError, "max_pinned_memory: got 'much' of type str, expected a number of GB"),
    (dict(max_pinned_memory=1), ValueError, "max_pinned_memory=1 without a cache, expected cache_rows or"),
    (dict(cache_strategy="lfu"), ValueError, "got cache_strategy='lfu' and max_pinned_memory=None without a cache"),
    (dict(cache_rows=2, initializer=[[1.0, 2.0]]), ValueError, "values of rows for a table that has a cache")])
def test_what_does_not_fit_is_refused(options, error, words):
    with tf.Graph().as_default(), pytest.raises(error) as raised:
        sok.DynamicVariable(2, **options)
    assert words in str(raised.value)


def test_where_there_is_no_cache():
    with tf.Graph().as_default():
        for options in (dict(cache_rows=100, max_capacity=100), dict(max_hbm_for_vectors=0), {},
                        dict(var_type="hbm", max_hbm_for_vectors=4)):
            assert sok.DynamicVariable(2, **options).table.cache is None
        with pytest.raises(ValueError, match="got a cache of 2 rows and a fixed number of 8 rows"):
            sok.EmbeddingVariable(rows=8, dim=4, cache_rows=2)


def test_layers_have_caches_too():
    with tf.Graph().as_default():
        made = sok.All2AllDenseEmbedding(None, 4, 2, 1, cache_rows=8, cache_strategy="lfu", max_pinned_memory=1)
        for layer in (made, sok.All2AllDenseEmbedding.from_config(made.get_config())):
            assert layer.embedding_variable.table.cache == cache.Cache(8, "lfu", 1 << 30)
            assert layer.embedding_variable.shape.as_list() == [None, 4]


@pytest.mark.parametrize("make", [tf.train.AdamOptimizer, tf.keras.optimizers.Adam])
def test_optimizers_of_whole_slots_are_refused(make):
    with pytest.raises(ValueError, match="LazyAdamOptimizer.*sok1x.optimizers.Adam, which moves all"):
        Small(0, make(0.1))


@pytest.mark.parametrize("write", ["assign_add", "assign_sub"])
def test_writes_to_a_whole_variable_are_refused(write):
    """It has the cache's rows: weights that are to decay would do so only where they happen to be there."""
    with tf.Graph().as_default():
        table = sok.DynamicVariable(2, cache_rows=4, name="users")
        optimizer = tf.train.AdagradOptimizer(0.1)
        looked_up = sok.all2all_dense_embedding(table, tf.constant([[1], [2]], tf.int64))
        optimizer.apply_gradients([(tf.gradients(looked_up, table)[0], table)])
        for variable, words in ((table, "table 'users', .*the whole variable"),
                                (optimizer.get_slot(table, "accumulator"), "slot '.*' of table 'users', .*whole slot")):
            with pytest.raises(ValueError, match=words + r" \({}\)".format(write)):
                getattr(variable, write)(0.1 * variable)


@pytest.mark.parametrize("write", ["assign", "load"])
def test_other_values_of_whole_slots_are_refused(write):
    with tf.Graph().as_default(), tf.Session():
        table = sok.DynamicVariable(2, cache_rows=4, name="users")
        optimizer = tf.train.AdagradOptimizer(0.1)
        looked_up = sok.all2all_dense_embedding(table, tf.constant([[1], [2]], tf.int64))
        optimizer.apply_gradients([(tf.gradients(looked_up, table)[0], table)])
        with pytest.raises(ValueError, match=r"slot '.*' of table 'users', .*whole slot \({}\)".format(write)):
            getattr(optimizer.get_slot(table, "accumulator"), write)(np.zeros([4, 2], np.float32))


def test_other_values_of_whole_variables_are_refused():
    """They gave a session another one's index, whose rows were not in its memory: a crash, or zeros."""
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, cache_rows=4, name="users")
        for variable in [table, *table.index, *table.forgetting.values()]:
            value = tf.zeros_like(variable)
            for call in (lambda: variable.assign(value), lambda: variable.load(value, session)):
                with pytest.raises(ValueError, match="table 'users', .*got (assign|load) of 'users.*sok.assign"):
                    call()
        kept = sok.DynamicVariable(2, cache_rows=4, constraint=tf.keras.constraints.NonNeg())
        kept.assign(tf.zeros([4, 2]))  # as the constraint does
        with pytest.raises(ValueError, match="got load of"):
            kept.load(np.zeros([4, 2]), session)


def test_memory_is_a_sessions_and_goes_with_it():
    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def fill(small, dim):
        with small.graph.as_default():
            wide = sok.DynamicVariable(dim, "1", name="wide", cache_rows=16)
            rows = sok.all2all_dense_embedding(wide, small.keys).op
            small.session.run([one.initializer for one in tf.global_variables() if "wide" in one.op.name])
        for first in range(0, 1024, 16):
            small.session.run(rows, {small.keys: range(first, first + 16)})
        return small.session.run(sok.table_stats(wide).host_bytes)

    gc.collect()  # tables of other tests: their memory goes before what is measured
    one = Small()
    other = tf.Session(graph=one.graph)
    other.run(one.initial)
    other.run(one.step, {one.keys: [100]})
    assert one.number(cache.GIVEN) == 12 and other.run(one.table.forgetting["tiers"])[cache.GIVEN] == 1
    assert len(one.export()) == 12 and len(other.run(one.exported)[0]) == 1
    other.close()
    before = resident()
    assert fill(one, 1 << 14) >= 1024 * (1 << 16)
    assert resident() - before > 800 << 16  # of 1024: some pages had been touched before
    one.session.close()
    assert resident() - before < 200 << 16


def test_initializers_begin_again():
    small = Small(10)
    assert small.export() == {key: [0.0, 0.0] for key in range(10)}
    slot = small.optimizer.get_slot(small.table, "momentum")
    small.session.run(slot.initializer)  # of rows in host memory too
    for key in range(10):
        small.train(key)
    assert small.export() == {key: [-1.0, -1.0] for key in range(10)}
    small.session.run(small.initial)
    assert small.export() == {} and small.session.run(small.table.size).tolist() == [0, 2]
    small.train(3)
    assert small.export() == {3: [0.0, 0.0]}


def test_slots_that_come_late_begin_as_others():
    small = Small(10)
    with small.graph.as_default():
        late = tf.train.AdagradOptimizer(1.0, 0.25)
        step = late.apply_gradients([(tf.gradients(2 * tf.reduce_sum(small.rows), small.table)[0], small.table)])
        small.session.run(late.get_slot(small.table, "accumulator").initializer)
    for key in (0, 9, 4):
        small.session.run(step, {small.keys: [key]})
    moved = np.float32(-2 / np.sqrt(np.float32(4.25)))
    for key, row in small.export().items():
        np.testing.assert_allclose(row, moved if key in (0, 9, 4) else 0, rtol=1e-6)


def test_slots_that_are_there_lie_beside_the_rows(monkeypatch):
    lie, begin = {}, crossing.Crossing.__init__

    def look(self, store, columns, *how):
        lie.clear()
        lie.update({name.split("/")[-1]: (column.in_record, column.offset, column.stride)
                    for name, (column, _) in columns.items()}, begun=store.tier.fields())
        begin(self, store, columns, *how)

    monkeypatch.setattr(crossing.Crossing, "__init__", look)
    small = Small(10)
    expected = {"rows": (True, 0, 16), "Momentum": (True, 8, 16), "stamps": (False, 0, 8), "used": (False, 0, 8),
                "begun": 2}
    assert lie == expected
    with small.graph.as_default():
        late = tf.train.AdagradOptimizer(1.0, 0.25)
        late.apply_gradients([(tf.gradients(tf.reduce_sum(small.rows), small.table)[0], small.table)])
        small.session.run([late.get_slot(small.table, "accumulator").initializer,
                           small.optimizer.get_slot(small.table, "momentum").initializer])
    small.train(3)
    assert lie == dict(expected, Adagrad=(False, 0, 8))
    assert small.export() == {key: [0.0 - (key == 3)] * 2 for key in range(10)}
    with small.graph.as_default():
        # Rows of 64 bytes and more, and what is beside them, begin where a GPU reads 16 bytes at once.
        wide = sok.DynamicVariable(17, "1", name="records", cache_rows=2)
        rows = sok.all2all_dense_embedding(wide, small.keys)
        step = tf.train.AdagradOptimizer(1.0).apply_gradients([(tf.gradients(tf.reduce_sum(rows), wide)[0], wide)])
        small.session.run([one.initializer for one in tf.global_variables() if one.op.name.startswith("records")])
    for key in range(3):
        small.session.run(step, {small.keys: [key]})
    assert (lie["rows"], lie["Adagrad"], lie["begun"]) == ((True, 0, 160), (True, 80, 160), 2)


def test_what_else_reads_and_writes_rows(tmp_path):
    small = Small(10)
    with small.graph.as_default():
        local = tf.nn.embedding_lookup(small.table, small.keys)
        assigned = sok.assign(small.table, [2, 30, 9], [[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])
        changed = sok.incremental_dump(small.table, 10)
    assert small.session.run(local, {small.keys: [0, 40]}).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    small.session.run(assigned)
    expected = {**{key: [0.0, 0.0] for key in range(10)}, 40: [1.0, 1.0], 2: [5.0, 5.0], 30: [6.0, 6.0], 9: [7.0, 7.0]}
    assert small.export() == expected
    assert {2, 9, 30, 40} == set(small.session.run(changed)[0].tolist())
    with small.session.as_default(), small.graph.as_default():
        sok.dump(str(tmp_path / "dumped"), small.table)
    for options in (dict(cache_rows=7), dict(var_type="hbm", cache_rows=None)):
        other = Small(20, **options)
        with other.session.as_default(), other.graph.as_default():
            sok.load(str(tmp_path / "dumped"), other.table)
        assert other.export() == expected and other.session.run(other.table.size)[0] == len(expected)
        other.train(2)
        assert other.export()[2] != [5.0, 5.0]
    values = np.arange(22, dtype=np.float32).reshape(11, 2)
    with small.graph.as_default():
        load = sok.Saver().load_embedding_values(small.table, [values[:7], values[7:]])
    small.session.run(load)
    assert small.export() == {key: row for key, row in enumerate(values.tolist())}
    small.train(8)
    # The slot is that of the row, as of a table without a cache: it had 1.
    assert small.export()[8] == [14.5, 15.5] and small.export()[7] == [14.0, 15.0]


def test_what_is_not_pinned_goes_through_copies(monkeypatch):
    def follow():
        small, seen = Small(0, LazyAdamOptimizer(0.1), max_capacity=30), []
        with small.graph.as_default():
            evaluated = embedding.lookup_dense(small.table.table_variables, small.keys, False)
        random = np.random.RandomState(5)
        for _ in range(40):
            small.train(*random.randint(0, 40, random.randint(1, 5)))
            seen.append(small.session.run(evaluated, {small.keys: random.randint(0, 40, 9)}).tolist())
        return seen, small.export(), small.number(cache.PUSHED)

    expected = follow()
    assert expected[2] > 40
    monkeypatch.setattr(host_tier.HostColumn, "reachable", False)
    assert follow() == expected
    small = Small(0, sok.optimizers.Adam(0.1))
    with pytest.raises(tf.errors.FailedPreconditionError, match="moves every row.*not pinned; nothing was changed"):
        small.train(1)


def test_keys_that_leave_are_given_out():
    small = Small(8, max_capacity=8)
    with small.graph.as_default():
        read = sok.sparse_read_and_evict(small.table, small.keys)
    vectors, keys, rows = small.session.run(read, {small.keys: [20, 1]})
    assert vectors.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    # The key whose turn would have been asks for its row itself.
    assert keys.tolist() == [0] and rows.tolist() == [[0.0, 0.0]]
    assert set(small.export()) == {1, 2, 3, 4, 5, 6, 7, 20} and small.number(cache.FREE) == 0
    with pytest.raises(tf.errors.ResourceExhaustedError, match="its cache has 4 rows, too few: 0 of them belong"):
        small.session.run(read, {small.keys: range(100, 105)})
    gone, _ = sok.evicted_keys(small.table, 0, small.session)
    assert gone.tolist() == [0]
