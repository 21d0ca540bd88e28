"""Sums and averages of dense tensors over ranks, by C++ and by Python: against NumPy, and the same bits.

    mpiexec -np N python program_dense_sums.py SEED
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import BACKWARD, gate, pause, sizes
from settled import settle

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge, op_functions
from sok1x.graph_ops.operations import collectives

SUMS = collectives._AllReduce.name
SHAPES = [(3, 5), (), (0, 4), (7,), (2, 1, 3), (130, 11)]


def everyones(value):
    """What all ranks have, by rank."""
    return launch.current().mpi.MPI.COMM_WORLD.allgather(value)


def by_cpp():
    """How many sums C++ has run since the last call, of any rank's the fewest."""
    return min(everyones(len(sizes.pop(SUMS, ()))))


def whole_numbers(random, dtypes):
    """Values whose sums are exact in any order."""
    return [random.randint(-1000, 1000, shape).astype(dtype) for shape, dtype in zip(SHAPES, dtypes)]


def check_values(random, dtypes, average, where, steps=12):
    """Returns how many of the steps C++ has run on all ranks."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.placeholder(dtype, shape) for shape, dtype in zip(SHAPES, dtypes)]
        found = collectives.all_reduce(given, average=average)
        by_cpp()
        for step in range(steps):
            op_functions.Library(bridge.PATH).lane_allow(where == "both" and step % 3 != launch.current().rank % 3
                                                         or where == "cpp")
            own = whole_numbers(random, dtypes)
            every = everyones(own)
            got = session.run(found, dict(zip(given, own)))
            for i, value in enumerate(got):
                parts = [values[i] for values in every]
                # As a division, not as a product with 1 / N.
                wanted = np.sum(parts, axis=0, dtype=np.float64)
                if average:
                    wanted = wanted.astype(np.float32 if dtypes[i] == "float16" else dtypes[i]) / np.array(
                        len(parts), np.float32 if dtypes[i] == "float16" else dtypes[i])
                assert value.dtype == dtypes[i] and value.shape == SHAPES[i], (value.dtype, value.shape)
                np.testing.assert_array_equal(value, wanted.astype(dtypes[i]), str((where, step, i)))
        op_functions.Library(bridge.PATH).lane_allow(True)
        return by_cpp()


def check_sizes(random):
    """A tensor that differs in size on one rank: all hear of it, and go on."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])]
        found = collectives.all_reduce(given, average=False)
        world = launch.current()
        for step in range(8):
            sizes_differ = step in (0, 5)
            own = [np.ones(4, np.float32), np.ones(6 + (sizes_differ and world.rank == 0), np.float32)]
            try:
                got = session.run(found, dict(zip(given, own)))
            except tf.errors.InvalidArgumentError as error:
                assert sizes_differ and "expected the same shape on all ranks" in str(error), error
                assert "input 1" in str(error), error
            else:
                assert not sizes_differ
                assert all((value == world.size).all() for value in got)


def check_large(random):
    """More than C++ brings together on the host."""
    with tf.Graph().as_default(), tf.Session() as session:
        n = 1 << 19
        given = tf.placeholder(tf.float32, [n])
        found, = collectives.all_reduce([given], average=True)
        by_cpp()
        for _ in range(4):
            own = random.randint(-1000, 1000, n).astype(np.float32)
            wanted = np.sum(everyones(own), axis=0) / np.float32(launch.current().size)
            np.testing.assert_array_equal(session.run(found, {given: own}), wanted)
        return by_cpp()


def check_order(random):
    """Gradients of lookups that come at the same time go first."""
    with tf.Graph().as_default(), tf.Session() as session:
        init = sok.Init(global_batch_size=8)
        layer = sok.All2AllDenseEmbedding(1000, 4, 2, 1)
        keys = tf.placeholder(tf.int64, [None, 2, 1])
        rows = layer(keys, training=True)
        with tf.control_dependencies([gate(), rows]):
            ones = tf.ones_like(rows)
        own = tf.ones([5])
        dense, = collectives.all_reduce([own], average=False)  # the first in the graph
        gradient = tf.gradients(rows, layer.embedding_variable, ones)[0].values
        distinct, = [op for op in tf.get_default_graph().get_operations() if op.type == "Sok1xDistinct"]
        own.op._add_control_input(distinct)  # which the gradient waits for, too
        session.run([init])
        session.run(tf.global_variables_initializer())
        pause[0] = settle
        ran = []
        try:
            for step in range(6):
                sizes.clear()
                session.run([dense, gradient.op], {keys: random.randint(0, 1000, [4, 2, 1])})
                ran.append([name for name in sizes if name in (SUMS, BACKWARD)])
        finally:
            pause[0] = None
        return ran


def main():
    random = np.random.RandomState([int(sys.argv[1]), 5])
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(global_batch_size=8))
    world = launch.current()
    random = np.random.RandomState([int(sys.argv[1]), world.rank])
    power = not world.size & (world.size - 1)
    direct = not tf.test.is_gpu_available() or getattr(world.gpu_communicator, "direct", None) is not None
    for average in (False, True):
        ran = check_values(random, ["float32", "float64", "float32", "float32", "float64", "float32"], average, "cpp")
        # The first step is Python's; a busy machine makes some more so.
        assert ran >= 4 or not direct or tf.test.is_gpu_available() and average and not power, (average, ran)
        assert check_values(random, ["float32"] * 6, average, "python") == 0
        check_values(random, ["float32", "float64", "float32", "float32", "float64", "float32"], average, "both")
        assert check_values(random, ["float32", "float16"] * 3, average, "cpp") == 0
    check_sizes(random)
    large = check_large(random)
    assert large == 0 or tf.test.is_gpu_available(), large
    ran = check_order(random)
    both = [names for names in ran if len(names) == 2]
    assert all(names == [BACKWARD, SUMS] for names in both), ran
    assert len(both) >= 2 or not direct, ran
    print("rank", world.rank, "sums ok")


if __name__ == "__main__":
    main()
