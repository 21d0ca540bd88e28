"""Dense gradients and variables in one process; `program_dense.py` has the checks that need two ranks."""
import os
import time

import numpy as np
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.core import broadcast
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge import bridge, op_functions, op_types
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.operations import collectives

v1 = tf
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_dense.py")


@pytest.mark.parametrize("over", ["own", "horovod", "horovod-late"])
def test_two_ranks(over):
    """Averages, sums and broadcasts over sok1x's communicator and over Horovod, initialized before or after Init."""
    finished = run_ranks(2, PROGRAM, over)
    assert sorted(finished.out.split()) == ["done-0", "done-1"]


MAKERS = {
    "GradientDescent": lambda: v1.train.GradientDescentOptimizer(0.5),
    "Adam": lambda: v1.train.AdamOptimizer(0.5),
    "LazyAdam": lambda: stock_lazy_adam.LazyAdamOptimizer(0.5),
    "keras.SGD": lambda: tf.keras.optimizers.SGD(0.5, momentum=0.9),
    "keras.Adam": lambda: tf.keras.optimizers.Adam(0.5),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_still_the_same_optimizer(name):
    with graph():
        plain = MAKERS[name]()
        made = sok.DistributedOptimizer(plain)
        assert isinstance(made, type(plain)) and type(made).__name__ == type(plain).__name__
        weights = v1.get_variable("weights", initializer=[1.0, 2.0], use_resource=True)
        if name.startswith("keras"):
            assert made.get_config() == plain.get_config()
            made.lr = 0.25
            assert plain.get_config()["learning_rate"] == 0.25
            step = made.apply_gradients([(tf.constant([1.0, 1.0]), weights)])
            assert type(made).from_config(made.get_config()).get_config() == made.get_config()
            assert [one.name for one in made.weights] == [one.name for one in plain.weights] and made.weights
        else:
            step = made.minimize(tf.reduce_sum(weights))
            assert made.get_name() == plain.get_name()
            assert made.variables() == plain.variables()
        for slot in made.get_slot_names():
            assert made.get_slot(weights, slot) is plain.get_slot(weights, slot)
        with session() as run:
            run.run(step)
            assert (run.run(weights) < [1.0, 2.0]).all()


@pytest.mark.parametrize("wrong", [None, "adam", v1.train.AdamOptimizer, tf.keras.layers.Dense(1), 0.1])
def test_what_is_no_optimizer(wrong):
    with pytest.raises(TypeError, match="expected an optimizer of tf.train or tf.keras.optimizers"):
        sok.DistributedOptimizer(wrong)


def test_twice_is_refused():
    with pytest.raises(TypeError, match="has made already"):
        sok.DistributedOptimizer(sok.DistributedOptimizer(v1.train.AdamOptimizer()))
    with pytest.raises(TypeError, match=r"the other way round: sok1x.OptimizerWrapper\(sok1x.DistributedOptimizer\("):
        sok.DistributedOptimizer(sok.OptimizerWrapper(v1.train.AdamOptimizer()))


def exchanges(made):
    return [op.get_attr("function").decode() for op in made.get_operations() if op_types.is_ours(op)]


def test_every_dense_gradient_travels_once_and_in_one_op():
    with graph() as made:
        layer = dense_layer()
        a, b = (v1.get_variable(name, [4], use_resource=True) for name in "ab")
        unused = v1.get_variable("unused", [1])
        loss = tf.reduce_sum(layer(tf.constant([[[1, 2, 3]] * 2], tf.int64)) * a * b)
        optimizer = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1))
        pairs = optimizer.compute_gradients(loss)
        assert [variable for _, variable in pairs] == [layer.embedding_variable, a, b, unused]
        assert isinstance(pairs[0][0], tf.IndexedSlices) and pairs[3][0] is None
        assert exchanges(made).count("operations.collectives.all_reduce") == 1
        known = [pair for pair in pairs if pair[0] is not None]
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in known], 1.0)
        optimizer.apply_gradients(zip(clipped, [variable for _, variable in known]))
        optimizer.apply_gradients(pairs)
        assert exchanges(made).count("operations.collectives.all_reduce") == 1
        optimizer.apply_gradients(zip(tf.gradients(loss, [a, b]), [a, b]))  # not averaged yet
        assert exchanges(made).count("operations.collectives.all_reduce") == 2
        sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)).get_updates(loss, [layer.embedding_variable, a, b])
        assert exchanges(made).count("operations.collectives.all_reduce") == 3
        optimizer.apply_gradients([(pairs[0][0], layer.embedding_variable)])
        assert exchanges(made).count("operations.collectives.all_reduce") == 3


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64"])
def test_gradients_of_other_dtypes(dtype):
    with graph():
        weights = v1.get_variable("weights", [2], dtype=dtype, initializer=v1.initializers.constant(1))
        with pytest.raises(TypeError, match="dtype {} for variable 'weights:0', expected one of float16".format(dtype)):
            sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0)).apply_gradients(
                [(tf.ones([2], dtype), weights)])


