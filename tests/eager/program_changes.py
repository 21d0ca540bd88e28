"""Run by test_eager.py: what `sok.incremental_dump` gives has all rows that have changed, whoever has changed them.

Before and after, the tables are looked at as NumPy's arrays: what differs must be in the dump.
"""
import functools

import numpy as np
import tensorflow as tf
from refusals import refused

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM = 24, 3
KERAS = tf.keras.optimizers
OPTIMIZERS = {
    "SGD": lambda: KERAS.SGD(0.1), "Adagrad": lambda: KERAS.Adagrad(0.1), "AdamW": lambda: KERAS.AdamW(0.1),
    "legacy SGD": lambda: KERAS.legacy.SGD(0.1, momentum=0.9), "legacy Adagrad": lambda: KERAS.legacy.Adagrad(0.1),
    "train SGD": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    "train Adam": lambda: tf.compat.v1.train.AdamOptimizer(0.1),
    "scaled": lambda: tf.keras.mixed_precision.LossScaleOptimizer(KERAS.legacy.SGD(0.1)),
    "distributed": lambda: sok.DistributedOptimizer(KERAS.legacy.SGD(0.1)),
    "wrapped": lambda: sok.OptimizerWrapper(KERAS.SGD(0.1))}
FIRST = np.random.RandomState(0).normal(size=[KEYS, DIM]).astype(np.float32)
FOUR = tf.constant([[1], [2], [3], [4]], tf.int64)


def static():
    return sok.Variable(FIRST)


def hashed():
    return filled(sok.EmbeddingVariable(KEYS, DIM))


def growing():
    return filled(sok.EmbeddingVariable(None, DIM, init_capacity=2))


def dynamic():
    return filled(sok.DynamicVariable(dimension=DIM, var_type="hbm", init_capacity=2))


def filled(table):
    sok.assign(table, tf.range(KEYS, dtype=tf.int64), tf.constant(FIRST))
    return table


def bags(table):
    return sok.lookup_sparse(table, tf.RaggedTensor.from_tensor(FOUR), combiners="sum")


# What a loss is made of: the gradient is dense, of some rows, or of some rows twice.
LOSSES = {
    "all": lambda table: tf.reduce_sum(table ** 2), "l2": tf.nn.l2_loss,
    "part": lambda table: tf.reduce_sum(table.value()[:2] ** 2),
    "lookup and all": lambda table: tf.reduce_sum(bags(table) ** 2) + tf.nn.l2_loss(table),
    "lookups": lambda table: tf.reduce_sum(bags(table) ** 2) + tf.reduce_sum(bags(table)),
    "numbered": lambda table: tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 1]) ** 2),
    "lookup and numbered": lambda table: tf.reduce_sum(bags(table) ** 2) + tf.reduce_sum(
        tf.nn.embedding_lookup(table, [0, 1]) ** 2)}


def rows(table):
    """Of this rank: {key: row}."""
    keys, values = sok.export(table)
    return dict(zip(keys.numpy().tolist(), values.numpy()))


def check(what, table, change, exactly=None):
    """The dump after `change` has what has changed, and nothing else that is not in a set of keys."""
    since, before = int(table.steps.numpy()), rows(table)
    change()
    after, (keys, values) = rows(table), sok.incremental_dump(table, since)
    changed = {key for key in after if key not in before or (after[key] != before[key]).any()}
    assert changed <= set(keys.tolist()), (what, "changed", sorted(changed), "dumped", sorted(keys.tolist()))
    assert exactly is None or set(keys.tolist()) == changed, (what, sorted(changed), sorted(keys.tolist()))
    for key, row in zip(keys.tolist(), values):
        np.testing.assert_array_equal(row, after[key], err_msg=str(what))
    return changed


def step_of(table, loss, optimizer):
    scaled = isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)

    def step():
        with tf.GradientTape() as tape:
            found = optimizer.get_scaled_loss(loss(table)) if scaled else loss(table)
        gradient = tape.gradient(found, table)
        optimizer.apply_gradients([(optimizer.get_unscaled_gradients([gradient])[0] if scaled else gradient, table)])
    return step


def check_steps():
    for number, (name, made) in enumerate(OPTIMIZERS.items()):
        for kind in (static, hashed, growing, dynamic):
            for of, loss in LOSSES.items():
                in_function = (number + len(of)) % 2 == 0
                if kind is dynamic and "numbered" in of:
                    continue  # keys there, which other ranks may have
                table, optimizer = kind(), made()
                step = step_of(table, loss, optimizer)
                what = (name, kind.__name__, of, "function" if in_function else "eager")
                assert check(what, table, tf.function(step) if in_function else step), what


