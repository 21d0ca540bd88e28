"""A fault at every step of an insertion, an eviction and a growth: nothing is lost, and the job is able to save."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.cuda_kernels import backend
from sok1x.graph_ops.operations import local_lookup
from sok1x.graph_ops.stores import growth
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore
from sok1x.graph_ops.stores.hashed_store import HashedStore

DIM = 2


class Fault(Exception):
    """What a test makes fail."""


class Model:
    """A table with Momentum's slot."""

    def __init__(self, **options):
        self.table = EmbeddingVariable(dim=DIM, initializer="ones", **options)
        self.keys = tf.placeholder(tf.int64, [None])
        # A local lookup runs by itself: what groups insert is inserted by C++.
        rows = local_lookup.lookup(self.table.table_variables, self.keys)
        optimizer = tf.train.MomentumOptimizer(1.0, 0.5)
        self.rows, self.step = rows, optimizer.minimize(tf.reduce_sum(rows * rows), var_list=[self.table])
        self.state = {variable.op.name: variable.value() for variable in tf.global_variables()}
        self.saver = tf.train.Saver()
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())

    def train(self, keys):
        self.session.run(self.step, {self.keys: list(keys)})

    def held(self):
        """{key: (row's values, slot's values)}, after a look at whether all that says which rows are in use agrees."""
        state = self.session.run(self.state)
        name = self.table.op.name
        index = state[name + "/index"]
        there = index[index[:, 1] >= 0]
        rows, given = there[:, 1], state[name + "/count"]
        assert len(set(rows.tolist())) == len(rows) == len(set(there[:, 0].tolist())) and (rows < given).all()
        if name + "/used" in state:
            used, counters = state[name + "/used"][:given], state[name + "/counters"]
            assert set(np.flatnonzero(used >= 0)) == set(rows.tolist()) and counters[1] == given - len(rows)
            assert state[name + "/free"][:counters[1]].tolist() == np.flatnonzero(used < 0)[::-1].tolist()
        else:
            assert len(rows) == given
        slot = state[name + "/Momentum"]
        return {int(key): (state[name][row].tolist(), slot[row].tolist()) for key, row in there}


class Faults:
    """Inside `place`, a function of `owner`, the launch of a kernel fails, after n that do not.

    Attributes:
      kernel: which that was, or None.
    """

    def __init__(self, patched, n, owner, place):
        self.kernel, self._left, self._inside = None, n, False
        real = getattr(owner, place)

        def inside(*arguments):
            self._inside = True
            try:
                return real(*arguments)
            finally:
                self._inside = False

        patched.setattr(owner, place, inside)
        for name in backend._signatures:
            patched.setattr(backend.kernels, name, self._failing(name, getattr(backend.kernels, name)), raising=False)

    def _failing(self, name, launch):
        def call(*arguments):
            if self._inside and self.kernel is None:
                self._left -= 1
                if self._left < 0:
                    self.kernel = name
                    raise Fault("at " + name)
            return launch(*arguments)
        return call


def in_turn(monkeypatch, owner, place, work, check):
    """Calls work() again and again, with a fault at each kernel that `place` launches, until there is none.

    Returns the names of the kernels that failed.
    """
    failed = []
    while True:
        with monkeypatch.context() as patched:
            faults = Faults(patched, len(failed), owner, place)
            try:
                work()
            except tf.errors.InternalError as error:
                assert faults.kernel is not None and "at " + faults.kernel in error.message, error
            else:
                assert faults.kernel is None
                return failed
        failed.append(faults.kernel)
        check(failed)


@pytest.fixture
def graph():
    sok.init()
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        yield graph


def expect_saved(model, folder, held, failed):
    """What a table holds is the same when it has been saved and restored: after some of the faults."""
    if len(failed) % 5 != 1:
        return
    path = model.saver.save(model.session, str(folder / "model"))
    model.session.run(tf.global_variables_initializer())
    model.saver.restore(model.session, path)
    assert model.held() == held


@pytest.mark.parametrize("strategy, options", [("lfu", {}), (None, {"admit_after": 2})])
def test_an_insertion_and_an_eviction(graph, monkeypatch, tmp_path, strategy, options):
    model = Model(rows=None, init_capacity=12, max_capacity=12 if strategy else 40, evict_strategy=strategy, **options)
    for keys in (range(12), range(12), range(6), () if strategy else (50, 51)):
        model.train(keys)
    before = model.held()

    def check(failed):
        held = model.held()
        left = set(before) - set(held)
        assert not set(held) - set(before), (failed, held)
        assert all(held[key] == before[key] for key in held), failed
        expect_saved(model, tmp_path, held, failed)
        for _ in range(2 if left else 0):  # what had to leave comes back, as new
            model.train(sorted(left))
        before.clear()
        before.update(model.held())
        assert len(before) == 12

    new = [50, 0, 51]
    failed = in_turn(monkeypatch, ForgetfulStore, "_give", lambda: model.train(new), check)
    assert set(model.held()) >= {50, 51, 0} and len(failed) >= (10 if strategy else 6), failed
    assert "sweep_runs" in failed or not strategy


