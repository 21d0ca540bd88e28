"""Gradients whose sums are left to the optimizer's step (graph_ops/groups/kept_sums.h): only where that step alone
reads them, with the same bits as without, and nothing is kept afterwards."""
import ctypes
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, nodes_of, session, sparse_constant, sparse_layer
from tensorflow.python.debug.lib import debug_utils

import sok1x as sok
from sok1x.cuda_kernels import group_steps
from sok1x.graph_ops.bridge import bridge, library, op_functions

STEPS = {"sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
         "lazyadam": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)}


@pytest.fixture
def sums():
    library.load()
    loaded = op_functions.Library(bridge.PATH).loaded
    for name in ("kept", "waiting"):
        getattr(loaded, "sok1x_kept_sums_" + name).restype = ctypes.c_int64
    yield loaded
    assert loaded.sok1x_kept_sums_waiting() == 0


class Model:
    """Two layers of two tables, and what a step of them is made of."""

    def __init__(self, random, optimizer, batches=4, **changes):
        layers = dense_layer(**changes), sparse_layer(**changes), sparse_layer(combiner="mean", **changes)
        self.dense = [random.randint(0, 20, [4, 2, 3]) for _ in range(batches)]
        self.keys = tf.placeholder(tf.int64, [4, 2, 3])
        bags = [random.randint(0, 20, random.randint(0, 4)).tolist() for _ in range(8)]
        outs = [layers[0](self.keys, training=True)] + [
            layer(sparse_constant(bags, 3), training=True) for layer in layers[1:]]
        self.variables = [layer.embedding_variable for layer in layers]
        self.loss = tf.add_n([tf.reduce_sum(out * out * (1 + number)) for number, out in enumerate(outs)])
        self.optimizer = sok.DistributedOptimizer(optimizer(), average=False)
        self.pairs = self.optimizer.compute_gradients(self.loss, self.variables)

    def train(self, pairs=None):
        return self.optimizer.apply_gradients(pairs or self.pairs)

    def run(self, run, *fetches):
        """What fetches give, step after step."""
        return [run.run(fetches, {self.keys: batch}) for batch in self.dense]


def trained(seed, optimizer, fetches=lambda model: [model.train()], **changes):
    """(what each step has given, the tables and all slots afterwards)."""
    with graph() as made:
        tf.set_random_seed(seed)
        model = Model(np.random.RandomState(seed), STEPS[optimizer], **changes)
        asked = fetches(model)
        with session() as run:
            given = model.run(run, *asked)
            state = [value for value in run.run(made.get_collection(tf.GraphKeys.GLOBAL_VARIABLES))]
    return given, state


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_the_same_bits_as_without(sums, seed, optimizer, monkeypatch):
    began = sums.sok1x_kept_sums_kept()
    _, state = trained(seed, optimizer)
    assert sums.sok1x_kept_sums_kept() - began == 3 * 4
    monkeypatch.setenv("SOK1X_FUSE", " 0 ")
    _, expected = trained(seed, optimizer)
    assert sums.sok1x_kept_sums_kept() - began == 3 * 4
    same(state, expected)


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_not_where_anyone_else_reads_them(sums, seed, optimizer, monkeypatch):
    """Fetched in the same run, clipped, scaled, looked at by another op: these gradients are as they must be."""
    def fetched(model):
        return [model.train()] + [grad.values for grad, _ in model.pairs]

    def clipped(model):
        grads, _ = tf.clip_by_global_norm([grad for grad, _ in model.pairs], 1.0)
        return [model.train(list(zip(grads, model.variables)))]

    def scaled(model):
        return [model.train([(tf.IndexedSlices(grad.values * 0.5, grad.indices, grad.dense_shape), variable)
                             for grad, variable in model.pairs])]

    def norms(model):
        return [model.train()] + [tf.reduce_sum(grad.values ** 2) for grad, _ in model.pairs]

    for fetches in (fetched, clipped, scaled, norms):
        began = sums.sok1x_kept_sums_kept()
        given, state = trained(seed, optimizer, fetches)
        assert sums.sok1x_kept_sums_kept() == began, fetches.__name__
        monkeypatch.setenv("SOK1X_FUSE", "0")
        expected_given, expected = trained(seed, optimizer, fetches)
        monkeypatch.delenv("SOK1X_FUSE")
        same(state, expected)
        for one, other in zip(given, expected_given):
            same(one[1:], other[1:])