def check_dumps_before_a_step(world):
    """A gradient's rows change when they are moved, whatever has been dumped since it was made."""
    optimizers = dict(OPTIMIZERS, LazyAdam=lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
                      Adam=lambda: sok.optimizers.Adam(0.1), sok=lambda: sok.SGD(0.1))
    for name, made in optimizers.items():
        for kind in (static, growing):
            table, optimizer = kind(), made()
            for of_a_tape in (True, False):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(bags(table) ** 2)
                gradient = tape.gradient(loss, table) if of_a_tape else tf.function(
                    lambda table=table: tf.gradients(tf.reduce_sum(bags(table) ** 2), table)[0])()
                sok.incremental_dump(table, 0)
                clock = int(table.steps)
                changed = check((name, kind.__name__), table, functools.partial(
                    optimizer.apply_gradients, [(gradient, table)]))
                assert changed >= {key for key in range(1, 5) if key % world.size == world.rank}, (name, changed)
                # (Decay is a change of its own, and so is a step by rows that come from elsewhere.)
                assert int(table.steps) == clock + 1 or not of_a_tape or name == "AdamW", (name, kind.__name__)


def check_dumps_before_a_step_of_two_tables(world):
    """The other table has a constraint, by which the optimizer assigns to it: that is no stamp of this one's rows."""
    for name in ("SGD", "legacy SGD", "legacy Adagrad", "train SGD", "distributed", "wrapped"):
        table, optimizer = growing(), OPTIMIZERS[name]()
        other = filled(sok.DynamicVariable(dimension=DIM, init_capacity=2, constraint=tf.keras.constraints.NonNeg()))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(bags(table) ** 2) + tf.nn.l2_loss(other)
        pairs = list(zip(tape.gradient(loss, [table, other]), [table, other]))
        sok.incremental_dump(table, 0)
        changed = check(name, table, functools.partial(optimizer.apply_gradients, pairs))
        assert changed >= {key for key in range(1, 5) if key % world.size == world.rank}, (name, changed)
        assert all((row >= 0).all() for row in rows(other).values()), (name, "has no constraint")


def check_losses_in_both_ways():
    """Of one optimizer, as the others take turns."""
    for kind in (static, growing):
        for of, loss in LOSSES.items():
            table = kind()
            step = step_of(table, loss, KERAS.legacy.SGD(0.1))
            for taken in (step, tf.function(step)):
                assert check((kind.__name__, of), table, taken)


def check_gradients_made_elsewhere():
    """By tf.gradients in a function, in a function that the tape is outside of, by hand, and added up over batches."""
    table, optimizer = static(), KERAS.legacy.SGD(0.1)

    @tf.function
    def by_gradients():
        optimizer.apply_gradients([(tf.gradients(tf.nn.l2_loss(table), table)[0], table)])

    @tf.function
    def regularizer():
        return tf.nn.l2_loss(table)

    def outside():
        with tf.GradientTape() as tape:
            loss = regularizer()
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    def by_hand():
        slices = tf.IndexedSlices(tf.ones([2, DIM]), tf.constant([0, 3]))
        optimizer.apply_gradients([(slices, table)])

    for change in (by_gradients, outside, by_hand, tf.function(by_hand)):
        assert check(change, table, change)

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(bags(table) ** 2)
    kept = tape.gradient(loss, table)
    kept = tf.IndexedSlices(2.0 * kept.values, tf.identity(kept.indices), tf.identity(kept.dense_shape))
    check("kept", table, lambda: optimizer.apply_gradients([(kept, table)]))