def test_indexed_slices_of_one_rank_keep_their_meaning(seed):
    """Repeated indices are summed, rows not touched stay untouched, also by an optimizer with momentum."""
    random = np.random.RandomState(seed)
    values, indices = random.randn(6, 3).astype(np.float32), np.array([7, 2, 7, 0, 2, 7], np.int32)
    results = []
    for wrap in (sok.DistributedOptimizer, lambda optimizer: optimizer):
        with graph():
            table = v1.get_variable("table", initializer=np.ones([9, 3], np.float32), use_resource=True)
            gradient = tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([9, 3], tf.int64))
            step = wrap(v1.train.MomentumOptimizer(0.1, 0.9)).apply_gradients([(gradient, table)])
            with session() as run:
                run.run([step])
                run.run([step])
                results.append(run.run(v1.global_variables()))
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_one_rank_sums_without_its_executor(monkeypatch, seed):
    """What is given is what comes; where the executor is to see every request, it does."""
    random = np.random.RandomState(seed)
    values = [random.standard_normal(shape).astype(np.float32) for shape in ([2, 3], [1], [0, 4])]
    with graph(), session() as run:
        sums = collectives.all_reduce([tf.constant(value) * 2 for value in values], average=False)
        run.run(collectives.broadcast([tf.constant(1.0)], 0))  # then the executor knows how many ranks there are
        library = op_functions.Library(bridge.PATH)

        def refuse(*_):
            raise CallError(INTERNAL, "the executor has been asked")

        monkeypatch.setattr(collectives._AllReduce, "run", refuse)
        try:
            library.alone(True)
            for value, sum_ in zip(values, run.run(sums)):
                np.testing.assert_array_equal(sum_, value * 2)
            library.alone(False)
            with pytest.raises(tf.errors.InternalError, match="the executor has been asked"):
                run.run(sums)
        finally:
            library.alone(True)


def test_broadcast_takes_the_dense_variables_only():
    with graph() as made:
        layer = dense_layer()
        dense = v1.get_variable("dense", [2])
        loss = tf.reduce_sum(layer(tf.constant([[[1, 2, 3]] * 2], tf.int64))) * tf.reduce_sum(dense)
        v1.train.AdamOptimizer().minimize(loss)
        sok.broadcast_global_variables(0)
        call, = [op for op in made.get_operations() if op_types.is_ours(op)
                 and op.get_attr("function") == b"operations.collectives.broadcast"]
        expected = [variable for variable in v1.global_variables() if not isinstance(variable, ShardVariable)]
        assert len(call.outputs) == len(expected) == 5  # dense and its two slots, two beta powers
    with graph(), session() as run:
        run.run(sok.broadcast_global_variables(0))  # nothing to do


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (0.0, TypeError), ("0", TypeError), (True, TypeError)])
def test_wrong_root_rank(wrong, error):
    with graph():
        for function in (sok.broadcast_global_variables, sok.BroadcastGlobalVariablesHook):
            with pytest.raises(error, match="root_rank: got"):
                function(wrong)


def test_root_rank_that_is_not_there():
    with graph():
        v1.get_variable("dense", [2])
        with session() as run, pytest.raises(tf.errors.InvalidArgumentError, match=r"got root_rank 1.*\[0, 1\)"):
            run.run(sok.broadcast_global_variables(1))


@pytest.mark.parametrize("resource", [False, True])
def test_what_a_broadcast_depends_on_is_waited_for_on_another_device_too(resource):
    """TensorFlow sends a reference to another device before what the reader there depends on has run."""
    with graph():
        with tf.device("/cpu:0"):
            begin = tf.py_func(lambda: (time.sleep(0.2), np.ones(2, np.float32))[1], [], tf.float32)
            begin.set_shape([2])
            dense = v1.get_variable("dense", initializer=begin, use_resource=resource)
        with tf.control_dependencies([dense.initializer]), tf.device("/cpu:1"):
            done = broadcast.of_variables([dense], 0)
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as run:
            run.run(sok.Init(global_batch_size=1))
            run.run(done)
            assert run.run(dense).tolist() == [1, 1]


def test_strings_cannot_be_broadcast():
    with graph():
        tf.Variable("text")
        with pytest.raises(TypeError, match="string"):
            sok.broadcast_global_variables(0)
