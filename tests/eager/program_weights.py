"""Run by test_eager_weights.py: lookups with weights under tapes, against `tf.nn.embedding_lookup_sparse`; and the
weights of Keras' layers and models whose attributes are tables, which are whole.

As in program_eager.py, every rank has a part of each batch, and TensorFlow's own variable sees all of it.
"""
import itertools
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, SAMPLES = 12, 3, 6
MAKES = {
    "static": lambda rows: sok.Variable(rows),
    "hbm": lambda rows: sok.DynamicVariable(dimension=DIM, var_type="hbm", init_capacity=2),
    "forgetting": lambda rows: sok.DynamicVariable(dimension=DIM, init_capacity=4, max_capacity=KEYS),
    "cache": lambda rows: sok.DynamicVariable(dimension=DIM, cache_rows=KEYS)}


def sparse(places, values):
    return tf.SparseTensor(tf.convert_to_tensor(places, tf.int64), values, [SAMPLES, 4])


def batch(random, world):
    """Places, keys and weights of all, and which of them are this rank's; some samples have nothing."""
    places = [[sample, place] for sample in range(SAMPLES) for place in range(random.randint(0, 4))]
    mine = [number for number, (sample, _) in enumerate(places) if sample % world.size == world.rank]
    return (np.array(places).reshape(-1, 2), random.randint(0, KEYS, len(places)),
            random.uniform(0.5, 2, len(places)).astype(np.float32), mine)


