"""Run on two ranks: DistributedOptimizer and broadcasts, over sok1x's communicator ('own') or Horovod's.

'horovod' initializes Horovod before sok1x.Init runs, 'horovod-late' afterwards.
"""
import sys

import numpy as np
import stock_lazy_adam
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
OVER = sys.argv[1]
RANK, RANKS = int(__import__("os").environ["OMPI_COMM_WORLD_RANK"]), 2

if OVER != "own":
    import horovod.tensorflow as hvd
if OVER == "horovod":
    hvd.init()


def session():
    run = v1.Session()
    run.run(sok.Init(global_batch_size=2))
    if OVER == "horovod-late" and not hvd.is_initialized():
        hvd.init()
    run.run(v1.global_variables_initializer())
    return run


def of_rank(function):
    """`function(rank)` for all ranks, and this rank's."""
    return [function(rank) for rank in range(RANKS)], function(RANK)


def check_means(steps, average, keras=False):
    """Optimizers of all kinds, all dtypes: one step is one with the mean (or sum) of the ranks' gradients."""
    reduce = np.mean if average else np.sum
    with tf.Graph().as_default():
        if OVER == "horovod-late":
            session().close()
        dtypes = ["float16", "float32", "float64", "float32"]
        every, own = of_rank(lambda rank: [np.arange(5).astype(dtype) * (1 + 3 * rank) for dtype in dtypes])
        weights = [v1.get_variable("w{}".format(i), initializer=np.zeros(5, dtype), use_resource=i < 2 or keras)
                   for i, dtype in enumerate(dtypes)]
        unused = v1.get_variable("unused", [1])
        loss = tf.add_n([tf.reduce_sum(tf.cast(weight * tf.constant(gradient), tf.float64))
                         for weight, gradient in zip(weights, own)])
        step = steps(loss, weights + [unused])
        ops = v1.get_default_graph().get_operations()
        assert any(op.type == "HorovodAllreduce" for op in ops) == (OVER != "own")
        assert any(op_types.is_ours(op) and op.get_attr("function")
                   == b"operations.collectives.all_reduce" for op in ops) == (OVER == "own")
        with session() as run:
            run.run(step)
            for i, value in enumerate(run.run(weights)):
                expected = -reduce([gradients[i] for gradients in every], axis=0)
                np.testing.assert_allclose(value, expected, rtol=1e-3 if value.dtype == np.float16 else 1e-6)


def by_minimize(optimizer):
    return lambda loss, variables: optimizer().minimize(loss, var_list=variables)


def by_apply(optimizer):
    return lambda loss, variables: optimizer().apply_gradients(
        [pair for pair in zip(tf.gradients(loss, variables), variables) if pair[0] is not None])


def check_clipping():
    """Clipping between compute_gradients and apply_gradients sees the averages."""
    with tf.Graph().as_default():
        every, own = of_rank(lambda rank: np.array([3.0, 4.0], np.float32) * (1 + 3 * rank))
        weights = v1.get_variable("weights", initializer=np.zeros(2, np.float32))
        optimizer = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
        (gradient, _), = optimizer.compute_gradients(tf.reduce_sum(weights * own), [weights])
        (clipped,), norm = tf.clip_by_global_norm([gradient], 1.0)
        step = optimizer.apply_gradients([(clipped, weights)])
        with session() as run:
            np.testing.assert_allclose(run.run([norm, step])[0], 12.5, rtol=1e-6)
            np.testing.assert_allclose(run.run(weights), [-0.6, -0.8], rtol=1e-6)


def check_indexed_slices():
    """Stock embeddings: rows that no rank has touched keep value and slots."""
    with tf.Graph().as_default():
        every, own = of_rank(lambda rank: np.array([[1, 4, 1], [4, 6, 6]][rank]))
        table = v1.get_variable("table", initializer=np.ones([8, 2], np.float32), use_resource=True)
        loss = tf.reduce_sum(tf.gather(table, own) * [1.0, 10.0])
        optimizer = sok.DistributedOptimizer(stock_lazy_adam.LazyAdamOptimizer(0.1))
        (gradient, _), = optimizer.compute_gradients(loss, [table])
        assert isinstance(gradient, tf.IndexedSlices)
        step = optimizer.apply_gradients([(gradient, table)])
        dense = tf.convert_to_tensor(gradient)
        with session() as run:
            expected = np.zeros([8, 2])
            for keys in every:
                np.add.at(expected, keys, [0.5, 5.0])
            np.testing.assert_allclose(run.run([dense, step])[0], expected, rtol=1e-6)
            touched = expected[:, 0] > 0
            moved = (run.run(table) != 1).all(axis=1)
            assert (moved == touched).all(), moved
            assert ((run.run(optimizer.get_slot(table, "m")) != 0).all(axis=1) == touched).all()


def shard_state(layers, optimizers):
    """All variables that belong to a rank: rows, indexes, slots."""
    variables = []
    for layer in layers:
        shard = layer.embedding_variable
        variables += [shard] + shard.index
        for optimizer in optimizers:
            variables += [optimizer.get_slot(shard, name) for name in optimizer.get_slot_names()]
    return variables


