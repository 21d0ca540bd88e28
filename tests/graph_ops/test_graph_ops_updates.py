"""Optimizers' steps on many tables run together: the same bits as one by one; a fault of one is that one's alone."""
import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge.registry import get
from sok1x.graph_ops.groups import updates

DIMS = (1, 3, 4, 16, 33, 130)
KINDS = {"sgd": ("operations.gradient_descent.step", tf.train.GradientDescentOptimizer),
         "lazy adam": ("operations.adam.lazy_step", sok.tf.keras.optimizers.LazyAdamOptimizer)}


@contextlib.contextmanager
def one_by_one(name):
    """Inside, the operation has no grouped form: for graphs whose ops have not run before."""
    operation = get(name)
    group, operation.group = operation.group, None
    try:
        yield
    finally:
        operation.group = group


class Model:
    """A lookup of each table; its gradient, times what is fed, moves the table. rates: of each table, fed."""

    def __init__(self, kind):
        self.layers = [sok.All2AllDenseEmbedding(40, dim, 1, 1, use_hashtable=number % 2 == 0, dynamic_input=True)
                       for number, dim in enumerate(DIMS)]
        self.keys = [tf.placeholder(tf.int64, [None]) for _ in DIMS]
        self.rates = [tf.placeholder_with_default(np.float32(0.5 + number), None) for number in range(len(DIMS))]
        outs = [layer(keys, training=True) for layer, keys in zip(self.layers, self.keys)]
        variables = [layer.embedding_variable for layer in self.layers]
        with tf.control_dependencies(outs):  # so that all gradients become ready at once
            given = [out * 3 + 1 for out in outs]
        gradients = tf.gradients(outs, variables, given)
        if kind == "sgd":  # of which one has repeated rows, and one is fed
            twice = tf.IndexedSlices(tf.concat([gradients[2].values] * 2, 0), tf.concat([gradients[2].indices] * 2, 0))
            self.fed = tf.placeholder_with_default(gradients[4].values, [None, DIMS[4]])
            gradients[2] = twice
            gradients[4] = tf.IndexedSlices(self.fed, gradients[4].indices)
        with tf.control_dependencies([gradient.values for gradient in gradients]):
            gradients = [tf.IndexedSlices(tf.identity(one.values), one.indices) for one in gradients]
        self.steps = []
        for rate, gradient, variable in zip(self.rates, gradients, variables):
            optimizer = sok.DistributedOptimizer(KINDS[kind][1](rate))
            self.steps.append(optimizer.apply_gradients([(gradient, variable)]))

    def feed(self, batch):
        return dict(zip(self.keys, batch))


def run_steps(kind, batches, monkeypatch):
    """All variables after each step, and how many members the groups had of which none was left."""
    sizes, move = [], updates.UpdateRun.move

    def counted(run, step):
        move(run, step)
        sizes.append(len(run.members) - len(run.left))
    monkeypatch.setattr(updates.UpdateRun, "move", counted)
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        session.run(sok.Init(global_batch_size=8))
        model = Model(kind)
        session.run(tf.global_variables_initializer())
        for batch in batches:
            session.run(model.steps, model.feed(batch))
            found += session.run(tf.global_variables())
    monkeypatch.undo()
    return found, sizes


@pytest.mark.parametrize("kind", KINDS)
def test_together_as_one_by_one(kind, seed, monkeypatch):
    random = np.random.RandomState(seed % 2 ** 32)
    batches = [[random.randint(0, 30, random.choice([0, 1, 30])) for _ in DIMS] for _ in range(8)]
    together, sizes = run_steps(kind, batches, monkeypatch)
    with one_by_one(KINDS[kind][0]):
        single, none = run_steps(kind, batches, monkeypatch)
    assert max(sizes) > 1 and not none, (sizes, none)
    assert len(together) == len(single) > len(DIMS)
    for ours, theirs in zip(together, single):
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def test_what_does_not_fit_is_told_by_its_operation_alone():
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(global_batch_size=8))
        model = Model("sgd")
        session.run(tf.global_variables_initializer())
        feed = model.feed([np.arange(3)] * len(DIMS))
        session.run(model.steps, feed)
        tables = [layer.embedding_variable for layer in model.layers]
        vector, short = [1.0, 2.0], np.ones([2, DIMS[4]], np.float32)
        faults = ((3, {model.rates[3]: vector}, "got a learning rate of shape .2., expected a scalar"),
                  (4, {model.fed: short}, "got gradients of shape .2, 33. for 3 rows"))
        for number, fault, text in faults:
            before = session.run(tables[number].read_value())
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session.run(model.steps, {**feed, **fault})
            assert session.run(tables[number].read_value()).tobytes() == before.tobytes()
        session.run(model.steps, feed)


def test_slots_that_are_not_there_are_told_by_their_operation():
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(global_batch_size=8))
        model = Model("lazy adam")
        missing = [variable for variable in tf.global_variables() if variable.shape == [40, DIMS[1]]][-1]
        session.run([variable.initializer for variable in tf.global_variables() if variable is not missing])
        with pytest.raises(tf.errors.FailedPreconditionError, match="have not been initialized"):
            session.run(model.steps, model.feed([np.arange(3)] * len(DIMS)))
        session.run(missing.initializer)
        session.run(model.steps, model.feed([np.arange(3)] * len(DIMS)))
