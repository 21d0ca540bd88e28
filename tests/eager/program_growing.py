"""Run by test_eager.py: tables that grow, forget, or have a cache, in eager execution and in tf.functions.

As in program_eager.py, every rank has a part of each batch, and TensorFlow's own variable sees all of it.
"""
import ctypes
import functools
import gc
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import deeprec_options  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM = 60, 3
KERAS = tf.keras.optimizers
# name: (an optimizer, whether it is wrapped, whether it steps in a tf.function)
OPTIMIZERS = {
    "Adam": (lambda: KERAS.Adam(0.05), False, True), "Adagrad": (lambda: KERAS.Adagrad(0.1), False, False),
    "Adam, wrapped": (lambda: KERAS.Adam(0.05), True, False),
    "Adadelta": (lambda: KERAS.Adadelta(0.5), False, True),
    "amsgrad": (lambda: KERAS.Adam(0.05, amsgrad=True), True, True),
    "legacy SGD": (lambda: KERAS.legacy.SGD(0.1, momentum=0.9), False, True),
    "legacy Adam, wrapped": (lambda: KERAS.legacy.Adam(0.05), True, True),
    "train Adagrad": (lambda: tf.compat.v1.train.AdagradOptimizer(0.1), False, True),
    "train ProximalAdagrad": (lambda: tf.compat.v1.train.ProximalAdagradOptimizer(
        0.1, l1_regularization_strength=0.01), False, False),
    "train Adam, wrapped": (lambda: tf.compat.v1.train.AdamOptimizer(0.05), True, False)}


def rows(table):
    """Of this rank: {key: row}."""
    keys, values = sok.export(table)
    return dict(zip(keys.numpy().tolist(), values.numpy()))


def one_each(keys):
    return tf.RaggedTensor.from_row_lengths(keys, tf.ones_like(keys))


def looked_up(table, keys):
    if isinstance(table, sok.All2AllDenseEmbedding):
        return tf.reshape(table(tf.reshape(keys, [-1, 1, 1]), training=True), [-1, DIM])
    return sok.lookup_sparse(table, one_each(keys), combiners="sum")


def step_of(table, variable, optimizer):
    def step(keys, factors):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(looked_up(table, keys) ** 2 * factors[:, None])
        optimizer.apply_gradients(zip(tape.gradient(loss, [variable]), [variable]))
    return step


def train(table, variable, made, wrapped, in_function, world, random, name, growing=True):
    optimizer = sok.OptimizerWrapper(made()) if wrapped else made()
    stock, other = tf.Variable(tf.ones([KEYS, DIM])), made()
    step = step_of(table, variable, optimizer)
    step = tf.function(step, reduce_retracing=True) if in_function else step
    before = int(sok.table_stats(variable).capacity)
    for number in range(4):
        # More and more keys, so that the table grows while there are slots.
        keys, factors = random.randint(0, KEYS * (number + 1) // 4, 12), random.normal(size=12).astype(np.float32)
        part = slice(world.rank, None, world.size)
        step(tf.constant(keys[part], tf.int64), tf.constant(factors[part]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(stock, keys) ** 2 * factors[:, None])
        other.apply_gradients(zip(tape.gradient(loss, [stock]), [stock]))
    found = rows(variable)
    assert found or world.size > 1
    for key, row in found.items():
        np.testing.assert_allclose(row, stock.numpy()[key], rtol=2e-4, atol=2e-5, err_msg=name)
    if growing:
        assert len(found) <= int(sok.table_stats(variable).capacity)
        assert len(found) <= before or int(sok.table_stats(variable).capacity) > before, name
        assert table is not variable or variable.size.numpy().tolist() == [len(found), DIM]
    return optimizer


def check_local_lookup(random):
    """tf.nn.embedding_lookup reads this rank's rows, which a tape knows of."""
    table, stock = sok.DynamicVariable(dimension=DIM, initializer="ones"), tf.Variable(tf.ones([KEYS, DIM]))
    keys, factors = tf.constant(random.randint(0, KEYS, 12)), random.normal(size=[12, 1]).astype(np.float32)

    def gradient(variable):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, keys) ** 2 * factors)
        return tape.gradient(loss, variable)

    for variable in (table, stock):
        for call in (functools.partial(gradient, variable), tf.function(functools.partial(gradient, variable))):
            KERAS.legacy.SGD(0.1).apply_gradients([(call(), variable)])
    found = rows(table)
    assert sorted(found) == sorted(set(keys.numpy().tolist()))
    for key, row in found.items():
        np.testing.assert_allclose(row, stock.numpy()[key], rtol=1e-4, atol=1e-5)


