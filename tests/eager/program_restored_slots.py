"""Run by test_eager_restored_slots.py: what optimizers keep of tables that grow, restored before a step.

A table and an optimizer that go on are compared with new ones, into which a tf.train.Checkpoint has been restored.
Rows that come after that must find in the slots what the optimizer lets them begin with, not what was saved.
"""
import itertools
import os
import sys

import numpy as np
import somebodys_optimizers
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.core.frameworks import newer_optimizers  # noqa: E402

DIM = 3
TRAIN = tf.compat.v1.train
OPTIMIZERS = {
    "lazy": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    "adam": lambda: TRAIN.AdamOptimizer(0.1),
    "adagrad": lambda: TRAIN.AdagradOptimizer(0.1, initial_accumulator_value=0.5),
    "momentum": lambda: TRAIN.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: TRAIN.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "distributed": lambda: sok.DistributedOptimizer(TRAIN.AdagradOptimizer(0.1), average=False)}
# These are restored at their first step.
KERAS = {
    "keras adagrad": lambda: tf.keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.5),
    "keras adam": lambda: tf.keras.optimizers.legacy.Adam(0.1),
    "wrapped adagrad": lambda: sok.OptimizerWrapper(KERAS["keras adagrad"]()),
    "wrapped adam": lambda: sok.OptimizerWrapper(KERAS["keras adam"]())}
TABLES = {
    "growing": lambda: sok.DynamicVariable(dimension=DIM, init_capacity=2, initializer="ones"),
    # Keys that are new get rows that others leave.
    "forgetting": lambda: sok.DynamicVariable(dimension=DIM, init_capacity=2, max_capacity=32, initializer="ones",
                                               evict_strategy="lru"),
    "of V rows": lambda: sok.All2AllDenseEmbedding(32, DIM, 1, 1, embedding_initializer="ones").embedding_variable}
GROW = ["forgetting", "growing"]


class Model:
    def __init__(self, optimizer, table, in_function=False):
        self.table, self.optimizer = TABLES[table](), dict(OPTIMIZERS, **KERAS)[optimizer]()
        self.checkpoint = tf.train.Checkpoint(table=self.table, optimizer=self.optimizer)
        self._call = tf.function(self._step, reduce_retracing=True) if in_function else self._step

    def look_up(self, keys):
        return sok.all2all_dense_embedding(self.table, tf.constant(keys, tf.int64))

    def step(self, keys):
        self._call(tf.constant(keys, tf.int64))

    def _step(self, keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(sok.all2all_dense_embedding(self.table, keys)) ** 2)
        self.optimizer.apply_gradients([(tape.gradient(loss, self.table), self.table)])

    def rows(self):
        keys, rows = sok.export(self.table)
        return dict(zip(keys.numpy().tolist(), rows.numpy()))

    def slots(self):
        if newer_optimizers.is_one(self.optimizer):
            return newer_optimizers.slots_of(self.optimizer, self.table)
        return {name: self.optimizer.get_slot(self.table, name) for name in self.optimizer.get_slot_names()}


def expect_equal(model, twin, what):
    rows, others = model.rows(), twin.rows()
    assert sorted(rows) == sorted(others), what
    for key, row in rows.items():
        np.testing.assert_allclose(row, others[key], rtol=1e-6, atol=1e-6, err_msg="{}: {}".format(what, key))
    slots, others = model.slots(), twin.slots()
    assert slots and sorted(slots) == sorted(others), (what, sorted(slots), sorted(others))
    for name, slot in others.items():
        assert slot.shape.as_list() == slots[name].shape.as_list() == [None, DIM], (what, slot.shape)
        assert slot.numpy().shape == twin.table.numpy().shape, (what, name, slot.numpy().shape)
    rows = [sorted(map(tuple, np.concatenate([one.numpy() for one in of.values()], axis=1).tolist()))
            for of in (slots, others)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6, atol=1e-6, err_msg=what)


class Batches:
    """Of keys that come one after another; key k belongs to rank k % N, of N."""

    def __init__(self, random, ranks):
        self._random, self._ranks, self._there = random, ranks, 0

    def of(self, new):
        """This rank's: for each rank `new` keys that nobody has asked for before, and some of those before."""
        there, self._there = self._there, self._there + new * self._ranks
        return np.append(np.arange(there, self._there), self._random.randint(max(0, there - 8), self._there, 4))


