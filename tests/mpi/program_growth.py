"""Tables that grow while they are trained, and tables that were large from the start: the same bits.

    [mpiexec -np N] python program_growth.py SEED

One table for each optimizer, looked up by key or by bag, some of them in groups with tables of fixed size. All are
trained twice from the same start: once with room for every key from the start, once from few rows on. Embeddings of
every step, rows, slots, stamps and indexes are compared bit for bit. Slots of two optimizers on one table, and slots
that are made after the first growth, are among them. Then memory ends, at every allocation of a growth in turn; and
kernels fail on one rank at every step of an eviction.
"""
import sys

import numpy as np
import stock_lazy_adam
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.cuda_kernels import index_rows, row_use
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.errors import INTERNAL, RESOURCE_EXHAUSTED, CallError

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS, LARGE, SMALL, BATCH = 20, 1024, 16, 24
train, keras = tf.train, tf.keras.optimizers
WRAPPED = sok.OptimizerWrapper
# Of those that compute with whole slots, TensorFlow's Adams, it depends on their static shape in which order they do.
OPTIMIZERS = [  # (whether it computes with whole slots, what makes it)
    (True, lambda: train.AdamOptimizer(0.1)), (False, lambda: train.GradientDescentOptimizer(0.1)),
    (False, lambda: stock_lazy_adam.LazyAdamOptimizer(0.1)), (False, lambda: train.AdagradOptimizer(0.1)),
    (False, lambda: WRAPPED(train.FtrlOptimizer(0.1))), (True, lambda: keras.Adam(0.1, amsgrad=True)),
    (False, lambda: sok.optimizers.Adam(0.1)), (False, lambda: keras.SGD(0.1, 0.9)),
    (False, lambda: train.RMSPropOptimizer(0.1)), (False, lambda: WRAPPED(keras.Ftrl(0.1))),
    (True, lambda: WRAPPED(train.AdamOptimizer(0.1))), (False, lambda: keras.Adagrad(0.1)),
    (False, lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)), (False, lambda: train.AdadeltaOptimizer(0.5))]


def of_ranks():
    """All on one rank; on several, where processes cost more, some."""
    return OPTIMIZERS if launch.current().size == 1 else OPTIMIZERS[:4]


def is_large(number):
    return number % 5 == 1


class Model:
    """A table for each optimizer, and what looks it up.

    grows: whether they begin small; the second and every fifth after it is large for good.
    """

    def __init__(self, grows):
        self.tables, self.outputs, self.steps = [], [], []
        self.keys = tf.placeholder(tf.int64, [None])
        for number, (whole, make) in enumerate(of_ranks()):
            dim = 8 if whole else 1 + number % 7  # eight numbers at a time are computed otherwise than one by one
            size = dict(rows=LARGE) if is_large(number) or not (grows or whole) else \
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
        self.second = [self.step(self.outputs[0], self.tables[0], train.MomentumOptimizer(0.1, 0.9))]
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
            outputs.append(session.run([model.outputs, model.steps], {model.keys: keys})[0])
            if step % 4 == 1:  # apart: two optimizers' steps on one table have no order
                session.run(model.second, {model.keys: keys + 50})
            if step >= STEPS // 2 and step % 4 == 3:
                session.run(model.late, {model.keys: keys + 100})
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
        assert capacities[number] == (LARGE if is_large(number) else SMALL * 2 ** int(
            np.ceil(np.log2(used(small, table) / SMALL)))), (capacities[number], used(small, table))
        beside = [name for name in small if table in name.split("/") and np.ndim(small[name]) and "index" not in name]
        assert {len(small[name]) for name in beside} == {capacities[number]}, beside


def memory_ends(once):
    """An allocation that fails, on one rank: all ranks hear of it, nothing is lost, and later the table grows.

    once: whether there is memory again for what is cut back.
    """
    world = launch.current()
    stock, left = growing.Reached.larger, [None]

    def scarce(self, what, count, **how):
        if left[0] is not None:
            left[0] -= 1
            if left[0] == -1 or (left[0] < 0 and not once):
                raise CallError(RESOURCE_EXHAUSTED, "no memory")
        return stock(self, what, count, **how)

    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=None, dim=3, init_capacity=8, max_capacity=64)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        step = Model.step(rows, table, train.AdamOptimizer(0.1))
        values = {one.op.name: one.value() for one in tf.global_variables() if not one.op.name.endswith("/index")}
        known = sok.export(table)
        session.run(tf.global_variables_initializer())
        session.run(step, {keys: range(world.size * 8)})
        growing.Reached.larger = scarce
        try:
            state, exported = session.run([values, known])
            # The index stays large once it is; then rows, stamps, two slots. A growth to the limit has no other size.
            for allocation in (0, 1, 1, 2, 3):
                left[0] = allocation if world.rank == 0 else None
                try:
                    session.run(step, {keys: range(world.size * 8, world.size * 64)})
                except tf.errors.ResourceExhaustedError as error:
                    assert "EmbeddingVariable' on rank 0 cannot get more rows: it has 8 and needs 64" in error.message
                    assert "EmbeddingVariable/Adam_1" in error.message and "nothing was changed" in error.message
                else:
                    raise AssertionError("allocation {} went well".format(allocation))
                left[0] = None
                for name, now in session.run(values).items():
                    assert world.rank or np.shape(now) == np.shape(state[name]), name
                    n = len(state[name]) if np.ndim(now) else None
                    np.testing.assert_array_equal(now[:n] if n else now, state[name], err_msg=name)
                for one, other in zip(session.run(known), exported):
                    np.testing.assert_array_equal(one, other)
            session.run(step, {keys: range(world.size * 8, world.size * 64)})
            assert {len(now) for now in session.run(values).values() if np.ndim(now)} == {64}
            try:
                session.run(step, {keys: range(1000, 1000 + world.size)})
            except tf.errors.ResourceExhaustedError as error:
                assert "64 of 64 rows (max_capacity) are in use and the batch has 1 new keys" in error.message, error
                assert "Raise max_capacity" in error.message
            else:
                raise AssertionError("a table beyond its limit")
        finally:
            growing.Reached.larger = stock


