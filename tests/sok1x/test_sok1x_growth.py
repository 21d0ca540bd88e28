"""What a growth does besides: it waits for nothing, and is the same where others have a slot at the time."""
import contextlib
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.cuda_kernels import backend
from sok1x.graph_ops.bridge import bridge, growing
from sok1x.graph_ops.groups import dense_lookup
from sok1x.graph_ops.operations import local_lookup
from sok1x.graph_ops.stores import host_left
from sok1x.graph_ops.stores.hashed_store import HashedStore

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 16


@contextlib.contextmanager
def model(**options):
    """A function that trains by keys, and one that gives all state."""
    sok.init()
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
        table = EmbeddingVariable(rows=None, dim=3, init_capacity=ROWS, **options)
        keys = tf.placeholder(tf.int64, [None])
        # A local lookup runs by itself: what groups insert without a growth is inserted by C++.
        rows = local_lookup.lookup(table.table_variables, keys)
        step = tf.train.MomentumOptimizer(0.5, 0.5).minimize(tf.reduce_sum(rows * rows), var_list=[table])
        state = {variable.op.name: variable.value() for variable in tf.global_variables()}
        session.run(tf.global_variables_initializer())
        yield lambda given: session.run(step, {keys: given}), lambda: session.run(state)


def test_a_growth_waits_for_nothing(monkeypatch):
    """Each number that Python reads is one that a GPU is waited for."""
    reads = []
    for owner in (backend.HostCounts, bridge.Array):
        monkeypatch.setattr(owner, "read", lambda self, real=owner.read: reads.append(type(self)) or real(self))
    with model() as (train, state):
        seen = []
        for given in (range(ROWS - 4), range(8, ROWS), range(2 * ROWS)):  # the first runs are TensorFlow's
            reads.clear()
            train(list(given))
            seen.append(list(reads))
        assert seen[2] == seen[1] and backend.HostCounts in seen[1], seen
        assert len(state()["EmbeddingVariable"]) == 2 * ROWS


@pytest.mark.parametrize("options", [{}, {"evict_strategy": "lru", "max_capacity": 8 * ROWS}])
def test_a_growth_while_others_have_a_slot_is_the_same(monkeypatch, seed, options):
    random = np.random.RandomState(seed)
    batches = [random.randint(-10 ** 9, 10 ** 9, count) for count in (ROWS, ROWS, 3 * ROWS, 7 * ROWS)]
    batches[1] = batches[0]
    found, unlocked = [], []
    reach, end, find = growing.Reached._reach, growing.Reached.end, HashedStore._find_and_count
    for others in (False, True):
        finds = []
        with monkeypatch.context() as patched:
            patched.setattr(growing.Reached, "_reach", lambda self, how, names: {"a slot": -2} if others
                            and how == "reach_at_once" else reach(self, how, names))
            patched.setattr(growing.Reached, "end", lambda self: unlocked.append(self.unlocked) or end(self))
            patched.setattr(HashedStore, "_find_and_count", lambda *given: finds.append(1) or find(*given))
            with model(**options) as (train, state):
                for batch in batches:
                    train(batch)
                found.append(state())
        assert unlocked and set(unlocked) == {others}
        assert len(finds) == (0 if options else 5 if others else 3), finds
        unlocked.clear()
    for name, value in found[0].items():
        assert value.tobytes() == found[1][name].tobytes(), name


def one_each(rows, **options):
    """A lookup of one key a sample, and what it is fed."""
    keys = tf.placeholder(tf.int64, [None])
    layer = sok.All2AllDenseEmbedding(rows, 3, 1, 1, **options)
    return layer, keys, layer(tf.reshape(keys, [-1, 1, 1]), training=True)


