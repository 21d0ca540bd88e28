"""Tables of all kinds, saved on some ranks and restored on others, into tables of other kinds; and dumped by time.

    [mpiexec -np N] python program_dynamic_saved.py SEED FOLDER STAGE

Every rank follows all ranks' batches in NumPy. What a stage has left in FOLDER the next one goes on with.
"""
import datetime
import os
import pickle
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.core.embedding_variable import EmbeddingVariable

tf.logging.set_verbosity(tf.logging.ERROR)
DIM, RATE, STEPS, STATIC = 3, 0.5, 4, 40
GROWS, FIXED = dict(rows=None, init_capacity=2), dict(rows=500)
LRU = dict(rows=None, init_capacity=5, max_capacity=500, evict_strategy="lru")
LFU = dict(LRU, evict_strategy="lfu", init_capacity=300)
ADMITS = dict(rows=None, admit_after=1, filter_ratio=0.5)  # filters where a lookup says so: here none does
# The kinds that each table has in the stages in turn, and the capacity of the one that forgets in earnest.
KINDS = [(GROWS, FIXED, LRU, GROWS), (LRU, LRU, GROWS, FIXED), (FIXED, GROWS, LFU, FIXED), (LFU, ADMITS, LFU, LRU)]
SMALL = (20, 60, 70, 160)


class Model:
    """The graph of a stage."""

    def __init__(self, stage):
        made = [EmbeddingVariable(dim=DIM, initializer="ones", **kinds[stage]) for kinds in KINDS]
        made.append(EmbeddingVariable(rows=None, dim=DIM, initializer="ones", init_capacity=4, evict_strategy="lru",
                                      max_capacity=SMALL[stage], remember_evicted=1000))
        made.append(sok.Variable(np.ones([STATIC, DIM]), dtype=tf.float32))
        self.tables = made
        self.keys = [tf.placeholder(tf.int64, [None]) for _ in made]
        self.rows = [sok.all2all_dense_embedding(table, keys) for table, keys in zip(made, self.keys)]
        self.local = sok.DynamicVariable(dimension=DIM, initializer="1", var_type="hbm", init_capacity=1, name="local")
        self.local_keys = tf.placeholder(tf.int64, [None])
        self.local_rows = tf.nn.embedding_lookup(self.local, self.local_keys)
        self.exported = sok.export(self.local)
        optimizer = tf.train.MomentumOptimizer(RATE, 0.5)
        loss = tf.add_n([tf.reduce_sum(one) for one in self.rows + [self.local_rows]])
        variables = made + [self.local]
        self.step = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables),
                                              tf.train.get_or_create_global_step())
        self.slots = [optimizer.get_slot(table, "momentum") for table in made]


class Followed:
    """A table of all ranks: {key: [row, slot]}, exact in float32."""

    def __init__(self):
        self.rows = {}

    def train(self, keys):
        for key, count in zip(*np.unique(keys, return_counts=True)):
            row, slot = self.rows.get(int(key), (1.0, 0.0))
            slot = slot * 0.5 + count
            self.rows[int(key)] = row - RATE * slot, slot

    def check(self, keys, values):
        assert len(set(keys.tolist())) == len(keys) == len(self.rows), (len(keys), len(self.rows))
        np.testing.assert_array_equal(values[:, 0], [self.rows[key][0] for key in keys.tolist()])


def batches(seed, stage, step, ranks, number):
    """Every rank's keys of one table."""
    random = np.random.RandomState([seed, stage, step, number])
    counts = [random.randint(0, 14) for _ in range(ranks)]
    if number == len(KINDS):  # ever new ones, and some of the step before
        first = 1000 * stage + 24 * step
        return np.array_split(np.concatenate([np.arange(first, first + 24), np.arange(first - 8, first)]), ranks)
    most = STATIC if number > len(KINDS) else 60
    spread = 1 if number > len(KINDS) else 2 ** 33 + 1
    return [random.randint(0, most, count) * spread for count in counts]


def full(run, model):
    """All rows of all tables."""
    keys, values = sok.incremental_model_dump(model.tables, datetime.datetime(1970, 1, 1), run)
    return list(zip(keys, values))


