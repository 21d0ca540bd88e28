"""Tables that grow while they are trained, and tables that were large from the start: the same bits.

    [mpiexec -np N] python program_growth.py SEED

One table for each optimizer, looked up by key or by bag, some of them in groups with tables of fixed size. All are
trained twice from the same start: once with room for every key from the start, once from few rows on. Embeddings of
every step, rows, slots, stamps and indexes are compared bit for bit. Slots of two optimizers on one table, and slots
that are made after the first growth, are among them. Then memory ends, at every allocation of a growth in turn.
"""
import sys

import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS, LARGE, SMALL, BATCH = 20, 1024, 16, 24
train, keras = tf.train, tf.keras.optimizers
WRAPPED = sok.OptimizerWrapper
OPTIMIZERS = [
    lambda: train.GradientDescentOptimizer(0.1), lambda: train.AdamOptimizer(0.1),
    lambda: tf.contrib.opt.LazyAdamOptimizer(0.1), lambda: train.AdagradOptimizer(0.1),
    lambda: train.RMSPropOptimizer(0.1), lambda: train.AdadeltaOptimizer(0.5),
    lambda: keras.Adam(0.1, amsgrad=True), lambda: keras.SGD(0.1, 0.9), lambda: keras.Adagrad(0.1),
    lambda: sok.optimizers.Adam(0.1), lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    lambda: WRAPPED(train.FtrlOptimizer(0.1)), lambda: WRAPPED(train.AdamOptimizer(0.1)),
    lambda: WRAPPED(train.MomentumOptimizer(0.1, 0.9)), lambda: WRAPPED(keras.Ftrl(0.1))]
ADAMS = (1, 6, 12)


class Model:
    """A table for each optimizer, and what looks it up.

    grows: whether they begin small; every fifth is large for good.
    """

    def __init__(self, grows):
        self.tables, self.outputs, self.steps = [], [], []
        self.keys = tf.placeholder(tf.int64, [None])
        for number, make in enumerate(OPTIMIZERS):
            # TensorFlow's Adam takes roots of whole slots: eight numbers at a time by another method than one by one, and
            # in another order of operations where it knows the shape when the graph is built.
            dim = 8 if number in ADAMS else 1 + number % 7
            size = dict(rows=LARGE) if number % 5 == 0 or (not grows and number not in ADAMS) else \
                dict(rows=None, init_capacity=SMALL if grows else LARGE)
            table = sok.EmbeddingVariable(dim=dim, **size)
            self.tables.append(table)
            if number % 3:
                rows = sok.all2all_dense_embedding(table, self.keys + number)
            else:
                rows = sok.lookup_sparse(table, tf.RaggedTensor.from_row_splits(
                    self.keys + number, [0, 5, 5, BATCH]), combiners="sum")
            self.outputs.append(rows)
            self.steps.append(self.step(rows, table, make()))
        self.second = [self.step(self.outputs[1], self.tables[1], train.MomentumOptimizer(0.1, 0.9))]
        self.initial = tf.global_variables_initializer()
        before = set(tf.global_variables())
        self.late = [self.step(self.outputs[2], self.tables[2], WRAPPED(train.AdagradOptimizer(0.1)))]
        self.late_initial = tf.variables_initializer([one for one in tf.global_variables() if one not in before])

    @staticmethod
    def step(rows, table, optimizer):
        weights = tf.range(1.0, 1.0 + table.table.dim)
        return optimizer.apply_gradients(list(zip(tf.gradients(tf.reduce_sum(rows * rows * weights), table), [table])))