def check_broadcasts():
    """Embedding gradients are summed, not averaged; broadcasts give rank 0's dense variables and nothing else."""
    with tf.Graph().as_default():
        layers = [sok.All2AllDenseEmbedding(16, 3, 1, 2, embedding_initializer="ones"),
                  sok.DistributedEmbedding("sum", 16, 3, 1, 2, embedding_initializer="normal")]
        keys = np.array([[2, 5], [5, 8]][RANK])
        vectors = layers[0](tf.constant(keys.reshape(1, 1, 2)))
        bags = layers[1](tf.SparseTensor([[0, 0], [0, 1]], tf.constant(keys), [1, 2]))
        dense = v1.get_variable("dense", initializer=np.full([4], 1.0 + RANK, np.float32))
        resource = v1.get_variable("resource", initializer=np.full([4], 1.0 + RANK), use_resource=True)
        loss = tf.reduce_sum(vectors) + tf.reduce_sum(bags * bags) + tf.reduce_sum(dense ** 2)
        plain = v1.train.GradientDescentOptimizer(0.5)
        sgd = sok.DistributedOptimizer(plain).minimize(tf.reduce_sum(vectors))
        optimizers = [v1.train.AdamOptimizer(0.1), tf.keras.optimizers.Adam(0.1),
                      stock_lazy_adam.LazyAdamOptimizer(0.1)]
        shards = [layer.embedding_variable for layer in layers]
        with v1.variable_scope("training"):
            steps = [optimizers[0].minimize(loss), optimizers[2].minimize(loss),
                     optimizers[1].apply_gradients(zip(tf.gradients(loss, shards), shards))]
        # The last four are not among Horovod's dtypes.
        others = [v1.get_variable("other_" + dtype, initializer=tf.cast([RANK, 1], dtype)) for dtype in (
            "bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float64",
            "uint16", "bfloat16", "complex64", "complex128")]
        scalar = v1.get_variable("scalar", initializer=RANK)
        empty = v1.get_variable("empty", initializer=np.zeros([0, 3], np.float32))
        shared = [dense, resource, scalar] + others
        broadcasts = [sok.broadcast_global_variables(0)]
        if OVER != "own":
            horovods = [variable for variable in v1.global_variables() if variable not in others[8:]]
            broadcasts.append(hvd.broadcast_variables(horovods, 0))
        with session() as run:
            before = run.run([vectors, layers[0].embedding_variable.index[-1]])
            assert (before[0] == 1).all()
            run.run(sgd)
            # Rank 0 owns 2 and 8, rank 1 owns 5, which both ranks have looked up.
            rows = run.run(shards[0])
            used = int(run.run(layers[0].embedding_variable.index[-1]))
            np.testing.assert_array_equal(rows[:used], [[0.5] * 3] * 2 if RANK == 0 else [[0.0] * 3])
            run.run(steps)
            state = shard_state(layers, optimizers)
            assert len(state) == 2 * (1 + 2 + 3 * 2)
            mine = run.run(state)
            run.run([variable.assign(tf.zeros_like(variable) if RANK else variable) for variable in (dense, resource)])
            for broadcast in broadcasts:
                run.run(broadcast)
                for variable, one, two in zip(state, mine, run.run(state)):
                    np.testing.assert_array_equal(one, two, variable.name)
                first = run.run(shared)
                assert first[0].any() and first[1].any() and first[2] == 0
                for value in first[3:] if broadcast is broadcasts[0] else first[3:-4]:
                    assert value.tolist() == [0, 1], value
                run.run(v1.variables_initializer(shared))
                assert run.run(scalar) == RANK and run.run(empty).shape == (0, 3)
    # The shards of the ranks do differ: a broadcast of them would have been seen.
    both = comparable(mine[0])
    assert (both[0] != both[1]).any()


def comparable(value):
    """The value of both ranks, over mpi4py."""
    from mpi4py import MPI
    return MPI.COMM_WORLD.allgather(value)


def check_hooks():
    """Each library's hook in a MonitoredTrainingSession."""
    for hook in [sok.BroadcastGlobalVariablesHook] + ([hvd.BroadcastGlobalVariablesHook] if OVER != "own" else []):
        with tf.Graph().as_default():
            layer = sok.All2AllDenseEmbedding(16, 3, 1, 2, embedding_initializer="normal", use_hashtable=False)
            dense = v1.get_variable("dense", initializer=np.full([4], 1.0 + RANK, np.float32))
            v1.train.AdamOptimizer().minimize(tf.reduce_sum(layer(tf.constant([[[1, 2]]], tf.int64))) * dense[0])
            hooks = [sok.InitHook(global_batch_size=2), hook(0)]
            with v1.train.MonitoredTrainingSession(hooks=hooks) as run:
                assert run.run(dense).tolist() == [1.0] * 4
                shards = comparable(run.run(layer.embedding_variable))
                assert (shards[0] != shards[1]).all()


TRAIN = v1.train.GradientDescentOptimizer
KERAS = tf.keras.optimizers.SGD
check_means(by_minimize(lambda: sok.DistributedOptimizer(TRAIN(1.0))), True)
check_means(by_apply(lambda: sok.DistributedOptimizer(TRAIN(1.0))), True)
check_means(by_apply(lambda: sok.DistributedOptimizer(KERAS(1.0))), True, keras=True)
check_means(by_minimize(lambda: sok.DistributedOptimizer(TRAIN(1.0), average=False)), False)
check_clipping()
check_indexed_slices()
check_broadcasts()
check_hooks()
sys.stdout.write("done-{}\n".format(RANK))