def check_dumps(table, optimizer, folder):
    since = int(table.steps.numpy())
    before, slot = rows(table), optimizer.get_slot(table, "m")
    moments = slot.numpy()[:len(before)]
    sok.dump(folder, [table], optimizer)
    sok.assign(table, tf.constant(sorted(before), tf.int64), tf.zeros([len(before), DIM]))
    assert not np.any(list(rows(table).values())), "all rows are zeros"
    assert sorted(sok.incremental_dump(table, since)[0].tolist()) == sorted(before)
    slot.assign(tf.zeros_like(slot))
    sok.load(folder, [table], optimizer)
    after = rows(table)
    assert sorted(after) == sorted(before)
    for key, row in after.items():
        np.testing.assert_array_equal(row, before[key])
    np.testing.assert_array_equal(np.sort(slot.numpy()[:len(before)], axis=0), np.sort(moments, axis=0))


def check_loaded_slots(world, folder):
    """After `sok.load` keys to come find slots that begin, and so do all where no optimizer is loaded."""
    kinds = {"grows": lambda: sok.DynamicVariable(dimension=DIM, initializer="1", init_capacity=2),
             "forgets": lambda: sok.DynamicVariable(dimension=DIM, initializer="1", init_capacity=2, max_capacity=64),
             "layer": lambda: sok.EmbeddingVariable(64, DIM, initializer="ones")}
    optimizers = {"legacy": lambda: KERAS.legacy.SGD(0.1, momentum=0.9), "newer": lambda: KERAS.SGD(0.1, momentum=0.9),
                  "wrapped": lambda: sok.OptimizerWrapper(KERAS.SGD(0.1, momentum=0.9)),
                  "train": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)}

    def step(table, optimizer, first):
        keys = tf.range(first, first + 4) * world.size + world.rank  # this rank's own
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    for name, made in optimizers.items():
        for kind, table_of in kinds.items():
            what, table, optimizer = "{}, {}".format(name, kind), table_of(), made()
            step(table, optimizer, 0)
            sok.dump("{}/{}".format(folder, what), [table], optimizer)
            for _ in range(3):
                step(table, optimizer, 10)
            sok.load("{}/{}".format(folder, what), [table], optimizer)
            assert sorted(rows(table)) == [key * world.size + world.rank for key in range(4)], what
            for first, before, moved in ((20, 1.0, 0.1), (0, 0.9, 0.19)):  # new keys, and keys that were loaded
                step(table, optimizer, first)
                for key in range(first, first + 4):
                    np.testing.assert_allclose(rows(table)[key * world.size + world.rank], before - moved, rtol=1e-5,
                                               err_msg="{}: {}".format(what, key))
                if name == "newer" or name == "wrapped":  # which move every row at each step
                    break
            sok.load("{}/{}".format(folder, what), [table])
            step(table, optimizer, 0)
            for row in rows(table).values():
                np.testing.assert_allclose(row, 0.9 - 0.1, rtol=1e-5, err_msg=what)


def check_forgetting(world, in_function):
    table = sok.DynamicVariable(dimension=DIM, initializer="1", init_capacity=4, max_capacity=16)
    step = step_of(table, table, KERAS.Adagrad(0.1))
    step = tf.function(step) if in_function else step
    for number in range(12):  # of each rank the same keys, of which it has its part
        step(tf.range(6 * number, 6 * number + 12, dtype=tf.int64), tf.ones([12]))
    stats = sok.table_stats(table)
    assert int(stats.rows_in_use) <= 16 and (int(stats.evictions) > 0 or world.size > 4), stats
    mine = [key for key in range(66, 78) if key % world.size == world.rank]
    assert set(mine) <= set(rows(table)), (mine, sorted(rows(table)))
    # Of a tape all rows stay that have been looked up, until it is gone.
    try:
        with tf.GradientTape() as tape:
            kept = [looked_up(table, tf.range(start, start + 8 * world.size, dtype=tf.int64))
                    for start in (1000, 2000, 3000)]
    except tf.errors.ResourceExhaustedError as error:
        assert "in flight" in str(error), error
    else:
        raise AssertionError("rows of a step in flight have left their keys: {}".format(len(kept)))
    tape = kept = None  # noqa: F841
    looked_up(table, tf.range(3000, 3000 + 8 * world.size, dtype=tf.int64))