def follow(grows, seed):
    """Embeddings of each step, and all variables at the end."""
    random = np.random.RandomState(seed + launch.current().rank)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(grows)
        session.run(model.initial)
        outputs = []
        for step in range(STEPS):
            keys = random.randint(-200, 200, BATCH) * (1 + 2 ** 40 * random.randint(0, 2, BATCH))
            if step == STEPS // 2:
                session.run(model.late_initial)
            steps = [model.steps] + [model.second] * (step % 2) + [model.late] * (step >= STEPS // 2)
            outputs.append(session.run([model.outputs, steps], {model.keys: keys})[0])
        capacities = [session.run(tf.shape(table))[0] for table in model.tables]
        values = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
    return outputs, values, capacities


def used(values, table):
    """How many rows are in use."""
    return int(values[table + "/count"])


def same_bits(seed):
    (expected, large, _), (got, small, capacities) = follow(False, seed), follow(True, seed)
    for step, (one, other) in enumerate(zip(expected, got)):
        for number, (rows, rows_grown) in enumerate(zip(one, other)):
            np.testing.assert_array_equal(rows_grown, rows, err_msg="step {}, optimizer {}".format(step, number))
    assert large.keys() == small.keys()
    for name, value in large.items():
        if name.endswith("/index"):
            continue
        n = None if np.ndim(value) == 0 else min(len(value), len(small[name]))
        np.testing.assert_array_equal(np.asarray(value)[:n] if n else value, small[name][:n] if n else small[name],
                                      err_msg=name)
    tables = [name[:-len("/count")] for name in large if name.endswith("/count")]
    for number, table in enumerate(tables):
        keys = [{row: key for key, row in one[table + "/index"] if row >= 0} for one in (large, small)]
        assert keys[0] == keys[1] and len(keys[0]) == used(large, table) > SMALL
        # Doubled until it is enough, and no more.
        assert capacities[number] == (LARGE if number % 5 == 0 else SMALL * 2 ** int(
            np.ceil(np.log2(used(small, table) / SMALL)))), (capacities[number], used(small, table))
        beside = [name for name in small if table in name.split("/") and np.ndim(small[name]) and name != table + "/index"]
        assert {len(small[name]) for name in beside} == {capacities[number]}, beside


def memory_ends():
    """An allocation that fails, on one rank: all ranks hear of it, nothing is lost, and later the table grows."""
    world = launch.current()
    stock, left = growing.Reached.larger, [None]

    def scarce(self, what, count):
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise CallError(RESOURCE_EXHAUSTED, "no memory")
        return stock(self, what, count)

    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=None, dim=3, init_capacity=8, max_capacity=64)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        step = Model.step(rows, table, train.AdamOptimizer(0.1))
        values = {one.op.name: one.value() for one in tf.global_variables()}
        session.run(tf.global_variables_initializer())
        session.run(step, {keys: range(world.size * 8)})
        growing.Reached.larger = scarce
        try:
            state = session.run(values)
            failures = 0
            for allocation in range(40):
                left[0] = allocation if world.rank == 0 else None
                try:
                    # (64 keys a rank: a growth to the limit, which leaves one size to try.)
                    session.run(step, {keys: range(world.size * 8, world.size * 64)})
                except tf.errors.ResourceExhaustedError as error:
                    failures += 1
                    assert "EmbeddingVariable' on rank 0 cannot get more rows: it has 8 and needs 64" in error.message
                    for name in ("EmbeddingVariable/Adam", "beta1_power", "16 bytes"):
                        assert (name in error.message) == (name == "EmbeddingVariable/Adam"), error.message
                else:
                    break
                left[0] = None
                for name, before in state.items():
                    now = session.run(values[name])
                    if not name.endswith("/index"):
                        n = len(before) if np.ndim(before) else None
                        np.testing.assert_array_equal(now[:n] if n else now, before)
                        assert world.rank or np.shape(now) == np.shape(before), name
                evaluated = session.run(rows, {keys: range(world.size * 8)})
                assert evaluated.shape == (world.size * 8, 3)
            assert failures >= 5, failures  # the index, stamps, rows and two slots; then those that are cut back
            left[0] = None
            assert session.run(table).shape == (64, 3)
            try:
                session.run(step, {keys: range(1000, 1000 + world.size)})
            except tf.errors.ResourceExhaustedError as error:
                assert "64 of 64 rows (max_capacity) are in use and the batch has 1 new keys" in error.message, error
                assert "Raise max_capacity" in error.message
            else:
                raise AssertionError("a table beyond its limit")
        finally:
            growing.Reached.larger = stock


def main(seed):
    sok.init(seed=seed)
    same_bits(seed)
    memory_ends()
    print("rank {} ok".format(launch.current().rank))


if __name__ == "__main__":
    main(int(sys.argv[1]))
