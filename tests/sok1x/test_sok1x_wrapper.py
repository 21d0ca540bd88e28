"""`sok.OptimizerWrapper`, `sok.SGD`, `sok.filter_variables`."""
import copy
import os
import pickle

import keras_policies
import kit_files
import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok

v1 = tf
KERAS = tf.keras.optimizers
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_wrapper.py")
FIRST = np.arange(10).reshape(5, 2).astype(np.float32)


@pytest.fixture(autouse=True)
def joined():
    sok.init()
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("ranks, every", [(2, 1), (1, 4), pytest.param(4, 4, marks=pytest.mark.slow)])
def test_every_step_is_the_plain_optimizers(ranks, every, seed):
    finished = run_ranks(ranks, PROGRAM, seed, 50, every, timeout=300)
    assert finished.out.count("ok") == ranks, str(finished)


def values(fetches, steps, times=3):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(times):
            session.run(steps)
        return session.run(fetches)


@pytest.mark.parametrize("make", [lambda: v1.train.AdamOptimizer(0.1), lambda: KERAS.Adam(0.1),
                                  lambda: KERAS.Nadam(0.1)])
def test_both_kinds_of_variables_in_one_call(make):
    """They are trained as by one optimizer, with one count of steps; dense gradients are taken as they are."""
    table, other = sok.Variable(FIRST), v1.get_variable("other", initializer=FIRST, use_resource=True)
    plain = [v1.get_variable(name, initializer=FIRST, use_resource=True) for name in ("one", "two")]
    step = v1.train.get_or_create_global_step()
    wrapped = sok.OptimizerWrapper(make())
    made = wrapped.apply_gradients(((one * one, one) for one in (other, table)), step, "both")
    assert made.name.startswith("both")
    expected = make().apply_gradients([(one * one, one) for one in plain])
    got = values([table, other, plain, step], [made, expected])
    np.testing.assert_array_equal(got[:2], got[2])
    assert got[3] == 3
    counters = [variable for variable in wrapped.variables() if variable.shape.rank == 0]
    assert len({variable.op.name for variable in counters}) == len(counters) <= 2


@pytest.mark.parametrize("set_rate", [lambda optimizer: setattr(optimizer, "lr", 0.25),
                                      lambda optimizer: setattr(optimizer, "learning_rate", 0.25),
                                      lambda optimizer: optimizer._set_hyper("learning_rate", 0.25)])
@pytest.mark.parametrize("when", ["before wrapping", "after wrapping", "after the first step was built"])
def test_a_learning_rate_of_keras_that_is_assigned(set_rate, when):
    optimizer, table = KERAS.SGD(1.0), sok.Variable(FIRST)
    dense = v1.get_variable("dense", initializer=FIRST, use_resource=True)
    if when == "before wrapping":
        set_rate(optimizer)
    wrapped = sok.OptimizerWrapper(optimizer)
    if when == "after wrapping":
        set_rate(optimizer)
    steps = [wrapped.apply_gradients([(tf.ones([5, 2]), table)]), optimizer.apply_gradients([(tf.ones([5, 2]), dense)])]
    assert wrapped.lr is optimizer.lr
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        if when == "after the first step was built":
            set_rate(optimizer)
        session.run(steps)
        for variable in (table, dense):
            np.testing.assert_array_equal(session.run(variable), FIRST - 0.25)


def test_an_optimizer_that_has_trained_before_it_is_wrapped():
    for make in (lambda: v1.train.AdamOptimizer(0.1), lambda: KERAS.Nadam(0.1), lambda: KERAS.Adamax(0.1)):
        with tf.Graph().as_default():
            optimizer, table = make(), sok.Variable(FIRST)
            dense, plain = [v1.get_variable(name, initializer=FIRST, use_resource=True) for name in ("a", "b")]
            first = optimizer.apply_gradients([(dense * dense, dense)])
            wrapped = sok.OptimizerWrapper(optimizer)
            again = sok.OptimizerWrapper(optimizer)  # and this one has a state of its own too
            other = sok.Variable(FIRST)
            steps = [first, wrapped.apply_gradients([(table * table, table)]),
                     again.apply_gradients([(other * other, other)]), make().apply_gradients([(plain * plain, plain)])]
            got = values([dense, table, other, plain], steps)
            for one in got[:3]:
                np.testing.assert_array_equal(one, got[3])
            assert optimizer.get_slot(dense, "m") is not None and wrapped.get_slot(dense, "m") is None
            names = [variable.op.name for one in (optimizer, wrapped, again) for variable in one.variables()]
            assert len(set(names)) == len(names)