@pytest.mark.parametrize("kept", [False, True], ids=["variable", "resource"])
def test_not_of_what_may_change_before_the_step(sums, kept):
    """A variable that is no resource, given as the gradient, is assigned after the gradient has run: what has been read
    of it changes then. Of a resource it does not."""
    with graph():
        layer = dense_layer(embedding_initializer=tf.zeros_initializer())
        out = layer(tf.reshape(tf.range(12, dtype=tf.int64), [2, 2, 3]), training=True)
        given = tf.get_variable("given", initializer=tf.ones([4, 3, 4]), trainable=False, use_resource=kept)
        grad, = tf.gradients(out, layer.embedding_variable, grad_ys=tf.reshape(given, [2, 2, 3, 4]))
        with tf.control_dependencies([grad.values]):
            assigned = given.assign(tf.fill([4, 3, 4], 1000.0))
        with tf.control_dependencies([assigned]):
            rate = tf.identity(1.0)
        train = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(rate)).apply_gradients(
            [(grad, layer.embedding_variable)])
        with session() as run:
            began = sums.sok1x_kept_sums_kept()
            run.run(train)
            assert sums.sok1x_kept_sums_kept() - began == kept
            rows = run.run(layer.embedding_variable)
    np.testing.assert_array_equal(np.unique(rows), [-1, 0])


@pytest.mark.parametrize("optimizer", sorted(STEPS))
@pytest.mark.parametrize("watched", [2, 3], ids=["values", "all"])
def test_not_of_a_copy(sums, seed, optimizer, watched, monkeypatch, tmp_path):
    """TensorFlow's debugger copies tensors on their way: a step that is a node of its own, for it waits for the loss,
    and is given a copy of what nobody has written, says so, and moves nothing. Without fused ops it steps as ever."""
    urls = "file://{}".format(tmp_path)
    for fuse in ("1", "0"):
        monkeypatch.setenv("SOK1X_FUSE", fuse)
        with graph() as made:
            model = Model(np.random.RandomState(seed), STEPS[optimizer])
            with tf.control_dependencies([model.loss]):
                train, feed = model.train(), {model.keys: model.dense[0]}
            with session() as run:
                options = tf.RunOptions()
                names = [node.name for node in nodes_of(run, train, feed).values()
                         if node.op.startswith("Sok1xGradient") and node.attr["functions"].list.s]
                assert len(names) == (2 if fuse == "1" else 0)
                if watched == 3:
                    debug_utils.watch_graph(options, made, debug_urls=urls)
                for name in names if watched == 2 else ():  # of both nodes the first table's, not what comes with it
                    debug_utils.add_debug_tensor_watch(options, name, 0, "DebugIdentity", urls)
                before = run.run(model.variables)
                if fuse == "0":
                    run.run(train, feed, options)
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError, match="copy of its gradient.*SOK1X_FUSE=0"):
                    run.run(train, feed, options)
                same(before[:watched], run.run(model.variables)[:watched])


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_of_one_node_nothing_is_copied(sums, seed, optimizer, tmp_path):
    """Of a step that follows its gradient in one node TensorFlow's debugger sees nothing that nobody has written."""
    found = []
    for watch in (True, False):
        with graph() as made:
            tf.set_random_seed(seed)
            model = Model(np.random.RandomState(seed), STEPS[optimizer])
            train, options = model.train(), tf.RunOptions()
            if watch:
                debug_utils.watch_graph(options, made, debug_urls="file://{}".format(tmp_path))
            began = sums.sok1x_kept_sums_kept()
            with session() as run:
                for batch in model.dense:
                    run.run(train, {model.keys: batch}, options)
                found.append(run.run(model.variables))
            assert sums.sok1x_kept_sums_kept() - began == 3 * len(model.dense)
    same(*found)