def check_slots_of_rows_given_again():
    """A step that had read a slot before the lookup gave its rows to other keys would write what was there before."""
    for made in (lambda: KERAS.SGD(0.1, momentum=0.9), lambda: KERAS.RMSprop(0.1, momentum=0.9, centered=True),
                 lambda: KERAS.Adam(0.1), lambda: KERAS.Lion(0.1), lambda: KERAS.legacy.SGD(0.1, momentum=0.9)):
        for in_function in (False, True):
            table = sok.DynamicVariable(dimension=1, initializer="1", init_capacity=4, max_capacity=4)
            step = step_of(table, table, made())
            step = tf.function(step, reduce_retracing=True) if in_function else step
            for _ in range(5):
                step(tf.range(4, dtype=tf.int64), tf.ones([4]))
            for first in (7, 9, 7):
                step(tf.constant([first, first + 1], tf.int64), tf.zeros([2]))  # zeros have no new key's row move
            found = rows(table)
            for key in set(found) & set(range(7, 11)):
                assert found[key].tolist() == [1.0], (made().name, in_function, found)


def check_memory():
    def once():
        table, optimizer = sok.DynamicVariable(dimension=32, var_type="hbm", init_capacity=200000), KERAS.Adam(0.1)
        step_of(table, table, optimizer)(tf.range(100, dtype=tf.int64), tf.ones([100]))
        sok.export(table)
        cached = sok.DynamicVariable(dimension=32, cache_rows=1000)
        sok.all2all_dense_embedding(cached, tf.range(900, dtype=tf.int64))

    def memory():  # in use: what glibc keeps of what was given back is no table's (stock variables leave 500 MB so)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm") as file:
            resident, shared = map(int, file.read().split()[1:3])
        return (resident - shared) * 4096  # pages of libraries come whenever code in them first runs
    once()
    before = memory()
    for _ in range(4):
        once()
        memory()  # and collects: when Python does it by itself is not what is looked at
    assert memory() - before < 75e6, (before, memory())  # as many as one table has


def refused(call, words="writes rows"):
    try:
        call()
    except TypeError as error:
        assert words + " by their numbers" in str(error), error
    else:
        raise AssertionError("a key was taken for a row's number")


def check_numbered_rows():
    """A method that writes rows by their numbers has not written when it refuses keys; a gradient's rows it takes."""
    table, keys = sok.DynamicVariable(dimension=DIM, initializer="1"), tf.constant([40, 7], tf.int64)
    for method in (table.scatter_add, table.scatter_update, tf.function(table.scatter_sub)):
        refused(lambda method=method: method(tf.IndexedSlices(tf.fill([1, DIM], 5.0), tf.constant([0]))))
    for name in ("add", "sub", "update", "mul", "div", "min", "max"):
        function = getattr(tf.compat.v1, "scatter_" + name)
        refused(lambda function=function: function(table, [0], tf.fill([1, DIM], 5.0)))
    for name in ("add", "sub", "update"):
        function = getattr(tf.compat.v1, "scatter_nd_" + name)
        refused(lambda function=function: function(table, [[0]], tf.fill([1, DIM], 5.0)))
    refused(lambda: tf.tensor_scatter_nd_add(table, [[0]], tf.fill([1, DIM], 5.0)), "takes rows")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, keys))
    gradient = tape.gradient(loss, table)
    table.scatter_sub(tf.IndexedSlices(0.25 * gradient.values, gradient.indices))
    tf.compat.v1.scatter_sub(table, gradient.indices, 0.25 * gradient.values)
    found = rows(table)
    assert sorted(found) == [7, 40] and all((row == 0.5).all() for row in found.values()), found


