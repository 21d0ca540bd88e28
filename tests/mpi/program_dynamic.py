"""sok.DynamicVariable on one rank and on several, beside other kinds of tables; checkpoints of tables that grow.

    [mpiexec -np N] python program_dynamic.py SEED

Lookups, gradients, rows and keys are followed by a model of the table in NumPy: {key: row} of all ranks.
"""
import os
import shutil
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.checkpoint.session.ranks import Ranks

tf.logging.set_verbosity(tf.logging.ERROR)
DIM, RATE = 3, 0.5


def ragged(keys, lengths):
    return tf.RaggedTensor.from_row_lengths(keys, lengths)


def draw(random, n):
    return random.randint(-40, 40, n) * (1 + 2 ** 40 * random.randint(0, 2, n))


class Followed:
    """The whole table in NumPy. first: what a new row is."""

    def __init__(self, first):
        self.first, self.rows = np.float32(first), {}

    def row(self, key):
        return self.rows.setdefault(int(key), np.full(DIM, self.first, np.float32))

    def look_up(self, keys):
        return np.array([self.row(key) for key in keys], np.float32).reshape(-1, DIM)

    def descend(self, gradients):
        """gradients: {key: float32 [DIM]}, summed over ranks."""
        for key, gradient in gradients.items():
            self.rows[key] = self.rows[key] - np.float32(RATE) * gradient


def trained_in_a_mixed_lookup(seed):
    """Gradients of a sum are how often a key was looked up: exact, in any order."""
    world, randoms = launch.current(), [np.random.RandomState(seed + rank) for rank in range(launch.current().size)]
    with tf.Graph().as_default(), tf.Session() as session:
        items = sok.DynamicVariable(dimension=DIM, initializer="2", var_type="hbm", name="items", init_capacity=2)
        there = sok.DynamicVariable(dimension=DIM, initializer="4", mode="localized:{}".format(world.size - 1),
                                    init_capacity=1, max_capacity=1000, key_type=tf.int64, name="there")
        static = sok.Variable(np.full([100, DIM], 8), dtype=tf.float32)
        layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=None, embedding_vec_size=DIM, slot_num=1,
                                          nnz_per_slot=1, embedding_initializer="ones", init_capacity=3)
        tables, others = sok.filter_variables(tf.trainable_variables())
        assert tables == [items, there, static, layer.embedding_variable] and not others
        keys, lengths = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
        bags = sok.lookup_sparse([items, there, static], [
            ragged(keys, lengths), ragged(keys, lengths), ragged(abs(keys) % 100, lengths)], combiners="sum")
        dense = [sok.all2all_dense_embedding(items, keys), layer(tf.reshape(keys, [-1, 1, 1]), training=True)]
        loss = tf.add_n([tf.reduce_sum(one) for one in bags + dense])
        step = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(RATE)).apply_gradients(
            zip(tf.gradients(loss, tables), tables))
        exported = [sok.export(table) for table in (items, there, layer.embedding_variable)]
        stats = sok.table_stats(items)
        session.run(tf.global_variables_initializer())
        expected = [Followed(2), Followed(4), Followed(1)]
        for number in range(8):
            batches = [draw(random, 0 if number == 3 and rank else 11) for rank, random in enumerate(randoms)]
            of_bags = [[4, 0, 7] if len(batch) else [] for batch in batches]
            mine = batches[world.rank]
            got = session.run([bags[:2], dense, step], {keys: mine, lengths: of_bags[world.rank]})[:2]
            for found, table in zip(got[0], expected):
                sums = [table.look_up(part).sum(0) for part in np.split(mine, np.cumsum(of_bags[world.rank])[:-1])]
                np.testing.assert_array_equal(found, np.reshape(sums, [-1, DIM]) if len(mine) else np.empty([0, DIM]))
            np.testing.assert_array_equal(got[1][0], expected[0].look_up(mine))
            np.testing.assert_array_equal(got[1][1].reshape(-1, DIM), expected[2].look_up(mine))
            every = np.concatenate(batches)
            for table, times in zip(expected, (2, 1, 1)):
                table.look_up(every)
                table.descend({int(key): np.float32(times * (every == key).sum()) for key in set(every.tolist())})
        for (found_keys, values), table, owner in zip(session.run(exported), expected, (None, world.size - 1, None)):
            assert set(found_keys.tolist()) == {
                key for key in table.rows if (key % world.size if owner is None else owner) == world.rank}
            np.testing.assert_array_equal(values, table.look_up(found_keys))
        used, capacity, load, taken, host, *others = session.run(stats)
        size, shape = session.run([items.size, tf.shape(items)])
        assert size.tolist() == [used, DIM] and shape.tolist() == [capacity, DIM]
        assert capacity >= used and host == 0 and not any(others)
        slots = session.run(tf.shape(items.index[0]))[0]
        assert load == np.float32(used) / np.float32(capacity) and taken == capacity * (4 * DIM + 8) + 16 * slots + 16
        assert (items.mode, items.target_gpu, items.num_gpus) == ("distributed", -1, world.size)
        assert (there.mode, there.target_gpu) == ("localized:{}".format(world.size - 1), world.size - 1)
        assert (items.backend_type, there.backend_type, items.initializer_str) == ("hbm", "hybrid", "2")
        assert items.shape.as_list() == [None, DIM] and session.run(items).shape == (capacity, DIM)
        if world.rank < world.size - 1:
            assert session.run(there.size).tolist() == [0, DIM]


