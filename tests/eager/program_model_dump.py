"""Run by test_eager_dumps.py: incremental_model_dump of eager programs, against what is known to have changed since.

All ranks train keys of their own; every dump has those of all ranks. Between times there are pauses, so that a time is
told from what was before it.
"""
import datetime
import sys
import threading
import time

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.session.talk import talk  # noqa: E402

DIM, KEYS, PAUSE = 2, 40, 0.6
MAKES = {
    "static": lambda: sok.Variable(np.ones([KEYS, DIM], np.float32)),
    "localized": lambda: sok.Variable(np.ones([KEYS, DIM], np.float32), mode="localized:0"),
    "hashed": lambda: sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1).embedding_variable,
    "growing": lambda: sok.All2AllDenseEmbedding(None, DIM, 1, 1, init_capacity=2).embedding_variable,
    "hbm": lambda: sok.DynamicVariable(dimension=DIM, var_type="hbm", init_capacity=2),
    "forgetting": lambda: sok.DynamicVariable(dimension=DIM, init_capacity=4, max_capacity=KEYS),
    "cache": lambda: sok.DynamicVariable(dimension=DIM, cache_rows=KEYS)}


def now():
    """A time between what all ranks did before it and what they do after."""
    talk().exchange(None, None)
    return datetime.datetime.utcnow()


def loss_of(tables, keys, times=1):
    return tf.add_n([tf.reduce_sum(sok.all2all_dense_embedding(table, keys + place)) for place, table in
                     enumerate(list(tables) * times)])


class Model:
    """Two tables, of which the second gets each key plus one; and when each key of them changed."""

    def __init__(self, make, world, in_function, times=1):
        self.tables, self.world = [make(), make()], world
        self.changed = [{}, {}]
        self.optimizer = tf.keras.optimizers.legacy.Adagrad(0.5)
        self._times = times
        self._call = tf.function(self._step, reduce_retracing=True) if in_function else self._step

    def _step(self, keys):
        with tf.GradientTape() as tape:
            loss = loss_of(self.tables, keys, self._times)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.tables), self.tables))

    def train(self, *keys):
        """Each rank its own key, three times the rank above these."""
        self._call(tf.constant([key + 3 * self.world.rank for key in keys], tf.int64))
        self.note(*keys)

    def note(self, *keys):
        for place, changed in enumerate(self.changed):
            for key in keys:
                for rank in range(self.world.size):
                    for more in range(self._times):
                        changed[key + 3 * rank + place + 2 * more] = datetime.datetime.utcnow()

    def since(self, *times):
        """For each table the keys that changed after a time, or one time for each table."""
        return [sorted(key for key, at in changed.items() if at > times[place % len(times)])
                for place, changed in enumerate(self.changed)]


def dumped(tables, *times, whole=True):
    keys, values = sok.incremental_model_dump(tables, times[0] if len(times) == 1 else list(times))
    for table, some, rows in zip(tables, keys, values):
        if whole:  # of this rank's rows the values are those that it has
            mine = dict(zip(*(one.numpy().tolist() for one in sok.export(table))))
            for key, row in zip(some.tolist(), rows.tolist()):
                assert key not in mine or mine[key] == row, (key, row, mine[key])
            assert len(rows) == len(some) and rows.shape[1] == DIM
    return [sorted(one.tolist()) for one in keys]


def check_pauses(kind, world, in_function):
    model = Model(MAKES[kind], world, in_function)
    times = []
    for keys in ((0,), (1, 9), (2,)):
        time.sleep(PAUSE)
        times.append(now())
        model.train(*keys)
        model.train(*keys)
    time.sleep(PAUSE)
    after = now()
    for when in times + [after]:
        assert dumped(model.tables, when) == model.since(when), (kind, in_function, when)
    for two in zip(times, times[1:] + times[:1]):
        assert dumped(model.tables, *two) == model.since(*two), (kind, in_function, two)
    aware = times[1].replace(tzinfo=datetime.timezone.utc).astimezone(datetime.timezone(datetime.timedelta(hours=5)))
    assert dumped(model.tables[:1], aware) == model.since(times[1])[:1]
    assert dumped(model.tables, after + datetime.timedelta(days=1)) == [[], []]