def check_traces(world):
    """A tf.function that is given one table after the other reads and trains each: no trace serves another table."""
    kinds = []

    @tf.function(reduce_retracing=True)
    def step(variable, keys):
        kinds.append(type(variable).__name__)
        of_table = not type(variable).__module__.startswith("tensorflow")
        with tf.GradientTape() as tape:
            rows = sok.all2all_dense_embedding(variable, keys) if of_table else tf.nn.embedding_lookup(variable, keys)
            loss = tf.reduce_sum(rows)
        gradient = tape.gradient(loss, variable)
        variable.scatter_sub(tf.IndexedSlices(gradient.values, gradient.indices))
        return rows

    given = [sok.DynamicVariable(DIM, initializer="9"), sok.DynamicVariable(DIM, initializer="8"),
             tf.Variable(tf.fill([KEYS, DIM], 7.0)), sok.EmbeddingVariable(16, DIM, initializer="ones"),
             sok.EmbeddingVariable(16, DIM, initializer="zeros"), sok.Variable(tf.fill([KEYS, DIM], 5.0)),
             sok.Variable(tf.fill([KEYS, DIM], 4.0), mode="localized:0"), tf.Variable(tf.fill([KEYS, DIM], 3.0))]
    begin, keys = [9, 8, 7, 1, 0, 5, 4, 3], tf.constant([5, 7], tf.int64)
    for times in range(3):
        for variable, first in zip(given, begin):
            trained = times * (1 if type(variable) is type(given[2]) else world.size)
            np.testing.assert_array_equal(step(variable, keys), np.full([2, DIM], first - trained, np.float32))
    assert len(kinds) == 7, kinds  # plain variables share one


def check_built_before(world):
    """An optimizer that is asked to make its slots before its first step, also by a loss scale around it."""
    keys, scaling = tf.range(world.rank, 12, world.size, dtype=tf.int64), tf.keras.mixed_precision.LossScaleOptimizer
    for made in (KERAS.Adagrad, KERAS.Adam, KERAS.RMSprop, KERAS.Ftrl, KERAS.Adadelta):
        for scaled in (False, True):
            table, optimizer = sok.DynamicVariable(dimension=DIM, initializer="1", init_capacity=2), made(0.1)
            outer = scaling(optimizer, dynamic=False, initial_scale=1) if scaled else optimizer
            outer.build([table])
            step_of(table, table, optimizer)(keys, tf.ones([len(keys)]))
            stock, other = tf.Variable(tf.ones([12, DIM])), made(0.1)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(stock, tf.range(12)) ** 2)
            other.apply_gradients([(tape.gradient(loss, stock), stock)])
            for key, row in rows(table).items():
                np.testing.assert_allclose(row, stock.numpy()[key], rtol=1e-5, err_msg=made.__name__)


def main(seed, folder):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    for name, (made, wrapped, in_function) in OPTIMIZERS.items():
        table = sok.DynamicVariable(dimension=DIM, initializer="1", var_type="hbm", init_capacity=2)
        optimizer = train(table, table, made, wrapped, in_function, world, random, name)
        if name in ("Adam, wrapped", "legacy Adam, wrapped"):
            check_dumps(table, optimizer, "{}/{}".format(folder, name))
    layer = sok.All2AllDenseEmbedding(None, DIM, 1, 1, embedding_initializer="ones", init_capacity=2)
    train(layer, layer.embedding_variable, *OPTIMIZERS["Adam"], world, random, "layer")
    cached = sok.DynamicVariable(dimension=DIM, initializer="1", cache_rows=16)
    train(cached, cached, lambda: KERAS.legacy.SGD(0.1), False, True, world, random, "cache", growing=False)
    check_local_lookup(random)
    check_numbered_rows()
    check_traces(world)
    check_built_before(world)
    check_loaded_slots(world, folder)
    deeprec_options.check(world, folder)
    for in_function in (False, True):
        check_forgetting(world, in_function)
    if world.size == 1:
        check_slots_of_rows_given_again()
        check_memory()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