def stage(seed, folder, number):
    world = launch.current()
    path = os.path.join(folder, "expected.pickle")
    followed, local = [Followed() for _ in range(len(KINDS) + 2)], [{} for _ in range(world.size)]
    followed[-1].rows = {key: (1.0, 0.0) for key in range(STATIC)}
    if number:
        with open(path, "rb") as file:
            followed, saved, owners = pickle.load(file)
        local = merged(saved, owners, world.size)
    model = Model(number)
    hooks = [sok.InitHook(), sok.CheckpointSaverHook(os.path.join(folder, "saved"), save_steps=1000)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir=os.path.join(folder, "saved"), save_checkpoint_secs=None,
                                           save_summaries_steps=None, log_step_count_steps=None, hooks=hooks) as run:
        begins = datetime.datetime.utcnow()
        if number:
            check(run, model, followed, local)
            nothing = sok.incremental_model_dump(model.tables, begins, run)[0]
            assert [len(keys) for keys in nothing] == [0] * len(model.tables), nothing
        for step in range(STEPS):
            if step == STEPS - 2:
                since, before, changed = datetime.datetime.utcnow(), full(run, model), [set() for _ in model.tables]
                time.sleep(0.3)
            feed = {}
            for place, (keys, table) in enumerate(zip(model.keys, followed)):
                every = batches(seed, number, step, world.size, place)
                feed[keys] = every[world.rank]
                table.train(np.concatenate(every))
                if step >= STEPS - 2:
                    changed[place].update(np.concatenate(every).tolist())
            for rank, rows in enumerate(local):
                mine = local_batch(step, rank)
                for key in set(mine):
                    row, slot = rows.get(key, (1.0, 0.0))
                    slot = slot * 0.5 + mine.count(key)
                    rows[key] = row - RATE * slot, slot
            feed[model.local_keys] = local_batch(step, world.rank)
            run.run(model.step, feed)
        keys, values, gone, complete = sok.incremental_model_dump(
            model.tables, [since] * len(model.tables), run, evicted=True)
        small = len(KINDS)
        forgotten = set(followed[small].rows) - set(full(run, model)[small][0].tolist())
        assert set(gone[small].tolist()) == forgotten - (set(followed[small].rows) - set(before[small][0].tolist()) -
                                                         changed[small]), (gone[small], forgotten)
        assert complete == [True] * len(complete) and (forgotten or number > 1)
        assert all(len(one) == 0 for place, one in enumerate(gone) if place != small)
        for key in forgotten:
            del followed[small].rows[key]
        for place, (table, found) in enumerate(zip(followed, keys)):
            assert set(found.tolist()) == changed[place] & set(table.rows), (place, found, changed[place])
            np.testing.assert_array_equal(values[place][:, 0], [table.rows[key][0] for key in found.tolist()])
        check(run, model, followed, local)
        if world.size > 1:
            refused(lambda: sok.dump(os.path.join(folder, "dump"), model.local, session=run), "belong to other ranks")
    if world.rank == 0:
        with open(path, "wb") as file:
            pickle.dump((followed, local, world.size), file)
    # On the same ranks everything is where it was, keys of other ranks too; and what does not fit changes nothing.
    again(folder, number, followed, local)


def local_batch(step, rank):
    return [rank, 7, 7, 8 + rank // 2, step]


def merged(saved, owners, ranks):
    """Where rows of local lookups go on another number of ranks: to their owners, whose own row counts first."""
    if len(saved) == ranks:
        return saved
    local = [{} for _ in range(ranks)]
    for key in set().union(*saved):
        whose = key % owners if key in saved[key % owners] else min(r for r in range(owners) if key in saved[r])
        local[key % ranks][key] = saved[whose][key]
    return local


def check(run, model, followed, local):
    for table, (keys, values) in zip(followed, full(run, model)):
        table.check(keys, values)
    mine = local[launch.current().rank]
    keys, values = run.run(model.exported)
    assert set(keys.tolist()) == set(mine), (keys, mine)
    np.testing.assert_array_equal(values[:, 0], [mine[key][0] for key in keys.tolist()])


def refused(act, words):
    try:
        act()
    except Exception as error:
        assert words in str(error) or "Rank" in str(error), error
    else:
        raise AssertionError("no error")


def again(folder, number, followed, local):
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(number)
        manager = sok.CheckpointManager(os.path.join(folder, "saved"))
        if number % 2:  # else as in an Estimator's evaluation, whose session restores before it initializes
            session.run(tf.global_variables_initializer())
        manager.restore(session)
        check(session, model, followed, local)
        slots = session.run([slot.value() for slot in model.slots])
        for table, variable, values in zip(followed, model.tables, slots):
            if variable.index:
                index = session.run(variable.index[0])
                there = {int(key): row for key, row in index if row >= 0}
                assert [values[row, 0] for row in there.values()] == [table.rows[key][1] for key in there]
    with tf.Graph().as_default(), tf.Session() as session:
        for kinds in KINDS[:-1]:
            EmbeddingVariable(dim=DIM, initializer="ones", **kinds[number])
        small = EmbeddingVariable(rows=None, dim=DIM, initializer="ones", init_capacity=1, max_capacity=3)
        tf.train.get_or_create_global_step()
        manager = sok.CheckpointManager(os.path.join(folder, "saved"))
        session.run(tf.global_variables_initializer())
        before = session.run(tf.global_variables())
        refused(lambda: manager.restore(session), "its shard has 3 rows at most")
        for one, other in zip(before, session.run(tf.global_variables())):
            np.testing.assert_array_equal(one, other)
        assert session.run(tf.shape(small))[0] == 1


if __name__ == "__main__":
    sok.init(seed=7)
    stage(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    print("ok", flush=True)