def trained(optimizer, table, what, random, folder):
    """(a model that has been trained and saved, the batches that go on, where it was saved)."""
    model, batches = Model(optimizer, table), Batches(random, launch.current().size)
    for _ in range(3):
        model.step(batches.of(6))
    return model, batches, model.checkpoint.save(os.path.join(folder, what.replace(", ", "-"), "ckpt"))


def check(optimizer, table, between, in_function, random, folder, old=False):
    """between: whether keys that are new come by a lookup before the first step. old: whether keys that were saved are
    in it."""
    what = "{}, {}, {}, {}, {}".format(optimizer, table, between, in_function, old)
    model, batches, path = trained(optimizer, table, what, random, folder)
    capacity, saved = int(model.table.numpy().shape[0]), sorted(model.rows())

    twin = Model(optimizer, table, in_function)
    status = twin.checkpoint.restore(path)
    assert twin.table.numpy().shape == (capacity, DIM), what
    ahead = batches.of(2 if old else 20)
    steps = [batches.of(10) for _ in range(3)]
    if old:
        steps[0] = np.append(saved[-6:], steps[0])
    for one in (model, twin):
        if between:
            one.look_up(ahead)
        for keys in steps:
            one.step(keys)
    status.assert_consumed()
    expect_equal(model, twin, what)
    if table == "growing":
        assert twin.table.numpy().shape[0] > capacity, what

    # What was saved, once more, where there are slots already: they have as many rows as the table again.
    twin.checkpoint.restore(path).assert_consumed()
    model.checkpoint.restore(path).assert_consumed()
    assert twin.table.numpy().shape == (capacity, DIM), what
    expect_equal(model, twin, what)


def check_one_after_the_other(optimizer, random, folder):
    """An optimizer that is restored after its table, which has grown meanwhile."""
    what = "{}, later".format(optimizer)
    model, batches, path = trained(optimizer, "growing", what, random, folder)
    twin = Model(optimizer, "growing")
    checkpoint = tf.train.Checkpoint(table=twin.table)
    status = checkpoint.restore(path)
    ahead, keys = batches.of(20), batches.of(10)
    for one in (model, twin):
        one.look_up(ahead)
    checkpoint.optimizer = twin.optimizer
    assert checkpoint.save_counter.numpy() == 1  # restored when it is asked for
    for one in (model, twin):
        one.step(keys)
    status.assert_consumed()
    expect_equal(model, twin, what)


def check_made_later(optimizer, random, folder):
    """A table that a checkpoint gets after it was restored, as of a layer that makes it at its first call."""
    what = "{}, made later".format(optimizer)
    model, batches, path = trained(optimizer, "forgetting", what, random, folder)
    saved = sorted(model.rows())
    twin = Model(optimizer, "forgetting")
    checkpoint = tf.train.Checkpoint(optimizer=twin.optimizer)
    status = checkpoint.restore(path)
    checkpoint.table = twin.table
    assert checkpoint.save_counter.numpy() == 1 and sorted(twin.rows()) == saved
    ahead, steps = batches.of(20), [np.append(saved[-6:], batches.of(10)), batches.of(10)]
    for one in (model, twin):
        one.look_up(ahead)
        for keys in steps:
            one.step(keys)
    status.assert_consumed()
    expect_equal(model, twin, what)


def check_alone(optimizer, table, random, folder):
    """A table in use that is restored without its optimizer: no key gets slots that were another's."""
    what = "{}, {}, alone".format(optimizer, table)
    world, made = launch.current(), Model(optimizer, table)
    mine = np.arange(world.rank, 12, world.size)
    made.step(mine[:3])
    first = tf.train.Checkpoint(table=made.table).write(os.path.join(folder, what, "of-{}".format(world.rank)))
    both = made.checkpoint.write(os.path.join(folder, what, "both"))

    def go_on(model):
        """The keys that were saved have their rows: slots of these stay, those of keys that have gone begin anew."""
        for keys in (mine, mine[:3]):
            model.step(keys)
        before = slots_of_keys(model)
        tf.train.Checkpoint(table=model.table).read(first).assert_consumed()
        expect_slots(model, before, what)
        model.look_up(mine[:4] + 100 * world.size)
        expect_slots(model, before, what)

    twin = Model(optimizer, table)
    twin.checkpoint.read(both)  # before there are slots
    for model in (made, twin):
        go_on(model)

    # What another restore has given the slots before stays.
    if optimizer in KERAS and newer_optimizers.is_one(made.optimizer):
        made.checkpoint.read(both)
        expected = slots_of_keys(made)
        made.step(mine)
        tf.train.Checkpoint(optimizer=made.optimizer).read(both).expect_partial()
        tf.train.Checkpoint(table=made.table).read(first).assert_consumed()
        expect_slots(made, expected, what)

    # Another model's keys are in other rows.
    twin = Model(optimizer, table)
    for _ in range(3):
        twin.step(mine[::-1] + 12 * world.size)
    tf.train.Checkpoint(table=twin.table).read(first).assert_consumed()
    assert sorted(twin.rows()) == sorted(mine[:3])
    expect_slots(twin, {}, what)