def check_gradients_that_wait(kind, world, together):
    """Rows that change after the time by gradients that were made before it."""
    model = Model(MAKES[kind], world, False)
    model.train(0, 1)
    time.sleep(PAUSE)
    with tf.GradientTape() as tape:
        loss = loss_of(model.tables, tf.constant([5], tf.int64), 2 if together else 1)
    gradients = tape.gradient(loss, model.tables)
    del tape
    when = now()
    with tf.GradientTape() as tape:
        loss = loss_of(model.tables, tf.constant([7], tf.int64))
    others = tape.gradient(loss, model.tables)
    del tape
    later = now()
    model.optimizer.apply_gradients(zip(gradients, model.tables))
    for place in range(2):
        model.changed[place][5 + place] = model.changed[place][7 + place] = datetime.datetime.utcnow()
        if together:
            model.changed[place][7 + place] = datetime.datetime.utcnow()
    model.optimizer.apply_gradients(zip(others, model.tables))
    del gradients, others
    for one in (when, later):
        for found, expected in zip(dumped(model.tables, one), model.since(one)):
            assert set(found) >= set(expected), (kind, together, found, expected)
    time.sleep(PAUSE)
    assert dumped(model.tables, now()) == [[], []]


def check_loop(kind, world):
    """Steps in a loop of one function: all that changed in it did so since any time before it."""
    model = Model(MAKES[kind], world, False)

    @tf.function
    def several(first):
        for more in tf.range(3):
            model._step(first + 2 * tf.cast(more, tf.int64) + 3 * world.rank)
    for first in (0, 20):
        time.sleep(PAUSE)
        when = now()
        several(tf.constant([first], tf.int64))
        model.note(first, first + 2, first + 4)
    assert dumped(model.tables, when) == model.since(when), kind


def check_following(kind, world, in_function, random):
    """Who takes the time before each dump, and dumps in the middle of training, misses nothing."""
    model, known, last = Model(MAKES[kind], world, in_function), [{}, {}], datetime.datetime(1970, 1, 1)
    for _ in range(5):
        for key in random.randint(0, KEYS - 8, 3):
            model.train(int(key))
        here = now()
        keys, values = sok.incremental_model_dump(model.tables, last)
        last = here
        for place in range(2):
            known[place].update(zip(keys[place].tolist(), values[place].tolist()))
    keys, values = sok.incremental_model_dump(model.tables, datetime.datetime(1970, 1, 1))
    for place in range(2):
        assert known[place] == dict(zip(keys[place].tolist(), values[place].tolist())), kind


def check_thread(kind, in_function):
    """Another thread trains all the time."""
    model = Model(MAKES[kind], launch.current(), in_function)
    ends, count = threading.Event(), [0]

    def train():
        while not ends.is_set():
            count[0] += 1
            model.train(count[0] % 17)
    thread = threading.Thread(target=train)
    thread.start()
    known, last, end = [{}, {}], datetime.datetime(1970, 1, 1), time.monotonic() + 60
    for number in range(1000):
        here = datetime.datetime.utcnow()
        if number == 15 or time.monotonic() > end:
            ends.set()
            thread.join()
        keys, values = sok.incremental_model_dump(model.tables, last)
        last = here
        for place in range(2):
            known[place].update(zip(keys[place].tolist(), values[place].tolist()))
        if ends.is_set():
            break
        time.sleep(0.1)
    keys, values = sok.incremental_model_dump(model.tables, datetime.datetime(1970, 1, 1))
    for place in range(2):
        assert known[place] == dict(zip(keys[place].tolist(), values[place].tolist())), (kind, in_function)
    assert count[0] > 3


def check_evicted(world):
    table = sok.DynamicVariable(dimension=DIM, init_capacity=4, max_capacity=4, initializer="1",
                                remember_evicted=100)
    optimizer = tf.keras.optimizers.legacy.SGD(0.5)

    def train(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant(keys, tf.int64)))
        optimizer.apply_gradients(zip(tape.gradient(loss, [table]), [table]))
    size = world.size
    train([size * key + world.rank for key in range(4)])
    time.sleep(PAUSE)
    when = now()
    train([size * key + world.rank for key in range(4, 7)])
    (keys,), (values,), (gone,), (complete,) = sok.incremental_model_dump(table, when, evicted=True)
    new = sorted(size * key + rank for key in range(4, 7) for rank in range(size))
    assert sorted(keys.tolist()) == new and (values == 0.5).all(), (keys, values)
    every, _ = sok.incremental_model_dump(table, datetime.datetime(1970, 1, 1))
    assert complete and sorted(gone.tolist()) == sorted(set(range(4 * size)) - set(every[0].tolist()))
    assert len(gone) == 3 * size


def main(seed):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    for kind in MAKES:
        check_pauses(kind, world, kind in ("static", "growing", "forgetting"))
        check_following(kind, world, kind in ("localized", "hbm", "cache"), random)
    check_pauses("hbm", world, True)
    check_pauses("static", world, False)
    for kind, together in (("static", True), ("hashed", False), ("forgetting", True), ("cache", False)):
        check_gradients_that_wait(kind, world, together)
    for kind in ("static", "hbm"):
        check_loop(kind, world)
    check_evicted(world)
    if world.size == 1:
        for kind, in_function in (("static", True), ("growing", False), ("forgetting", True)):
            check_thread(kind, in_function)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