def local_lookups(seed):
    """tf.nn.embedding_lookup: this rank's rows alone, while other ranks do other things; initializers run again."""
    world, random = launch.current(), np.random.RandomState(seed + launch.current().rank)
    given = random.uniform(size=[2, DIM]).astype(np.float32)
    with tf.Graph().as_default():
        items = sok.DynamicVariable(dimension=DIM, initializer=given, init_capacity=2, name="items")
        keys = tf.placeholder(tf.int64, [None, 2])
        rows = tf.nn.embedding_lookup(items, keys)
        gradient = tf.gradients(tf.reduce_sum(rows), items)[0]
        step = tf.train.GradientDescentOptimizer(RATE).apply_gradients([(gradient, items)])
        initial = tf.global_variables_initializer()
        for _ in range(2):
            with tf.Session() as session:
                for again in range(2):
                    session.run(initial)
                    expected = {}
                    for _ in range(3 + 2 * world.rank):
                        batch = draw(random, 8).reshape(4, 2)
                        found, slices = session.run([rows, gradient, step], {keys: batch})[:2]
                        for key in batch.reshape(-1).tolist():
                            expected.setdefault(key, given[len(expected) % 2])
                        np.testing.assert_array_equal(found.reshape(-1, DIM), [expected[key] for key in batch.flat])
                        assert slices.dense_shape[0] >= len(expected) and len(slices.indices) == len(set(batch.flat))
                        for key in set(batch.reshape(-1).tolist()):
                            expected[key] = expected[key] - np.float32(RATE * (batch == key).sum())
                    assert session.run(items.size).tolist() == [len(expected), DIM]
                    values = session.run(items)
                    unused = np.arange(len(expected), len(values))
                    np.testing.assert_array_equal(values[unused], given[unused % 2])


class Saved:
    """A model whose table has one name and grows, or not."""

    def __init__(self, folder, rows, **capacity):
        layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=rows, embedding_vec_size=DIM, slot_num=1,
                                          nnz_per_slot=1, **capacity)
        self.table, self.keys = layer.embedding_variable, tf.placeholder(tf.int64, [None])
        self.rows = sok.all2all_dense_embedding(self.table, self.keys)
        self.step = tf.train.AdamOptimizer(0.1).apply_gradients(
            [(tf.gradients(tf.reduce_sum(self.rows * self.rows), self.table)[0], self.table)])
        self.manager = sok.CheckpointManager(folder)
        self.values = [self.table.value(), *[slot.value() for slot in tf.global_variables() if "/Adam" in slot.op.name]]
        self.initial = tf.global_variables_initializer()


