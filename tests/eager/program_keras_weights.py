"""Run by test_eager_weights.py: weights of Keras' layers and models whose attributes are tables, which are whole."""
import itertools
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

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


def check_slots(kind, optimizer, in_function):
    """Slots are no weights; but rows that `set_weights` leaves without a key begin anew in them."""
    table = TABLES[kind]()
    model = tf.keras.Sequential([Embedding(table, "attribute")])
    model.predict(FIRST, verbose=0)

    def step(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    call = tf.function(step, reduce_retracing=True) if in_function else step

    def train(keys):
        call(tf.constant(keys, tf.int64))

    def weights_of_optimizer():
        return optimizer.variables() if callable(optimizer.variables) else optimizer.variables

    def keys_and_slot():
        slot, = [one for one in weights_of_optimizer() if one.shape.rank == 2]
        index = table.index[0].numpy()
        return {row: key for key, row in index[index[:, 1] >= 0].tolist()}, slot.numpy()

    begun = model.get_weights()
    train(FIRST[:20])
    (first, slot), weights = keys_and_slot(), model.get_weights()
    kept = [one.numpy() for one in weights_of_optimizer()]
    # The optimizer's are put back not at all, before and after.
    for place in range(3):
        train(LATER)
        train(FIRST[:10])
        later, before = keys_and_slot()
        if place == 1:
            optimizer.set_weights(kept)
        model.set_weights(weights)
        if place == 2:
            optimizer.set_weights(kept)
        now, after = keys_and_slot()
        assert now == first and set(later) - set(now), kind
        free, taken = np.setdiff1d(np.arange(len(after)), list(now)), list(now)
        assert (before[sorted(set(later) - set(now))] > 0.5).any() and (after[free] == 0.5).all(), (kind, place)
        np.testing.assert_array_equal(after[taken], (slot if place else before)[taken], err_msg=str((kind, place)))
    model.set_weights(begun)  # from before the first key: what came is forgotten
    assert not by_key(table) and (model.predict(FIRST, verbose=0) == 13.0).all(), kind
    train(FIRST[:10])
    assert len(set(by_key(table).values())) == 1, kind


class Averaged(tf.keras.optimizers.legacy.SGD):
    """Has a slot whose rows begin as the table's do."""

    def _create_slots(self, var_list):
        super()._create_slots(var_list)
        for one in var_list:
            self.add_slot(one, "average", initializer=one.read_value())


def check_averages():
    """What each row of a slot begins with is its own: nothing can begin anew."""
    table = sok.EmbeddingVariable(100, 2, initializer=lambda shape, dtype=None, **_: tf.reshape(
        tf.range(float(np.prod(shape))), shape))
    model, optimizer = tf.keras.Sequential([Embedding(table, "attribute")]), Averaged(0.1)
    model.predict(FIRST, verbose=0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant(FIRST, tf.int64)))
    optimizer.apply_gradients([(tape.gradient(loss, table), table)])
    average = optimizer.get_slot(table, "average")
    before = average.numpy()
    model.set_weights(model.get_weights())
    np.testing.assert_array_equal(average, before)
    assert len(np.unique(before)) > 100


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


def main(folder):
    sok.init()
    world = launch.current()
    for kind in TABLES:
        for owner, place in itertools.product((Embedding, Whole), PLACES if kind == "room" else ("attribute",)):
            check_weights_by_hand(kind, owner, place, world)
            check_early_stopping(kind, owner, place, world)
        for make in tf.keras.optimizers.legacy.Adagrad, tf.keras.optimizers.Adagrad:
            check_slots(kind, make(0.1, initial_accumulator_value=0.5), make is tf.keras.optimizers.Adagrad)
    check_averages()
    if world.size == 1:
        check_files()
    check_other_ranks(world, folder)
    check_growth()
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