def check_steps(kind, combiner, in_function, world, random):
    """Two steps of SGD: rows, and gradients to weights, a variable or a tensor."""
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    factors = random.normal(size=(SAMPLES, DIM)).astype(np.float32)
    table, stock = MAKES[kind](rows), tf.Variable(rows)
    if kind != "static":
        sok.assign(table, tf.range(KEYS, dtype=tf.int64), rows)
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)

    def step(looked_up, variable, places, keys, weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            sums = looked_up(variable, sparse(places, keys), sparse(places, weights))
            loss = tf.reduce_sum(sums ** 2 * factors)
        return tape.gradient(loss, [variable, weights])

    def ours(table, ids, weights):
        return sok.lookup_sparse(table, ids, weights, combiners=combiner)

    def stocks(variable, ids, weights):
        # TensorFlow's has as many rows as the last sample with a key needs.
        found = tf.nn.embedding_lookup_sparse(variable, ids, weights, combiner=combiner)
        return tf.pad(found, [[0, SAMPLES - tf.shape(found)[0]], [0, 0]])

    def ours_step(places, keys, weights):
        of_table, of_weights = step(ours, table, places, keys, weights)
        optimizer.apply_gradients([(of_table, table)])
        return of_weights

    call = tf.function(ours_step, reduce_retracing=True) if in_function else ours_step
    for number in range(2):
        places, keys, weights, mine = batch(random, world)
        variable = tf.Variable(weights[mine]) if number and not in_function else tf.constant(weights[mine])
        found = call(tf.constant(places[mine], tf.int64), tf.constant(keys[mine], tf.int64),
                     variable if in_function else tf.convert_to_tensor(variable))
        of_stock, of_weights = step(stocks, stock, places, tf.constant(keys, tf.int64), tf.constant(weights))
        optimizer.apply_gradients([(of_stock, stock)])
        np.testing.assert_allclose(found.numpy(), of_weights.numpy()[mine], rtol=2e-4, atol=2e-5)
    keys, values = sok.export(table)
    assert keys.shape[0] or world.size > 1
    for key, row in zip(keys.numpy().tolist(), values.numpy()):
        np.testing.assert_allclose(row, stock.numpy()[key], rtol=2e-4, atol=2e-5, err_msg=kind)


def check_second_order(combiner, in_function, world, random):
    """A loss with a first gradient in it, of rows, weights and both; the ranks look up different keys."""
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    table, stock = sok.Variable(rows), tf.Variable(rows)
    places, keys, weights, mine = batch(random, world)
    mine = [number for number in mine if keys[number] % world.size == world.rank]
    places, keys = tf.constant(places[mine], tf.int64), tf.constant(keys[mine], tf.int64)
    weights = tf.constant(weights[mine])

    def second(looked_up, variable, weights):
        with tf.GradientTape() as outer:
            outer.watch(weights)
            with tf.GradientTape() as inner:
                inner.watch(weights)
                loss = tf.reduce_sum(tf.sin(looked_up(variable)))
            of_rows, of_weights = inner.gradient(loss, [variable, weights])
            again = tf.reduce_sum(of_weights ** 2) + tf.reduce_sum(of_rows.values ** 3)
        return outer.gradient(again, [variable, weights])

    def ours(variable):
        return sok.lookup_sparse(variable, sparse(places, keys), sparse(places, weights), combiners=combiner)

    def stocks(variable):
        return tf.nn.embedding_lookup_sparse(variable, sparse(places, keys), sparse(places, weights), combiner=combiner)

    def run(looked_up, variable):
        of_rows, of_weights = second(looked_up, variable, weights)
        return tf.convert_to_tensor(of_rows), of_weights
    run = tf.function(run, reduce_retracing=True) if in_function else run
    of_rows, of_weights = run(ours, table)
    stocks_rows, stocks_weights = run(stocks, stock)
    np.testing.assert_allclose(of_weights, stocks_weights, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(of_rows, stocks_rows.numpy()[world.rank::world.size], rtol=2e-4, atol=2e-5)


FIRST, LATER = np.arange(40), np.arange(1000, 1040)
TABLES = {
    "room": lambda: sok.DynamicVariable(dimension=2, initializer="13", init_capacity=100),
    "evicts": lambda: sok.DynamicVariable(dimension=2, initializer="13", max_capacity=48 // launch.current().size),
    "lfu": lambda: sok.DynamicVariable(dimension=2, initializer="13", max_capacity=48 // launch.current().size,
                                       evict_strategy="lfu"),
    "fixed": lambda: sok.EmbeddingVariable(100, 2, initializer=tf.keras.initializers.Constant(13.0))}


class Embedding(tf.keras.layers.Layer):
    """A layer that somebody has written, with its table in one of the places in which Keras looks for variables."""

    def __init__(self, table, place):
        super().__init__()
        keep(self, table, place)

    def call(self, keys):
        return sok.all2all_dense_embedding(found(self), tf.reshape(keys, [-1]))


class Whole(tf.keras.Model):
    """Likewise a model."""

    def __init__(self, table, place):
        super().__init__()
        keep(self, table, place)

    def call(self, keys):
        return sok.all2all_dense_embedding(found(self), tf.reshape(keys, [-1]))


class Part(tf.Module):
    """Has a variable, and is no layer."""

    def __init__(self, table):
        super().__init__()
        self.table = table


PLACES = ("attribute", "replaced", "list", "dict", "late", "module")


def found(owner):
    """The table, where Keras has it by now."""
    if isinstance(owner.kept, tf.Module):
        return owner.kept.table
    return tf.nest.flatten(owner.kept)[0]


def keep(owner, table, place):
    """Gives a layer or model its table."""
    if place == "replaced":
        owner.kept = sok.DynamicVariable(dimension=2, init_capacity=4, max_capacity=4)
    owner.kept = {"list": [table], "dict": {"of": {"items": [table]}}, "late": [], "module": Part(table)}.get(
        place, table)
    if place == "late":
        owner.kept.append(table)


def by_key(table):
    """{key: its row} of this rank, apart from all that lies in which place."""
    keys, rows = sok.export(table)
    return dict(zip(keys.numpy().tolist(), map(tuple, rows.numpy().tolist())))


def come(table, keys):
    """Has keys come, as training does."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant(keys, tf.int64)) ** 2)
    tf.keras.optimizers.legacy.SGD(0.01).apply_gradients([(tape.gradient(loss, table), table)])


def check_weights_by_hand(kind, owner, place, world):
    """What `set_weights` puts back is the table as it was, with its keys; and it goes on from there."""
    table = TABLES[kind]()
    model = owner(table, place) if owner is Whole else tf.keras.Sequential([owner(table, place)])
    model.predict(FIRST, verbose=0)
    beside = [*table.index, table.stamps, table.steps, *table.forgetting.values()]
    assert [id(one) for one in model.weights] == [id(one) for one in [table] + beside], (kind, place)
    assert [id(one) for one in model.trainable_weights] == [id(table)]
    table_of = "{} {} {}".format(kind, owner.__name__, place)
    come(table, FIRST)
    come(table, FIRST[:5])
    noted, weights = by_key(table), model.get_weights()
    assert sorted(noted) == [key for key in FIRST.tolist() if world.size == 1 or key % world.size == world.rank]
    twice = None
    for _ in range(2):
        come(table, LATER)
        come(table, LATER[:5])
        assert by_key(table) != noted and (kind in ("room", "fixed") or set(noted) - set(by_key(table))), table_of
        later = by_key(table)
        assert twice in (None, later), table_of  # as after the first time
        twice = later
        model.set_weights(weights)
        assert by_key(table) == noted, table_of
    check_predictions(model, noted)


def check_other_ranks(world, folder):
    """Weights of another rank, and of another number of ranks, would have rows that nobody finds; nothing changes."""
    table = TABLES["evicts"]()
    model = tf.keras.Sequential([Embedding(table, "attribute")])
    model.predict(FIRST, verbose=0)
    tf.nn.embedding_lookup(table, tf.constant(FIRST[:3]))  # rows here for keys of any rank
    noted, weights = by_key(table), model.get_weights()
    np.savez(os.path.join(folder, "{}-of-{}.npz".format(world.rank, world.size)), *weights)
    come(table, LATER)
    model.set_weights(weights)  # whoever has left meanwhile
    assert by_key(table) == noted
    if world.size > 1:
        from mpi4py import MPI
        MPI.COMM_WORLD.Barrier()
    others = [name for name in os.listdir(folder) if name != "{}-of-{}.npz".format(world.rank, world.size)]
    assert len(others) >= world.size - 1
    for name in others:
        with np.load(os.path.join(folder, name)) as file:
            weights = [file["arr_{}".format(place)] for place in range(len(file.files))]
        try:
            model.set_weights(weights)
        except ValueError as error:
            assert "on rank {} of {}, expected".format(*name[:-4].split("-of-")) in str(error), error
        else:
            raise AssertionError("no error")
        assert by_key(table) == noted
    again = TABLES["evicts"]()
    model = tf.keras.Sequential([Embedding(again, "attribute")])
    model.predict(LATER, verbose=0)
    with np.load(os.path.join(folder, "{}-of-{}.npz".format(world.rank, world.size))) as file:
        model.set_weights([file["arr_{}".format(place)] for place in range(len(file.files))])
    assert by_key(again) == noted


def check_predictions(model, noted):
    """Keys that had rows read these, and others read what rows begin with."""
    for key, row in zip(FIRST.tolist(), model.predict(FIRST, batch_size=20, verbose=0).tolist()):
        assert noted.get(key, tuple(row)) == tuple(row), key
    assert (model.predict(LATER, batch_size=20, verbose=0) == 13).all()


def check_early_stopping(kind, owner, place, world):
    """The first epoch is the best; in the second other keys come."""
    table, best = TABLES[kind](), {}
    model = owner(table, place) if owner is Whole else tf.keras.Sequential([owner(table, place)])
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.5), average=False), "mse")
    keys = np.concatenate([FIRST, LATER])
    wanted = np.repeat(np.concatenate([FIRST / 10 + 10, np.full(40, 99.0)])[:, np.newaxis], 2, axis=1)
    model.fit(tf.data.Dataset.from_tensor_slices((keys, wanted)).batch(10), epochs=2, steps_per_epoch=4, verbose=0,
              callbacks=[tf.keras.callbacks.LambdaCallback(
                             on_epoch_end=lambda epoch, logs: best.setdefault(0, by_key(table))),
                         tf.keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)])
    assert len(set(best[0].values())) > 10 // world.size and by_key(table) == best[0], (kind, owner, place)
    check_predictions(model, best[0])


def check_files():
    """Of one rank: a layer's tables lie beside one another in Keras' own files, each with its keys."""
    tables = [TABLES[kind]() for kind in ("room", "evicts", "fixed")]
    layer = Embedding(tables[0], "attribute")
    layer.others = tables[1:]
    model = tf.keras.Sequential([layer])
    model.predict(FIRST, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("old.h5", "new.weights.h5"):
            for table in tables:
                come(table, FIRST)
            noted = [by_key(table) for table in tables]
            model.save_weights(os.path.join(folder, name))
            for table in tables:
                come(table, LATER)
            assert all(by_key(table) != one for table, one in zip(tables, noted))
            model.load_weights(os.path.join(folder, name))
            assert [by_key(table) for table in tables] == noted, name


def check_growth():
    """A table that has grown since says so, and stays as it is; one that is all its own is put back."""
    for table, grown in ((sok.DynamicVariable(dimension=2, initializer="13", init_capacity=20), False),
                         (sok.EmbeddingVariable(None, 2, init_capacity=20), True)):
        model = tf.keras.Sequential([Embedding(table, "attribute")])
        model.predict(FIRST, verbose=0)
        come(table, FIRST[:20])
        noted, weights = by_key(table), model.get_weights()
        come(table, np.concatenate([FIRST, LATER]))
        later = by_key(table)
        try:
            model.set_weights(weights)
        except ValueError as error:
            assert not grown and "rows for a table that has" in str(error), error
            assert by_key(table) == later
        else:
            assert grown and by_key(table) == noted


def main(seed, folder):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    for kind, combiner, in_function in itertools.product(MAKES, ("sum", "mean", "sqrtn"), (False, True)):
        check_steps(kind, combiner, in_function, world, random)
    for combiner, in_function in itertools.product(("sum", "mean", "sqrtn"), (False, True)):
        check_second_order(combiner, in_function, world, random)
    for kind in TABLES:
        for owner, place in itertools.product((Embedding, Whole), PLACES if kind == "room" else ("attribute",)):
            check_weights_by_hand(kind, owner, place, world)
            check_early_stopping(kind, owner, place, world)
    if world.size == 1:
        check_files()
    check_other_ranks(world, folder)
    check_growth()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