def pairs(rows, **options):
    """A lookup that sums two keys a sample, and what it is fed."""
    keys = tf.placeholder(tf.int64, [None])
    count = tf.size(keys, out_type=tf.int64)
    places = tf.stack([tf.range(count) // 2, tf.range(count) % 2], axis=1)
    layer = sok.DistributedEmbedding("sum", rows, 3, 1, 2, **options)
    return layer, keys, layer(tf.SparseTensor(places, keys, [(count + 1) // 2, 2]), training=True)


def refused_for_saving(train, keys, left):
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        train(keys)
    words = r"{} bytes of the host's memory are left, of which (\d+) are kept for saving, \1 for each of 1 ranks"
    kept = int(re.search(words.format(left), error.value.message).group(1))
    assert 1 << 27 <= kept <= (1 << 27) + (1 << 20), kept


def test_a_growth_on_the_host_leaves_what_saving_takes(monkeypatch):
    """The system promises what it does not have, and kills who writes it: so it is asked how much there is."""
    with model() as (train, state):
        # Bytes beside what saving takes; rows that there is room for then, None: the lookup is refused.
        for keys, besides, rows in (16, 0, 16), (18, 0, None), (18, 100, 18), (60, 100, None), (60, 1 << 20, 72):
            left, before = (1 << 27) + besides, state()
            monkeypatch.setattr(host_left, "_least", lambda: (left, ""))
            if rows is None:
                refused_for_saving(train, np.arange(keys), left)
                after = state()
                for name in before:
                    np.testing.assert_array_equal(before[name], after[name])
            train(np.arange(keys if rows else 16))
            assert len(state()["EmbeddingVariable"]) == (rows or len(before["EmbeddingVariable"]))


def test_rows_behind_a_cache_leave_what_saving_takes(monkeypatch):
    with model(cache_rows=64) as (train, _):
        train(np.arange(60))
        monkeypatch.setattr(host_left, "_least", lambda: (1 << 27, ""))
        batch = 0
        with pytest.raises(tf.errors.ResourceExhaustedError):
            for batch in range(1, 10000):
                train(np.arange(60) + 60 * batch)
        refused_for_saving(train, np.arange(60) + 60 * batch, 1 << 27)
        train(np.arange(60) + 60 * (batch - 1))  # what has rows goes on
        monkeypatch.setattr(host_left, "_least", lambda: (1 << 30, ""))
        train(np.arange(60) + 60 * batch)


@pytest.mark.parametrize("lookup", [one_each, pairs])
def test_what_a_group_has_found_to_need_more_rows_is_not_looked_up_again(monkeypatch, seed, lookup):
    random = np.random.RandomState(seed)
    batches = [np.arange(ROWS), np.arange(ROWS), random.randint(-10 ** 9, 10 ** 9, 3 * ROWS), np.arange(-9, ROWS)]
    tried, found = [], []
    for owner, name in ((HashedStore, "look_up"), (HashedStore, "insert"), (dense_lookup.Forward, "run")):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, real=real: tried.append(real) or real(*given))
    sok.init()
    for rows, options in ((None, {"init_capacity": ROWS}), (16 * ROWS, {})):
        with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
            layer, keys, embeddings = lookup(rows, **options)
            session.run(tf.global_variables_initializer())
            for number, batch in enumerate(batches):
                tried.clear()
                found.append(session.run(embeddings, {keys: batch}))
                assert number < 2 or not tried, (number, tried)  # at first Python sees it
            assert session.run(layer.embedding_variable.rows_in_use()) == len(np.unique(np.concatenate(batches)))
    for grown, fixed in zip(found, found[len(batches):]):
        assert grown.tobytes() == fixed.tobytes()


def many(tables, monkeypatch, give_room=HashedStore.give_room, reach=growing.Reached._reach):
    """What lookups of growing tables find that run at the same time, and how often Python has inserted keys."""
    inserts = []
    insert = HashedStore.insert
    with monkeypatch.context() as patched, tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
        patched.setattr(HashedStore, "give_room", give_room)
        patched.setattr(growing.Reached, "_reach", reach)
        patched.setattr(HashedStore, "insert", lambda *given: inserts.append(1) or insert(*given))
        made = [one_each(None, init_capacity=ROWS, max_capacity=limit) for limit in tables]
        session.run(tf.global_variables_initializer())
        found = []
        for first in (0, 0, 5, 100, 200):
            if first == 0:  # at first Python sees it
                inserts.clear()
            batch = np.arange(first, first + ROWS)
            found.append(session.run([rows for _, _, rows in made], {keys: batch for _, keys, _ in made}))
        found.append(session.run([layer.embedding_variable.rows_in_use() for layer, _, _ in made]))
        return found, inserts


def test_however_a_table_has_got_room_its_lookup_finds_the_same(monkeypatch):
    sok.init()
    give_room, reach, tables = HashedStore.give_room, growing.Reached._reach, [None, 8 * ROWS, None]

    def all_but_one(store, needed):
        return needed != 5 + ROWS and give_room(store, needed)

    def says_so(store, needed):  # and it has not
        return True

    def others_have_a_slot(self, how, names):
        return {"a slot": -2} if how == "reach_at_once" else reach(self, how, names)

    expected, inserts = many(tables, monkeypatch)
    assert not inserts and [int(rows) for rows in expected[-1]] == 3 * [5 + 3 * ROWS]
    for ways, often in (({"give_room": all_but_one}, 3), ({"give_room": says_so}, 6),
                        ({"reach": others_have_a_slot}, 0)):
        found, inserts = many(tables, monkeypatch, **ways)
        assert len(inserts) == often, (ways, inserts)
        for step, other in zip(expected, found):
            for rows, others in zip(step, other):
                assert rows.tobytes() == others.tobytes(), ways


@pytest.mark.parametrize("initializer", ["0.5", np.arange(300, dtype=np.float32).reshape(100, 3)])
def test_of_two_lookups_of_a_table_the_first_comes_first_also_where_it_grows(initializer):
    sok.init()
    found = []
    for capacity in (8 * ROWS, ROWS):
        with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
            table = sok.DynamicVariable(3, initializer=initializer, init_capacity=capacity)
            keys = [tf.placeholder(tf.int64, [None]) for _ in range(2)]
            rows = [sok.all2all_dense_embedding(table, each) for each in keys]
            session.run(tf.global_variables_initializer())
            for first in range(0, 7 * ROWS, ROWS):
                batch = range(first, first + ROWS)
                found.append(session.run(rows, {keys[0]: batch[:9], keys[1]: batch[9:]}))
            found.append(session.run(sok.export(table)))
    for fixed, grown in zip(found, found[len(found) // 2:]):
        for one, other in zip(fixed, grown):
            np.testing.assert_array_equal(one, other)


def test_of_tables_that_need_room_at_once_the_one_that_may_have_none_fails_alone(monkeypatch):
    sok.init()

    def fails(store, needed):
        raise RuntimeError("this test's")

    with pytest.raises(tf.errors.OpError, match="this test's"):
        many([None, None], monkeypatch, give_room=fails)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="is full on rank 0: 37 of 40 rows"):
        many([40], monkeypatch)
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
        made = [one_each(None, init_capacity=ROWS, max_capacity=limit) for limit in (None, ROWS)]
        session.run(tf.global_variables_initializer())
        fed = {keys: np.arange(3 * ROWS) for _, keys, _ in made}
        for _ in range(3):
            with pytest.raises(tf.errors.ResourceExhaustedError, match="max_capacity"):
                session.run([rows for _, _, rows in made], fed)
            assert session.run(made[0][2], fed).shape == (3 * ROWS, 1, 1, 3)
        assert [int(session.run(layer.embedding_variable.rows_in_use())) for layer, _, _ in made] == [3 * ROWS, 0]


@pytest.mark.parametrize("make", [
    lambda: tf.train.AdamOptimizer(0.5), lambda: tf.keras.optimizers.SGD(0.5), lambda: sok.DistributedOptimizer(
        tf.train.MomentumOptimizer(0.5, 0.5))])
def test_a_step_that_fails_as_the_table_of_a_dense_gradient_grows_is_not_taken_of_other_variables_neither(make):
    sok.init()
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session() as session:
        grows, other = [sok.DynamicVariable(3, initializer="1", init_capacity=rows) for rows in (ROWS, 8 * ROWS)]
        dense, fed = tf.get_variable("dense", initializer=1.0, use_resource=True), tf.placeholder(tf.int64, [None])
        whole = tf.identity(grows)
        with tf.control_dependencies([whole]):  # read before it grows, as it may be by chance
            keys = tf.identity(fed)
        looked_up = sum(tf.reduce_sum(sok.all2all_dense_embedding(table, keys)) for table in (grows, other))
        trained = [grows, other, dense]
        gradients = tf.gradients(tf.nn.l2_loss(whole) + dense * looked_up, trained)
        step, exported = make().apply_gradients(list(zip(gradients, trained))), sok.export(other)
        for op in session.graph.get_operations():  # what other ranks would take the step with
            assert op.name != "average_gradients/all_reduce" or gradients[0].op in op.control_inputs
        session.run(tf.global_variables_initializer())
        session.run(step, {fed: range(ROWS)})

        def state():
            keys, rows = session.run(exported)
            return session.run(dense), {key: row for key, row in zip(keys.tolist(), rows.tolist()) if row != [1.0] * 3}

        before = state()
        assert before[0] != 1 and sorted(before[1]) == list(range(ROWS))
        with pytest.raises(tf.errors.InvalidArgumentError, match="AddN"):
            session.run(step, {fed: range(2 * ROWS)})
        assert state() == before
        session.run(step, {fed: range(2 * ROWS)})  # it has grown
        assert sorted(state()[1]) == list(range(2 * ROWS))


def test_optimizers_that_ask_how_many_rows_there_are():
    """In a process of its own: where sok.deeprec or feature columns have been, all optimizers take such tables."""
    finished = run_ranks(0, """
import tensorflow.compat.v1 as tf
import sok1x as sok
for kind in (tf.train.FtrlOptimizer, tf.train.ProximalAdagradOptimizer):
    with tf.Graph().as_default():
        table = sok.DynamicVariable(2, name="users")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([1, 2])))
        try:
            kind(0.1).minimize(loss, var_list=[table])
        except ValueError as error:
            assert "'users' grows" in str(error) and "wrap it: sok1x.DistributedOptimizer(opt" in str(error), error
            sok.OptimizerWrapper(kind(0.1)).apply_gradients([(tf.gradients(loss, table)[0], table)])
            print("refused")
""", timeout=120)
    assert finished.out.count("refused") == 2, str(finished)


@pytest.mark.parametrize("ranks", [0, 2])
def test_those_optimizers_train_what_grows_and_dense_variables_in_a_distributed_optimizer(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_distributed_growing.py"), seed, timeout=300)
    assert finished.out.count(" ok") == 9 * max(1, ranks), str(finished)