@pytest.mark.parametrize("grows", [False, True])
def test_an_insertion_into_a_table_that_does_not_forget(graph, monkeypatch, tmp_path, grows):
    model = Model(**(dict(rows=None, init_capacity=30) if grows else dict(rows=30)))
    model.train(range(12))
    before = model.held()

    def check(failed):
        assert model.held() == before, failed
        expect_saved(model, tmp_path, before, failed)

    failed = in_turn(monkeypatch, HashedStore, "_enter", lambda: model.train([50, 0, 51]), check)
    assert len(failed) >= 4, failed
    assert set(model.held()) == set(range(12)) | {50, 51}


def test_a_growth(graph, monkeypatch, tmp_path):
    model = Model(rows=None, init_capacity=12, max_capacity=500, evict_strategy="lru")
    model.train(range(12))
    before = model.held()

    def check(failed):
        assert model.held() == before, failed
        lengths = {len(value) for name, value in model.session.run(model.state).items()
                   if name.endswith(("Variable", "stamps", "used", "free", "Momentum"))}
        assert lengths == {12}, (failed, lengths)
        expect_saved(model, tmp_path, before, failed)

    failed = in_turn(monkeypatch, growth, "_grow_to", lambda: model.train(range(10, 40)), check)
    assert len(failed) >= 10 and set(model.held()) == set(range(40)), failed
    assert "move_keys" in failed


def test_a_growth_in_place(graph, monkeypatch):
    """Rows stay where they are: what a fault leaves behind them is not what later rows begin with."""
    model = Model(rows=None, init_capacity=1 << 17, max_capacity=1 << 20, evict_strategy="lru")
    model.train(range(1 << 17))
    copies, copy, write = [], growth.dense.copy, growth.write_value
    monkeypatch.setattr(growth.dense, "copy", lambda *given: copies.append(given) or copy(*given))
    before = model.session.run(model.state)
    rows = [name for name, value in before.items() if len(np.shape(value)) and len(value) == 1 << 17]

    def failing(number):
        def write_other(array, first, end, value):
            if write_other.left == 0:
                write(array, first, array.size, 7)
                raise Fault("at the value of new rows")
            write_other.left -= 1
            write(array, first, end, value)
        write_other.left = number
        return write_other

    assert len(rows) == 5
    for number in range(5):
        with monkeypatch.context() as patched:
            patched.setattr(growth, "write_value", failing(number))
            with pytest.raises(tf.errors.InternalError, match="at the value of new rows"):
                model.train([1 << 17])
        after = model.session.run(model.state)
        for name in rows:
            assert after[name].tobytes() == before[name].tobytes(), (number, name)
    for first, last, capacity in ((1 << 17, 1 << 17, 1 << 18), ((1 << 17) + 1, 1 << 18, 1 << 19)):
        model.train(range(first, last + 1))
        after = model.session.run(model.state)
        for name in rows:
            assert len(after[name]) == capacity and after[name][:1 << 17].tobytes() == before[name].tobytes(), name
            assert not after[name][last + 1:].any(), name
    assert not copies
    values = after[model.table.op.name]
    assert (values[:last + 1] == -1).all()  # 1 less its gradient, 2


def test_a_variable_that_grows_in_place_is_one_of_tensorflows(graph, tmp_path):
    """Assigned, saved, restored and initialized as a whole, between growths."""
    model = Model(rows=None, init_capacity=1 << 17)
    model.train(range(1 << 17))
    held, table, session = model.session.run(model.table), model.table, model.session
    shared = session.run([table.value(), model.state[table.op.name + "/Momentum"]])
    session.run(table.assign(2 * held))  # TensorFlow's own memory
    model.train(range((1 << 17) + 1))
    values = session.run(table)
    # Its gradient is 2 at first, then -4: the slot has 2, then -3; and 2 of the new row.
    assert len(values) == 1 << 18 and (values[:1 << 17] == 1).all() and (values[1 << 17] == -1).all()
    path = model.saver.save(session, str(tmp_path / "model"))
    model.train(range(1 << 18, (1 << 18) + (1 << 17)))
    assert len(session.run(table)) == 1 << 19
    model.saver.restore(session, path)
    np.testing.assert_array_equal(session.run(table)[:1 << 18], values)
    assert (shared[0] == held).all()
    session.run(tf.global_variables_initializer())
    assert session.run(table.index[1]) == 0
    model.train(range(10))
    assert (session.run(table)[:10] == -1).all()