class Halved(v1.train.Optimizer):
    """An optimizer of one's own: no get_config, one inside, and a number that it changes."""

    def __init__(self, inner):
        super().__init__(False, "Halved")
        self._inner, self.factor, self.seen = inner, 0.5, None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(self.factor * gradient, variable) for gradient, variable in grads_and_vars]
        self.seen = len(pairs)
        return self._inner.apply_gradients(pairs, global_step, name)


def test_an_optimizer_of_ones_own_with_one_inside():
    optimizer, table = Halved(v1.train.MomentumOptimizer(1.0, 0.5)), sok.Variable(FIRST)
    dense = v1.get_variable("dense", initializer=FIRST, use_resource=True)
    wrapped = sok.OptimizerWrapper(optimizer)
    optimizer.factor = 0.25
    steps = [wrapped.apply_gradients([(tf.ones([5, 2]), table), (None, sok.Variable(FIRST))]),
             optimizer.apply_gradients([(tf.ones([5, 2]), dense), (tf.ones([5, 2]), sok.Variable(FIRST))])]
    got = values([table, dense], steps, times=2)
    for one in got:  # a quarter, then this and half of it
        np.testing.assert_array_equal(one, FIRST - 0.625)
    assert optimizer.seen == 2 and wrapped._own.seen == 1


def test_slots_that_are_dumped_are_the_wrappers_own(tmp_path):
    """Also where the optimizer that was wrapped has trained the same variable, and where another one is inside."""
    for make, called in ((lambda: v1.train.MomentumOptimizer(1.0, 0.5), "Momentum"),
                         (lambda: Halved(v1.train.MomentumOptimizer(1.0, 0.5)), "Momentum"),
                         (lambda: KERAS.Adam(), "Adam")):
        with tf.Graph().as_default(), v1.Session() as session:
            optimizer, table = make(), sok.Variable(FIRST, name="table")
            wrapped = sok.OptimizerWrapper(optimizer)
            steps = [optimizer.apply_gradients([(tf.ones([5, 2]), table)]),
                     wrapped.apply_gradients([(2 * tf.ones([5, 2]), table)])]
            session.run(v1.global_variables_initializer())
            session.run(steps[0])
            session.run(steps)
            for which, path in ((optimizer, "given"), (wrapped, "wrapped")):
                sok.dump(str(tmp_path / path), table, which)
            inside = wrapped._own._inner if isinstance(optimizer, Halved) else wrapped
            for slot in inside.get_slot_names():
                dumped = [kit_files.read(str(tmp_path / path))["table_0"] for path in ("given", "wrapped")]
                assert [one.optimizer for one in dumped] == [called] * 2
                np.testing.assert_array_equal(dumped[1].slots[slot], session.run(inside.get_slot(table, slot)))
                assert (dumped[0].slots[slot] != dumped[1].slots[slot]).all()


def test_sgd():
    rates = [0.5, np.float32(0.5), v1.get_variable("rate", initializer=0.5), tf.constant(0.5)]
    tables = [sok.Variable(FIRST) for _ in rates]
    optimizers = [sok.SGD(rate) for rate in rates]
    assert optimizers[2].lr is rates[2] and isinstance(optimizers[0].lr, tensorflow.Variable)
    count = v1.train.get_or_create_global_step()
    slices = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 4, 1]), tf.constant([5, 2]))
    steps = [optimizer.apply_gradients([(slices, table), (None, table)], global_step=count)
             for optimizer, table in zip(optimizers, tables)]
    got = values([tables, count], steps, times=1)
    for one in got[0]:
        np.testing.assert_array_equal(one, FIRST - np.array([[0], [1], [0], [0], [0.5]]))
    assert got[1] == 4
    assert optimizers[0].lr not in v1.trainable_variables()


def test_filter_variables():
    dense, table = v1.get_variable("dense", [2]), sok.Variable(FIRST)
    layers = sok.EmbeddingVariable(rows=2, dim=2)
    assert sok.filter_variables([layers, dense, table]) == ([layers, table], [dense])
    assert sok.filter_variables(tuple(v1.trainable_variables())) == ([table, layers], [dense])
    assert sok.filter_variables([]) == ([], [])
    with pytest.raises(ValueError, match="filter_variables.*expected a list or tuple"):
        sok.filter_variables(table)
    with pytest.raises(ValueError, match="filter_variables.*expected a variable"):
        sok.filter_variables([table, 3])