def slots_of_keys(model):
    """{key: {slot's name: its values}}"""
    index = model.table.index[0].numpy()
    values = {name: slot.numpy() for name, slot in model.slots().items()}
    return {key: {name: value[row] for name, value in values.items()} for key, row in index if row >= 0}


def expect_slots(model, known, what):
    """As they are known of keys, else as slots begin."""
    for key, slots in slots_of_keys(model).items():
        for name, value in slots.items():
            begin = np.full(DIM, 0.5 if "accumulator" in name else 0.0, np.float32)
            np.testing.assert_array_equal(value, known.get(key, {}).get(name, begin), err_msg=str((what, key, name)))


def check_under_creators(optimizer, random, folder):
    """Where TensorFlow makes no slots until the first step."""
    what = "{}, under creators".format(optimizer)
    model, batches, path = trained(optimizer, "growing", what, random, folder)
    twin = Model(optimizer, "growing")
    with tf.variable_creator_scope(lambda creator, **kwargs: creator(**kwargs)):
        status = twin.checkpoint.restore(path)
    assert set(twin.slots().values()) == {None}
    keys = batches.of(20)
    for one in (model, twin):
        one.step(keys)
    status.assert_consumed()
    expect_equal(model, twin, what)


def check_older_weights(put_back, in_function):
    """Weights of an optimizer from before its table has grown: slots keep the rows that have come since."""
    table, optimizer = TABLES["growing"](), tf.keras.optimizers.Adam(0.1)

    def step(first, count):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.range(first, first + count, dtype=tf.int64)))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    step(0, 4)
    older = [one.numpy() for one in optimizer.variables]
    step(100, 50)
    newer = [one.numpy() for one in optimizer.variables]
    (tf.function(put_back) if in_function else put_back)(optimizer, older)
    for before, after, found in zip(older[1:], newer[1:], optimizer.variables[1:]):
        assert len(before) < len(after), (before.shape, after.shape)
        np.testing.assert_array_equal(found, np.concatenate([before, after[len(before):]]))
    step(100, 60)


def main(seed, folder):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    random.seed(random.randint(10 ** 6) + world.rank)
    folder = os.path.join(folder, str(world.size))
    for optimizer in sorted(OPTIMIZERS):
        for table, between in itertools.product(GROW, (False, True)):
            check(optimizer, table, between, False, random, folder)
        check(optimizer, "growing", True, True, random, folder)
    for optimizer in sorted(KERAS):
        for between, old in ((True, False), (False, True), (True, True)):
            check(optimizer, "forgetting", between, False, random, folder, old)
        check_made_later(optimizer, random, folder)
    check("wrapped adagrad", "growing", True, False, random, folder)
    for optimizer in ("adagrad", "keras adam", "wrapped adagrad"):
        for table in sorted(TABLES):
            check_alone(optimizer, table, random, folder)
    for in_function, put_back in ((False, lambda optimizer, weights: optimizer.set_weights(weights)), (
            False, lambda optimizer, weights: optimizer.load_own_variables(
                {str(place): value for place, value in enumerate(weights)})), (
            True, lambda optimizer, weights: [one.assign(value) for one, value in zip(
                optimizer.variables, weights)][:0])):
        check_older_weights(put_back, in_function)
    for optimizer in ("adagrad", "adam"):
        check_one_after_the_other(optimizer, random, folder)
        check_under_creators(optimizer, random, folder)
    somebodys_optimizers.check(TABLES["of V rows"], random, folder)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