def test_one_session_runs_steps_of_both_kinds(sums, seed):
    """A node of the same name keeps its sums in one kind of session.run and makes them in another."""
    with graph():
        model = Model(np.random.RandomState(seed), STEPS["sgd"], batches=1)
        train, values = model.train(), [grad.values for grad, _ in model.pairs]
        feed = {model.keys: model.dense[0]}
        with session() as run:
            for _ in range(3):
                before = run.run([values, model.variables], feed)
                began = sums.sok1x_kept_sums_kept()
                run.run(train, feed)
                assert sums.sok1x_kept_sums_kept() - began == 3
                again, _ = run.run([values, train], feed)
                assert sums.sok1x_kept_sums_kept() - began == 3
                assert not all(np.array_equal(a, b) for a, b in zip(before[0], again))  # the step has been taken
                alone = run.run(values, feed)
                assert sums.sok1x_kept_sums_kept() - began == 3 and np.abs(alone[0]).sum() > 0


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_a_step_that_its_operation_takes_alone_has_the_sums(sums, seed, optimizer, monkeypatch):
    """As where a group leaves a member: it finds the gradients as if nothing had been kept."""
    from sok1x.graph_ops.groups import updates
    _, expected = trained(seed, optimizer)
    began = sums.sok1x_kept_sums_kept()
    monkeypatch.setattr(updates.UpdateRun, "apart", True)
    monkeypatch.setattr(updates.Updates, "lane", lambda self, request, call, world: None)
    _, state = trained(seed, optimizer)
    assert sums.sok1x_kept_sums_kept() - began == 3 * 4
    same(state, expected)


def test_steps_that_never_come_leave_nothing(sums, seed):
    """The step's own input fails after the gradient has been left to it."""
    with graph():
        rate = tf.placeholder(tf.float32, [])
        checked = tf.debugging.assert_positive(rate)
        model = Model(np.random.RandomState(seed), lambda: tf.train.GradientDescentOptimizer(
            tf.cond(rate > 0, lambda: rate, lambda: rate)), batches=1)
        with tf.control_dependencies([grad.values for grad, _ in model.pairs] + [checked]):
            pass
        train = model.train()
        with session() as run:
            before = run.run(model.variables)
            for _ in range(3):
                with pytest.raises(tf.errors.InvalidArgumentError):
                    run.run([train, checked], {model.keys: model.dense[0], rate: -1.0})
            del before
            run.run(train, {model.keys: model.dense[0], rate: 0.1})


def test_tables_that_grow_and_that_forget(sums, seed, monkeypatch):
    growing = dict(max_vocabulary_size_per_gpu=None, init_capacity=4)
    for changes in growing, dict(growing, max_capacity=24):
        in_order(sums, seed, monkeypatch, changes)


def in_order(sums, seed, monkeypatch, changes):
    for optimizer in sorted(STEPS):
        began = sums.sok1x_kept_sums_kept()
        _, state = trained(seed, optimizer, **changes)
        assert sums.sok1x_kept_sums_kept() > began
        monkeypatch.setenv("SOK1X_FUSE", "0")
        _, expected = trained(seed, optimizer, **changes)
        monkeypatch.delenv("SOK1X_FUSE")
        same(state, expected)


@pytest.mark.parametrize("optimizer", sorted(STEPS))
def test_two_steps_of_one_table_come_one_after_the_other(sums, seed, optimizer):
    """At once each would move rows that the other has not moved yet, and one of both moves would be lost."""
    kernels = group_steps.steps().kernels
    random = np.random.RandomState(seed)
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=4096, embedding_vec_size=8)
        keys = tf.constant(np.stack([random.permutation(4096)[:3000].reshape(500, 2, 3) for _ in range(2)]))
        outs = [layer(keys[number], training=True) for number in range(2)]
        table = layer.embedding_variable
        steps = [sok.DistributedOptimizer(STEPS[optimizer](), average=False).minimize(
            (number + 1) * tf.reduce_sum(out), var_list=[table]) for number, out in enumerate(outs)]
        with session() as run:
            run.run(outs)
            launched = []
            for fetch in [steps[:1]] * 3 + [steps] * 3:
                began = kernels()
                run.run(fetch)
                launched.append(kernels() - began)
            one, both = launched[2], launched[5]
            if optimizer == "sgd":
                before = run.run(table)
                run.run(steps)
                moved = np.round((before - run.run(table)) / 0.1).astype(int)
                assert moved.sum() == 8 * 3000 * (1 + 2)
    # A lookup, its distinct rows and stamps are kernels over both; each step is one of its own, on a GPU five: terms
    # are counted, numbered, put in order, long sums added up, and rows moved.
    assert both == one + (5 if os.environ.get("SOK1X_TEST_DEVICE") == "gpu" else 1), (one, both)