def checkpoints(seed):
    """From a growing table to a growing one, a fixed one, and back; refused where it does not fit."""
    world, random = launch.current(), np.random.RandomState(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        folder = Ranks("agree").agree(session, lambda: tempfile.mkdtemp())[0]
    every = np.unique(random.randint(0, 10 ** 6, 60 * world.size))
    mine = np.array_split(every, world.size)[world.rank]

    def run(rows, work, **capacity):
        with tf.Graph().as_default(), tf.Session() as session:
            model = Saved(folder, rows, **capacity)
            session.run(model.initial)
            return work(session, model)

    def save(session, model):
        for part in np.array_split(mine, 4):
            session.run(model.step, {model.keys: part})
        model.manager.save(session, 1)
        return session.run(model.rows, {model.keys: every})

    def restore(session, model):
        model.manager.restore(session)
        rows = session.run(model.rows, {model.keys: every})
        lengths = [len(value) for value in session.run(model.values)]
        assert len(lengths) == 3 and len(set(lengths)) == 1, lengths
        for _ in range(2):  # and goes on, growing
            session.run(model.step, {model.keys: every + 10 ** 7})
        return rows

    def too_small(session, model):
        before = session.run(model.values)
        try:
            model.manager.restore(session)
        except Exception as error:
            assert "for rank" in str(error) and str(5) in str(error), error
        else:
            raise AssertionError("restored into 5 rows")
        for one, other in zip(before, session.run(model.values)):
            np.testing.assert_array_equal(one, other)

    for first, others in ((dict(rows=None, init_capacity=4), (dict(rows=None, init_capacity=2), dict(rows=400))),
                          (dict(rows=200), (dict(rows=None, init_capacity=2), dict(rows=None, max_capacity=400)))):
        expected = run(work=save, **first)
        for other in others:
            np.testing.assert_array_equal(run(work=restore, **other), expected)
        for other in (dict(rows=5), dict(rows=None, max_capacity=5)):
            run(work=too_small, **other)
        if not world.rank:
            shutil.rmtree(folder)
            os.mkdir(folder)
    if not world.rank:
        shutil.rmtree(folder)


def rows_of_one_rank_alone():
    """One rank's rows become more than it has keys for: no rank looks up, until that rank has its own again."""
    world = launch.current()
    last = world.rank == world.size - 1
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [sok.DynamicVariable(dimension=DIM, initializer="2", init_capacity=8, name="rows{}".format(number))
                  for number in range(2)]
        keys, given = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, DIM])
        found = [sok.all2all_dense_embedding(table, keys) for table in tables]
        found += sok.lookup_sparse(tables, [tf.RaggedTensor.from_row_lengths(keys, tf.ones_like(keys))] * 2,
                                   combiners=["sum"] * 2)
        replaced = tf.raw_ops.AssignVariableOp(resource=tables[1].handle, value=given)
        session.run(tf.global_variables_initializer())
        ours = {keys: np.arange(4) + 100 * world.rank}
        expected = session.run(found, ours)
        rows = session.run(tables[1])
        for fetches in (found[:2], found[1], found[2:], found[3]):
            session.run(replaced, {given: np.zeros([64, DIM]) if last else rows})
            try:
                session.run(fetches, ours)
            except tf.errors.FailedPreconditionError as error:
                assert "'rows1' on rank {}: got 64 rows".format(world.size - 1) in str(error), error
            else:
                raise AssertionError("looked up among rows of another number")
            session.run(replaced, {given: rows})
            for one, other in zip(session.run(found, ours), expected):
                np.testing.assert_array_equal(one, other)


def main(seed):
    sok.init(seed=seed)
    trained_in_a_mixed_lookup(seed)
    local_lookups(seed)
    checkpoints(seed)
    rows_of_one_rank_alone()
    print("rank {} ok".format(launch.current().rank))


if __name__ == "__main__":
    main(int(sys.argv[1]))
