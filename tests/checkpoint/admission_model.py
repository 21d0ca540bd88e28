"""Tables that do not give every key a row, asked for the same keys on any number of ranks, and saved half-way."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import embedding

HALF, WHOLE, AFTER = 6, 12, 3
# Of these one sketch has a place of its own for every key; one is so small that keys share places, but is not full in
# the end; one is halved again and again, and its table has a cache.
WIDE, TIGHT, HALVES, DRAWN = "wide", "tight", "halves", "drawn"
TABLES = {
    WIDE: dict(admit_after=AFTER, admission_counters=1 << 20, max_capacity=1000),
    TIGHT: dict(admit_after=AFTER, admission_counters=1 << 10),
    HALVES: dict(admit_after=AFTER, admission_counters=64, cache_rows=100),
    DRAWN: dict(filter_ratio=0.3)}


class Model:
    """The graph."""

    def __init__(self, tables):
        self.tables = {name: EmbeddingVariable(rows=None, dim=2, **options) for name, options in tables.items()}
        self.keys = {name: tf.placeholder(tf.int64, [None]) for name in tables}
        self.rows = [embedding.lookup_dense(table.table_variables, self.keys[name], True, filtered=name == DRAWN)
                     for name, table in self.tables.items()]
        self.index = {name: table.forgetting.get("every", table.index[0]).value()
                      for name, table in self.tables.items()}
        tf.train.get_or_create_global_step()

    def with_rows(self, session):
        """{table: keys that have a row on this rank}."""
        return {name: set(index[index[:, 1] >= 0, 0].tolist())
                for name, index in session.run(self.index).items()}


def batch(seed, name, step):
    """The distinct keys of all ranks; the last draw before the save gives no key a row, and its tick counts."""
    random = np.random.RandomState([seed % 2 ** 31, step])
    keys = np.unique(random.randint(0, 60 + 20 * step, 40)) * (2 ** 33 + 1) - 2 ** 35
    return keys[:0] if (name, step) == (DRAWN, HALF - 1) else keys


def go_on(model, session, seed, rank, ranks, steps):
    """Trains; [{table: keys with a row on this rank}] after each step."""
    found = []
    for step in steps:
        session.run(model.rows, {keys: np.array_split(batch(seed, name, step), ranks)[rank]
                                 for name, keys in model.keys.items()})
        found.append(model.with_rows(session))
    return found


def trained(folder, job_seed, seed, rank, ranks):
    """Trains from the start to the end, and saves half-way; what `go_on` gives for the steps after that."""
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(seed=job_seed))
        model, manager = Model(TABLES), sok.CheckpointManager(folder)
        session.run(tf.global_variables_initializer())
        go_on(model, session, seed, rank, ranks, range(HALF))
        manager.save(session, HALF)
        return go_on(model, session, seed, rank, ranks, range(HALF, WHOLE))


def restored(folder, job_seed, seed, rank, ranks):
    """Goes on from there."""
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(sok.Init(seed=job_seed))
        model, manager = Model(TABLES), sok.CheckpointManager(folder)
        assert manager.restore(session) == HALF
        return go_on(model, session, seed, rank, ranks, range(HALF, WHOLE))


FULL = {"full": dict(admit_after=2, admission_counters=1 << 14)}


def nearly_full(folder, rank, ranks):
    """Saves a table each of whose ranks has counted nearly as many keys as a row has counters."""
    with tf.Graph().as_default(), tf.Session() as session:
        model, manager = Model(FULL), sok.CheckpointManager(folder)
        session.run(tf.global_variables_initializer())
        for some in np.array_split(np.arange(16000 * ranks)[rank::ranks], 20):
            session.run(model.rows, {model.keys["full"]: some})
        manager.save(session, HALF)


def too_full(folder, lookups=4, new=1000):
    """Restores that on one rank: [which share of a lookup's new keys gets rows at once]."""
    with tf.Graph().as_default(), tf.Session() as session:
        model, manager = Model(FULL), sok.CheckpointManager(folder)
        assert manager.restore(session) == HALF
        found = [0]
        for number in range(lookups):
            session.run(model.rows, {model.keys["full"]: 10 ** 7 + np.arange(new) + number * new})
            found.append(sum(key >= 10 ** 7 for key in model.with_rows(session)["full"]))
        return np.diff(found) / float(new)
