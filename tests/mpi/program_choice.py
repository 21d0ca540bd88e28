"""Bags whose exchange is chosen in each step, on ranks that wish for one exchange or for different ones, against NumPy.

    SOK1X_WHOLE_HEADERS=2 mpiexec -np N python program_choice.py SEED

Values, trained rows and which exchange it was. Five ranks or more, in a tree, of which in every other step one does all
in Python. All numbers are multiples of 1/16, so that sums are exact in whatever order they are made.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import gate
from mpi4py import MPI

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.exchanges import choice
from sok1x.launch import coordinator

tf.logging.set_verbosity(tf.logging.ERROR)
comm, in_python = MPI.COMM_WORLD, [False]
D, KEYS, MOST = 4, 400, 20
COMBINERS = ("sum", "mean", "sum", "mean")
# What ranks have for a table: all few different keys, or all many; one that differs from the others, whose sizes
# decide, or has nothing; and nothing on any.
FEW, MANY, ONE_FEW, ONE_MANY, ONE_NOTHING, NOTHING = range(6)
STEPS = [(FEW, FEW, FEW, FEW)] * 3 + [
    (MANY, FEW, FEW, FEW), (MANY, MANY, MANY, MANY), (ONE_FEW, FEW, ONE_MANY, FEW), (FEW, FEW, FEW, FEW),
    (ONE_MANY, ONE_FEW, ONE_NOTHING, NOTHING), (FEW, ONE_MANY, FEW, FEW), (FEW, FEW, FEW, FEW)]


class Table:
    """A layer, what it is fed, and its rows as NumPy has them."""

    def __init__(self, combiner, keys):
        self.keys, self.mean = keys, combiner == "mean"
        self.layer = sok.DistributedEmbedding(combiner, KEYS, D, 1, MOST, exchange="auto", embedding_initializer="ones")
        self.fed = tf.sparse_placeholder(tf.int64)
        self.weights = tf.placeholder(tf.float32, [None, 1, D])
        self.rows = np.ones([KEYS, D])

    def batch(self, random, scene, step):
        """ids [bags, keys of each], and what their gradient is."""
        different = comm.rank == step % comm.size
        many = scene in (MANY, ONE_FEW, ONE_NOTHING) if not different else scene in (MANY, ONE_MANY)
        length = 16 if self.mean else random.randint(12, MOST + 1)
        bags = random.randint(3, 6)
        if scene == NOTHING or (different and scene == ONE_NOTHING):
            bags = 0
        elif different and scene == ONE_FEW:
            bags = 1
        ids = random.choice(KEYS, bags * length, replace=False)
        if not many:
            ids = random.choice(random.choice(KEYS, 3), bags * length)
        return ids.reshape(bags, length), random.randint(-3, 4, [bags, 1, D])

    def feed(self, ids, weights):
        where = np.argwhere(np.ones_like(ids))
        return {self.fed: (where, self.keys[ids.ravel()], [len(ids), MOST]), self.weights: weights}

    def expected(self, ids):
        total = self.rows[ids].sum(axis=1)[:, np.newaxis]
        return total / ids.shape[1] if self.mean else total

    def change(self, batches):
        """Takes the gradients of all ranks from the rows."""
        for ids, weights in batches:
            each = weights / ids.shape[1] if self.mean else weights
            np.subtract.at(self.rows, ids, np.broadcast_to(each, ids.shape + (D,)))


def fewer_bytes(batches):
    """The number of the exchange that moves fewer bytes, forward and backward; and how many ranks are alone better off
    with reduce_scatter."""
    row, more = 4 * D, []
    for ids, _ in batches:
        by_all2all = len(np.unique(ids)) * (8 + 2 * row)
        by_reduce_scatter = 16 * ids.size + len(batches) * len(ids) * 2 * row
        more.append(by_all2all - by_reduce_scatter)
    return int(sum(more) > 0), sum(one > 0 for one in more)


class Coordinator(coordinator.Coordinator):
    """Has Python announce all that is ready, where it is told to."""

    @property
    def may_announce(self):
        return not in_python[0] and super().may_announce


def main():
    seed = int(sys.argv[1])
    common, random = np.random.RandomState(seed), np.random.RandomState(seed + 1 + comm.rank)
    tables = [Table(combiner, common.permutation(KEYS) * 2654435761 - 2 ** 40) for combiner in COMBINERS]
    with tf.control_dependencies([gate()]):
        keys = [tf.SparseTensor(table.fed.indices, tf.identity(table.fed.values), table.fed.dense_shape)
                for table in tables]
    outs = [table.layer(one, training=True) for table, one in zip(tables, keys)]
    evaluated = [table.layer(table.fed, training=False) for table in tables]
    with tf.control_dependencies(outs + [gate()]):
        given = [tf.identity(table.weights) for table in tables]
    variables = [table.layer.embedding_variable for table in tables]
    train = tf.train.GradientDescentOptimizer(1.0).apply_gradients(
        zip(tf.gradients(outs, variables, grad_ys=given), variables))
    lookups = [[op for op in [out.op] + [one.op for one in out.op.inputs] if op.type == "Sok1xLookup"] for out in outs]
    routes = [op.outputs[-1] for op, in lookups]
    seen, settled, at_odds = set(), [], 0
    settle, choice.settle = choice.settle, lambda *given: settled.append(given) or settle(*given)
    with tf.Session() as sess:
        sess.run(sok.Init(global_batch_size=64))
        sess.run(tf.global_variables_initializer())
        world = launch.current()
        world.coordinator.__class__ = Coordinator
        assert world.short_headers and world.coordinator.tree.parents.count(0) < world.size - 1
        for step, scenes in enumerate(STEPS):
            mine = [table.batch(random, scene, step) for table, scene in zip(tables, scenes)]
            every = list(zip(*comm.allgather(mine)))
            feed, in_python[0] = {}, step % 2 == 1 and comm.rank == (step + 1) % comm.size
            for table, batch in zip(tables, mine):
                feed.update(table.feed(*batch))
            got, went, _ = sess.run([outs, routes, train], feed)
            for table, out, route, (ids, _), batches in zip(tables, got, went, mine, every):
                np.testing.assert_array_equal(out, table.expected(ids), str(step))
                exchange, wishes = fewer_bytes(batches)
                assert route[0] == exchange, (step, route, batches)
                seen.add((exchange, "none" if wishes == 0 else "all" if wishes == world.size else "some"))
                at_odds += 0 < wishes < world.size
                table.change(batches)
            assert len(settled) == at_odds, (step, len(settled), at_odds)
            if step % 3 == 2:
                for table, out, (ids, _) in zip(tables, sess.run(evaluated, feed), mine):
                    np.testing.assert_array_equal(out, table.expected(ids), str(step))
    assert seen == {(0, "none"), (1, "all"), (0, "some"), (1, "some")}, seen
    print("rank {} ok: {} exchanges by C++".format(world.rank, world.communicator.direct.exchanges))


if __name__ == "__main__":
    main()
