"""Counts the bytes that each op asks TensorFlow for, held against the bounds in graph_ops/operations/embedding.py.

    mpiexec -np N python program_peak.py
"""
import collections

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge

B, S, H, D = 64, 3, 4, 24
taken = collections.Counter()


def count(method, nbytes):
    def counted(self, *arguments):
        result = method(self, *arguments)
        taken[self.name] += nbytes(result, *arguments)
        return result
    return counted


bridge.Request.output = count(bridge.Request.output, lambda array, *_: array.size * bridge.ITEM_BYTES[array.dtype])
bridge.Request.memory = count(bridge.Request.memory, lambda pointer, nbytes: nbytes)  # temporaries' too


def main():
    for dtype, item in (("float32", 4), ("float16", 2)):
        with tf.Graph().as_default():
            check(dtype, item)


def check(dtype, item):
    """item: bytes of a number of the result."""
    init = sok.Init(global_batch_size=B)
    dense = sok.All2AllDenseEmbedding(20000, D, S, H, dtype=dtype)
    layers = [(exchange, sok.DistributedEmbedding("mean", 20000, D, S, H, exchange=exchange, dtype=dtype))
              for exchange in ("all2all", "reduce_scatter")]
    more = item == 2
    keys, bags = tf.placeholder(tf.int64, [None, S, H]), tf.sparse_placeholder(tf.int64)
    outputs = [("dense", dense(keys), dense)] + [(name, layer(bags), layer) for name, layer in layers]
    steps = [tf.gradients(out, layer.embedding_variable)[0].values for _, out, layer in outputs]
    with tf.Session() as sess:
        sess.run(init)
        sess.run(tf.global_variables_initializer())
        world = launch.current()
        n = world.size
        random = np.random.RandomState(world.rank)
        for _ in range(3):
            batch = random.randint(-10 ** 6, 10 ** 6, [B, S, H])
            rows = np.stack(np.unravel_index(np.arange(B * S * H), (B * S, H)), 1)
            sess.run([step.op for step in steps],
                     {keys: batch, bags: tf.SparseTensorValue(rows, batch.ravel(), [B * S, H])})
            from mpi4py import MPI
            every = MPI.COMM_WORLD.allgather(batch) if n > 1 else [batch]
            distinct = [np.unique(one) for one in every]
            k, u = batch.size, len(distinct[world.rank])
            asked = sum(int((one % n == world.rank).sum()) for one in distinct) if n > 1 else 0
            pairs = sum(int((one % n == world.rank).sum()) for one in every)
            bag_count, all_bags = B * S, n * B * S
            # The statements of graph_ops/operations/embedding.py, in bytes.
            forward = {
                "dense": item * k * D + item * D * (u + asked) * (n > 1) + 44 * k + 24 * u + 64 * asked + 24 * n,
                "all2all": (item * bag_count * D + 8 * bag_count + item * D * (u + asked) * (n > 1)
                            + 44 * k + 24 * u + 64 * asked + 24 * n + 64),
                "reduce_scatter": (item * bag_count * D + 8 * bag_count + (item * all_bags * D + 8 * all_bags
                                                                           + 2 * n * bag_count * D * more) * (n > 1)
                                   + 80 * k + 24 * u + 64 * pairs + 24 * n + 64)}
            owned = asked or u
            backward = {
                "dense": ((item * D * (u + asked) + 4 * D * u * more) * (n > 1)
                          + 4 * D * owned + 16 * owned + 48 * k),
                "all2all": ((item * D * (u + asked) + 4 * D * u * more) * (n > 1)
                            + 4 * D * owned + 16 * owned + 48 * k),
                "reduce_scatter": (item * D * (all_bags + bag_count)) * (n > 1) + 4 * D * min(pairs, k * n)
                + 16 * pairs + 48 * k}
            # What kernels take besides on a GPU.
            scratch = (36 * (k + max(asked, pairs)) + 16 * (u + owned) + 8192) * tf.test.is_gpu_available()
            for name, out, layer in outputs:
                after = [op.name for op in tf.get_default_graph().get_operations()
                         if op.type == "Sok1xCall" and any(tensor.op is out.op for tensor in op.inputs)]
                assert len(after) == 2, after  # the rows made distinct, and the gradient
                for ops, limit in (([out.op.name], forward[name]), (after, backward[name])):
                    limit += scratch
                    used = sum(taken[op] for op in ops)
                    assert 0 < used <= limit, (name, ops, used, limit, n, k, u, asked)
                    assert used > limit / 4, ("the bound says nothing", name, used, limit)
            taken.clear()
    print("rank", world.rank, dtype, "ok")


if __name__ == "__main__":
    main()