def test_slots_and_rates():
    table, rate = sok.Variable(FIRST), tf.constant(0.1)
    for make, lr in ((v1.train.AdamOptimizer, rate), (v1.train.FtrlOptimizer, rate), (v1.train.RMSPropOptimizer, 0.5),
                     (KERAS.Adagrad, rate)):
        wrapped = sok.OptimizerWrapper(make(lr))
        assert wrapped.lr is lr and wrapped.get_slot_names() == [] and wrapped.variables() == []
        wrapped.apply_gradients([(tf.ones([5, 2]), table)])
        names = wrapped.get_slot_names()
        assert names
        for name in names:
            assert wrapped.get_slot(table, name).shape.as_list() == [5, 2]
            assert wrapped.get_slot(table, name) in wrapped.variables()
            assert make(lr).get_slot_names() == []


@pytest.mark.parametrize("make", [lambda: v1.train.AdamOptimizer(0.1), lambda: v1.train.FtrlOptimizer(0.1),
                                  lambda: KERAS.Adam(0.1), lambda: getattr(KERAS, "legacy", KERAS).Adagrad(0.1)])
def test_built_before_the_first_step(make):
    """Slots are those that a step makes, by the same names, and it makes no others."""
    names, rows = [], []
    for builds in (True, False):
        with tf.Graph().as_default():
            tables = [sok.Variable(FIRST, name="static"),
                      sok.DynamicVariable(dimension=2, initializer="ones", init_capacity=2, name="grows")]
            wrapped = sok.OptimizerWrapper(make())
            if builds:
                wrapped.build(tables)
                built = [variable.op.name for variable in wrapped.variables()]
                assert all(wrapped.get_slot(table, name) is not None
                           for table in tables for name in wrapped.get_slot_names())
            ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 3, 4], tf.int64), [2, 1])
            vectors = sok.lookup_sparse(tables, [ids, ids], combiners=["sum", "sum"])
            loss = tf.add_n([tf.reduce_sum(one ** 2) for one in vectors])
            step = wrapped.apply_gradients(zip(tf.gradients(loss, tables), tables))
            names.append([variable.op.name for variable in wrapped.variables()])
            rows.append(values(vectors, step))
    assert sorted(names[0]) == sorted(names[1])
    assert set(built) <= set(names[0]) and len(built) >= len(names[0]) - 2  # but for numbers of the step itself
    np.testing.assert_array_equal(*rows)


def test_what_is_refused():
    table = sok.Variable(FIRST)
    wrapped = sok.OptimizerWrapper(KERAS.Adam())
    for given, words in (("adam", "expected an optimizer of tf.train or tf.keras.optimizers"),
                         (wrapped, "expected the optimizer that it was made of"),
                         (keras_policies.LossScaleOptimizer(KERAS.Adam(), 8), "scales losses")):
        with pytest.raises(TypeError, match=words):
            sok.OptimizerWrapper(given)
    for pairs, words in (([], "no variables at all"), ([(None, table)], "no gradient for any variable: Variable:0")):
        with pytest.raises(ValueError, match=words):
            wrapped.apply_gradients(pairs)
    for given in ("0.1", True, None, [0.1]):
        with pytest.raises(TypeError, match="lr: got"):
            sok.SGD(given)


@pytest.mark.parametrize("caller, call", [("copy.copy", copy.copy), ("copy.deepcopy", copy.deepcopy),
                                          ("pickle", pickle.dumps)])
def test_one_is_not_copied(caller, call):
    wrapped = sok.OptimizerWrapper(tf.train.AdamOptimizer(0.1))
    with pytest.raises(TypeError, match="got {} of one.*Make a second OptimizerWrapper of another Adam".format(caller)):
        call(wrapped)