def check_scatters():
    table = static()
    slices = tf.IndexedSlices(tf.ones([1, DIM]), tf.constant([1]))
    train = tf.compat.v1
    for name, change in {
            "scatter_add": lambda: table.scatter_add(slices), "scatter_sub": lambda: table.scatter_sub(slices),
            "scatter_update": lambda: table.scatter_update(slices), "scatter_mul": lambda: table.scatter_mul(
                tf.IndexedSlices(tf.fill([1, DIM], 3.0), tf.constant([0]))),
            "scatter_nd_add": lambda: table.scatter_nd_add([[2]], tf.ones([1, DIM])),
            "scatter_nd_update": lambda: table.scatter_nd_update([[0, 1]], [77.0]),
            "batch_scatter_update": lambda: table.batch_scatter_update(
                tf.IndexedSlices(tf.fill([1, DIM], 5.0), tf.constant([1]))),
            "tf.scatter_add": lambda: train.scatter_add(table, [1, 3], tf.ones([2, DIM])),
            "tf.scatter_nd_sub": lambda: train.scatter_nd_sub(table, [[2]], tf.ones([1, DIM]))}.items():
        assert check(name, table, change, exactly=True), name
    assert check("in a function", table, tf.function(lambda: [table.scatter_add(slices), None][1]), exactly=True)
    for name, change in {
            "assign_add": lambda: table.assign_add(tf.ones_like(table)), "assign": lambda: table.assign(2.0 * table),
            "slice": lambda: table[1].assign(tf.fill([DIM], 7.0))}.items():
        assert check(name, table, change), name


def check_caches(world):
    """A gradient of all rows would leave out those that are in host memory alone; a lookup's has its rows."""
    for optimizer in (KERAS.legacy.SGD(0.1), KERAS.SGD(0.1), tf.compat.v1.train.AdagradOptimizer(0.1)):
        for in_function in (False, True):
            table = sok.DynamicVariable(dimension=DIM, cache_rows=8, initializer="1")
            for first in (0, 4, 8, 12):
                sok.all2all_dense_embedding(table, tf.range(first, first + 4, dtype=tf.int64))
            for loss in (tf.nn.l2_loss, LOSSES["lookup and all"]):
                step = step_of(table, loss, optimizer)
                refused(ValueError, "gradient of the whole variable", tf.function(step) if in_function else step)
                assert all((row == 1).all() for row in rows(table).values()), "nothing has moved"
            if not isinstance(optimizer, KERAS.SGD):  # which writes its momentum as a whole
                step = step_of(table, LOSSES["lookups"], optimizer)
                changed = check("cache", table, tf.function(step) if in_function else step)
                assert changed == {key for key in range(1, 5) if key % world.size == world.rank}, changed


def check_gradients_added_up(world):
    """Of a table whose rows leave: in a dense sum over batches nothing keeps a row for its key."""
    def forgetting():
        return sok.EmbeddingVariable(8, DIM, initializer="ones", evict_strategy="lru")

    def gradient(table, first, regularized=False):
        with tf.GradientTape() as tape:
            keys = tf.range(first, first + 4 * world.size, dtype=tf.int64)
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys) ** 2)
            loss += tf.nn.l2_loss(table) if regularized else 0.0
        return tape.gradient(loss, table)

    def added_up(table, optimizer):
        optimizer.apply_gradients([(tf.convert_to_tensor(gradient(table, 0)) + tf.convert_to_tensor(
            gradient(table, 100)), table)])

    def accumulated(table, optimizer):
        kept = tf.Variable(tf.zeros_like(table))
        for first in (0, 100, 200):
            kept.assign_add(tf.convert_to_tensor(gradient(table, first)))
        optimizer.apply_gradients([(kept, table)])

    def in_function(table, optimizer):
        tf.function(added_up)(table, optimizer)

    for step in (added_up, accumulated, in_function):
        for optimizer in (KERAS.SGD(0.1), KERAS.legacy.SGD(0.1), tf.compat.v1.train.GradientDescentOptimizer(0.1)):
            table = forgetting()
            refused(ValueError, "whose rows leave at max_capacity: got a sum of gradients",
                    lambda step=step, table=table, optimizer=optimizer: step(table, optimizer))
            assert all((row == 1).all() for row in rows(table).values()), "nothing has moved"
    # What a tape gives is applied, however it is made and scaled.
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(KERAS.legacy.SGD(0.1), dynamic=False, initial_scale=4)
    for regularized in (False, True):
        def step(table, regularized=regularized):
            found = scaled.get_unscaled_gradients([gradient(table, 0, regularized)])
            scaled.apply_gradients(zip(found, [table]))
        for taken in (step, tf.function(step)):
            table = forgetting()
            assert len(check("forgets", table, lambda taken=taken, table=table: taken(table))) == 4


def main():
    tf.get_logger().setLevel("ERROR")  # batch_scatter_update is deprecated
    sok.init()
    world = launch.current()
    check_steps()
    check_losses_in_both_ways()
    check_dumps_before_a_step(world)
    check_dumps_before_a_step_of_two_tables(world)
    check_gradients_made_elsewhere()
    check_scatters()
    check_caches(world)
    check_gradients_added_up(world)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
