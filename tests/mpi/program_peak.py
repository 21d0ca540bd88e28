"""Counts the bytes that each op asks TensorFlow for, held against the bounds in graph_ops/operations/embedding.py.

    mpiexec -np N python program_peak.py

Two dense lookups run together: what their group takes is held against the sum of their bounds. An output counts once,
whoever has asked for it.
"""
import collections

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import BACKWARD, FORWARD, gate, pause, sizes
from settled import settle

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge, op_functions, op_types
from sok1x.graph_ops.groups.lookup_run import LookupRun

B, S, H, D = 64, 3, 4, 24
SCRATCH = "scratch"
taken = collections.Counter()  # (op's name, number of an output or SCRATCH) -> bytes


def count_output(self, index, dtype, shape, output=bridge.Request.output):
    array = output(self, index, dtype, shape)
    taken[self.name, index] = array.size * bridge.ITEM_BYTES[array.dtype]  # which its group may have counted already
    return array


def count_memory(self, nbytes, memory=bridge.Request.memory):
    taken[self.name, SCRATCH] += nbytes  # temporaries' too
    return memory(self, nbytes)


bridge.Request.output, bridge.Request.memory = count_output, count_memory


def count_group(self, finish=LookupRun.finish):
    for number, member in enumerate(self.members):
        request = member.request
        taken[request.name, SCRATCH] += self.scratch_bytes / len(self.members)  # whose lookups are alike here
        for index in range(request.device_output_count):
            taken[request.name, index] = self.output_bytes(number, index)
    finish(self)


LookupRun.finish = count_group
op_functions.Library(bridge.PATH).lane_allow(False)  # what C++ runs by itself takes the same, but is not counted


def main():
    pause[0] = settle
    for dtype, item in (("float32", 4), ("float16", 2)):
        with tf.Graph().as_default():
            check(dtype, item)


def check(dtype, item):
    """item: bytes of a number of the result."""
    init = sok.Init(global_batch_size=B)
    denses = [sok.All2AllDenseEmbedding(20000, D, S, H, dtype=dtype) for _ in range(2)]
    layers = [(exchange, sok.DistributedEmbedding("mean", 20000, D, S, H, exchange=exchange, dtype=dtype))
              for exchange in ("all2all", "reduce_scatter")]
    more = item == 2
    keys, bags = tf.placeholder(tf.int64, [None, S, H]), tf.sparse_placeholder(tf.int64)
    with tf.control_dependencies([gate()]):
        gated = tf.identity(keys)
    outputs = [("dense", [layer(gated) for layer in denses], denses)]
    outputs += [(name, [layer(bags)], [layer]) for name, layer in layers]
    with tf.control_dependencies(outputs[0][1] + [gate()]):
        ones = tf.ones_like(outputs[0][1][0])
    steps = [tf.gradients(out, layer.embedding_variable, ones if name == "dense" else None)[0].values
             for name, outs, of in outputs for out, layer in zip(outs, of)]
    with tf.Session() as sess:
        sess.run(init)
        sess.run(tf.global_variables_initializer())
        world = launch.current()
        n = world.size
        random = np.random.RandomState(world.rank)
        for new in (True, False, True, False):  # whether keys have no rows yet
            if new:
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
                                                                           + item * n * bag_count * D
                                                                           + 64 * pairs) * (n > 1)
                                   + 80 * k + 24 * u + 24 * n + 64)}
            forward["dense"] += (item * D * (u + asked) + 16 * (u + asked)) * (n > 1 and new)
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
            for name, outs, _ in outputs:
                after = [op.name for op in tf.get_default_graph().get_operations()
                         if op_types.is_ours(op) and any(tensor.op is out.op for tensor in op.inputs for out in outs)]
                assert len(after) == 2 * len(outs), after  # the rows made distinct, and the gradient
                for ops, limit in (([out.op.name for out in outs], forward[name]), (after, backward[name])):
                    limit = (limit + scratch) * len(outs)
                    used = sum(count for (op, _), count in taken.items() if op in ops)
                    assert 0 < used <= limit, (name, ops, used, limit, n, k, u, asked)
                    assert used > limit / 4 or not new, ("the bound says nothing", name, used, limit)
            taken.clear()
        assert all(max(sizes[operation]) == 2 for operation in (FORWARD, BACKWARD)), sizes
    print("rank", world.rank, dtype, "ok")


if __name__ == "__main__":
    main()