@pytest.mark.skipif(not v1.__version__.startswith("1."), reason="TensorFlow 2 has no contrib")
def test_all_of_contrib_step_as_ever_or_are_refused_by_their_names(seed):
    """Given gradients like a lookup's; beside them, the same for a variable of TensorFlow's."""
    import tensorflow.contrib.opt as contrib
    make = {
        "AdaMaxOptimizer": lambda of: of(0.1), "AdamGSOptimizer": lambda of: of(0, 0.1),
        "AdamWOptimizer": lambda of: of(0.01, 0.1), "LARSOptimizer": lambda of: of(0.1),
        "LazyAdamGSOptimizer": lambda of: of(0, 0.1), "LazyAdamOptimizer": lambda of: of(0.1),
        "MomentumWOptimizer": lambda of: of(0.01, 0.1, 0.9),
        "MovingAverageOptimizer": lambda of: of(v1.train.AdagradOptimizer(0.1)),
        "MovingAverageOptimizer of descent": lambda of: of(v1.train.GradientDescentOptimizer(0.1)),
        "NadamOptimizer": lambda of: of(0.1), "RegAdagradOptimizer": lambda of: of(0.1),
        "VariableClippingOptimizer": lambda of: of(v1.train.GradientDescentOptimizer(0.1), {}, 1.0),
    }
    every = [name for name in dir(contrib) if name.endswith(("Optimizer", "OptimizerWrapper"))]
    refused = set(every) - set(make)
    assert len(every) > 15 and refused
    for name in refused:
        kind = getattr(contrib, name)
        with pytest.raises(TypeError, match="got a {} of tf.contrib.opt, which cannot train tables: ".format(name)):
            sok.OptimizerWrapper(kind.__new__(kind))
    for kind in (contrib.AddSignOptimizer, contrib.PowerSignOptimizer, contrib.GGTOptimizer):
        with tf.Graph().as_default():
            dense = v1.get_variable("dense", initializer=FIRST, use_resource=True)
            table = sok.DynamicVariable(2, initializer="1")
            rows = sok.all2all_dense_embedding(table, tf.constant([7], tf.int64))
            with pytest.raises(TypeError, match="DistributedOptimizer: got a {} of tf.contrib.opt for table .{}".format(
                    kind.__name__, table.table.name)):
                sok.DistributedOptimizer(kind()).minimize(tf.reduce_sum(rows) + tf.reduce_sum(dense))
            sok.DistributedOptimizer(kind()).minimize(tf.reduce_sum(dense), var_list=[dense])
            with pytest.raises(TypeError, match="^got a {} of tf.contrib.opt for table .{}.*split_embedding".format(
                    kind.__name__, table.table.name)):
                kind().minimize(tf.reduce_sum(rows) + tf.reduce_sum(dense))
            kind().minimize(tf.reduce_sum(dense), var_list=[dense])
    with tf.Graph().as_default():
        for table in sok.DynamicVariable(2, "1"), sok.EmbeddingVariable(8, 2):
            with pytest.raises(TypeError, match="^got a ShampooOptimizer of .* a rank has some"):
                contrib.ShampooOptimizer().minimize(tf.reduce_sum(sok.all2all_dense_embedding(
                    table, tf.constant([7], tf.int64))), var_list=[table])
    for table_of, dims in ((lambda: sok.DynamicVariable(2, "1"), [0]), (lambda: sok.EmbeddingVariable(8, 2), [0, 1])):
        with tf.Graph().as_default():
            table = table_of()
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([7], tf.int64)))
            clipping = contrib.VariableClippingOptimizer(v1.train.GradientDescentOptimizer(0.1), {table: dims}, 1.0)
            for optimizer in (clipping, sok.DistributedOptimizer(clipping)):
                with pytest.raises(TypeError, match="clips table '{}' by norms along .*0.*expected .1.".format(
                        table.table.name)):
                    optimizer.minimize(loss)
    values_of = np.random.RandomState(seed).randn(2, 2).astype(np.float32)
    gradient = tf.IndexedSlices(tf.constant(values_of), tf.constant([3, 1]), tf.constant([5, 2]))
    both, steps = [], []
    for name in sorted(make):
        kind = getattr(contrib, name.split(" ")[0])
        with v1.variable_scope(name.replace(" ", "_")):
            table = sok.Variable(FIRST)
            other = v1.get_variable("other", initializer=FIRST, use_resource=True)
        both.append((table, other))
        with v1.control_dependencies(steps):
            wrapped = sok.OptimizerWrapper(make[name](kind))
            steps.append(wrapped.apply_gradients([(gradient, table)]))
            steps.append(make[name](kind).apply_gradients([(gradient, other)]))
    for ours, theirs in values(both, steps, times=2):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert (ours != FIRST).any()