def kernels_fail():
    """On the last rank, at each step of an eviction: the others go on, no row that stays is lost, all hear of it."""
    world = launch.current()
    size, fails = world.size, world.rank == world.size - 1
    places = [(index_rows.kernels, "sweep_runs"), (row_use.kernels, "free_rows"), (row_use.kernels, "list_free"),
              (row_use.kernels, "give_rows"), (index_rows.kernels, "place_keys"), (row_use.kernels, "begin_rows"),
              (row_use.kernels, "stamp_given")]

    def failing_once(place, name):
        stock = getattr(place, name)

        def fault(*_):
            setattr(place, name, stock)
            raise CallError(INTERNAL, "as it should")
        return fault

    with tf.Graph().as_default(), tf.Session() as session:
        tables = [sok.EmbeddingVariable(rows=None, dim=2, init_capacity=32, max_capacity=32, evict_strategy="lru")
                  for _ in range(2)]
        keys = tf.placeholder(tf.int64, [None])
        rows = [sok.all2all_dense_embedding(table, keys) for table in tables]
        step = [Model.step(one, table, train.MomentumOptimizer(0.1, 0.9)) for one, table in zip(rows, tables)]
        known = [sok.export(table) for table in tables]
        session.run(tf.global_variables_initializer())

        def held():
            found = [dict(zip(keys.tolist(), values.tolist())) for keys, values in session.run(known)]
            assert all(len(of_table) <= 32 for of_table in found)
            return found

        new = 32 * size
        session.run(step, {keys: range(new)})
        for place, name in places:
            before, stock = held(), getattr(place, name)
            if fails:
                setattr(place, name, failing_once(place, name))
            try:
                batch = range(new, new + 3 * size)
                session.run(rows, {keys: batch})
            except tf.errors.InternalError as error:
                assert size == 1 and "as it should" in error.message, error
            else:
                assert size > 1 or not fails, name
            finally:
                setattr(place, name, stock)
            after = held()
            for one, other in zip(before, after):
                assert all(other[key] == one[key] for key in set(one) & set(other)), name
            if size > 1:  # one table's next lookup of new keys says so, on all ranks
                there = [len(set(batch) & set(of_table)) for of_table in after]
                assert sorted(there) == ([0, 3] if fails else [3, 3]), (name, there)
                try:
                    session.run(rows, {keys: batch})
                except tf.errors.InternalError as error:
                    assert "while keys got rows: as it should" in error.message, error
                else:
                    raise AssertionError(name)
            session.run(step, {keys: batch})
            assert all(set(batch[world.rank::size]) <= set(of_table) for of_table in held()), name
            new += 3 * size


def resident(name):
    """Bytes of this process's memory: VmRSS now, VmHWM at most since the last `forget_peak`."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def memory_peak(make, slots):
    """A growth takes memory for a new index alone: rows get addresses, which become memory when they are used."""
    dim, rows, few = 64, 1 << 17, 1 << 14
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=None, dim=dim, init_capacity=rows)
        keys = tf.placeholder(tf.int64, [None])
        step = Model.step(sok.all2all_dense_embedding(table, keys), table, make())
        stats = sok.table_stats(table)
        session.run(tf.global_variables_initializer())
        for first in range(0, rows, few):
            session.run(step, {keys: range(first, first + few)})
        before, small = resident("VmRSS"), session.run(stats)
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")
        session.run(step, {keys: [rows]})
        peak, large = resident("VmHWM"), session.run(stats)
    assert (small.capacity, small.load, large.capacity, large.rows_in_use) == (rows, 1, 2 * rows, rows + 1)
    one = 2 * rows * dim * 4
    assert large.device_bytes == (1 + slots) * one + 2 * rows * 8 + large_index(2 * rows) + 16
    # Whatever else the step takes is little: 4 MB, and large pages of 2 MB at the end of the rows and slots in use.
    most = large_index(2 * rows) + ((1 + slots) * 2 + 4 << 20)
    assert peak - before < most < one / 2, ((peak - before) / one, most / one)


def large_index(rows):
    """Bytes of the index of so many rows, a power of two."""
    return 16 * 2 * rows


def main(seed):
    sok.init(seed=seed)
    same_bits(seed)
    memory_ends(once=True)
    memory_ends(once=False)
    if not tf.test.is_gpu_available():
        kernels_fail()
    if launch.current().size == 1 and not tf.test.is_gpu_available():  # it is the memory of the process
        memory_peak(lambda: train.GradientDescentOptimizer(0.1), slots=0)
        memory_peak(lambda: train.MomentumOptimizer(0.1, 0.9), slots=1)
    print("rank {} ok".format(launch.current().rank))


if __name__ == "__main__":
    main(int(sys.argv[1]))
