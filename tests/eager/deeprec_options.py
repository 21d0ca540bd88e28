"""DeepRec's options in eager programs, of which some have ops of their own: for program_growing.py."""
import glob
import os
import threading
import time

import numpy as np
import tensorflow as tf
from refusals import refused

import sok1x as sok
from sok1x import deeprec
from sok1x.checkpoint.errors import CheckpointError
from sok1x.core.tables import scoped_tables

TRAINED = [4, 5]  # of keys 0 to 5, each with a row of [key / 5, 0]


def keys_of(table):
    return sorted(sok.export(table)[0].numpy().tolist())


def own(keys, world):
    return [key for key in keys if key % world.size == world.rank]


def made(name, option, world):
    """A table with rows, of which two have been trained, by steps that leave their values as they are."""
    table = deeprec.get_embedding_variable(name, 2, initializer=1.0, ev_option=deeprec.EmbeddingVariableOption(
        evict_option=option))
    keys = own(range(6), world)
    sok.assign(table, tf.constant(keys, tf.int64), tf.constant([[key / 5, 0] for key in keys], tf.float32))
    optimizer = sok.OptimizerWrapper(tf.keras.optimizers.legacy.SGD(0.0))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            rows, = deeprec.group_embedding_lookup([table], [tf.constant(TRAINED, tf.int64)])
            loss = tf.reduce_sum(rows)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    for _ in range(8):
        step()
    return table


def check_leaving(world, folder):
    """Rows leave before their table is saved, whatever saves it."""
    def save_weights(table):
        model = tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Flatten()])
        model.table = table
        model.save_weights(os.path.join(folder, "weights"))

    saves = {
        "manager": lambda table: sok.CheckpointManager(os.path.join(folder, "manager")).save(step=1),
        "dump": lambda table: sok.dump(os.path.join(folder, "dump"), [table]),
        "checkpoint": lambda table: tf.train.Checkpoint(table=table).write(os.path.join(folder, "checkpoint")),
        "weights": save_weights,
        "saver": lambda table: sok.Saver().dump_to_file(table, os.path.join(folder, "saver")),
        "function": lambda table: tf.function(
            lambda: sok.Saver().dump_to_file(table, os.path.join(folder, "function")))()}
    options = {"steps": deeprec.GlobalStepEvict(3), "norms": deeprec.L2WeightEvict(0.25)}
    for kind, option in options.items():
        for how, save in saves.items() if kind == "steps" else [("dump", saves["dump"])]:
            table = made("{}_{}".format(kind, how), option, world)
            assert keys_of(table) == own(range(6), world), (kind, how, keys_of(table))
            save(table)
            assert keys_of(table) == own(TRAINED, world), (kind, how, keys_of(table))
            if how in ("saver", "function"):
                there, = glob.glob(os.path.join(folder, how, "{}_{}_keys.file".format(kind, how)))
                assert sorted(np.fromfile(there, np.int64).tolist()) == TRAINED, (kind, how)


def check_target_gpu(world, folder):
    last = world.size - 1
    table = deeprec.get_embedding_variable("there", 2, initializer=1.0)
    table.target_gpu = last
    look_up = tf.function(lambda keys: deeprec.group_embedding_lookup([table], [keys])[0])
    assert (look_up(tf.constant([7, 8, 8 + world.rank], tf.int64)).numpy() == 1).all()
    keys = [7, 8, 9][:world.size + 1] if world.rank == last else []
    assert keys_of(table) == keys and table.mode == "localized:{}".format(last)
    path = tf.train.Checkpoint(table=table).write(os.path.join(folder, "there"))
    look_up(tf.constant([10], tf.int64))
    tf.train.Checkpoint(table=table).read(path)
    assert keys_of(table) == keys
    for mode in [None] + ["localized:0"][:last]:
        other = sok.DynamicVariable(dimension=2, mode=mode)
        if world.size == 1:
            tf.train.Checkpoint(table=other).read(path)
            assert keys_of(other) == keys
        else:
            refused(CheckpointError, "got rows that were dealt out otherwise",
                    lambda: tf.train.Checkpoint(table=other).read(path))
    for used in (table, deeprec.get_embedding_variable("evaluated", 2)):
        sok.all2all_dense_embedding(used, tf.constant([7], tf.int64), training=False)
        with_other = -1 if used is table else 0
        refused(ValueError, "target_gpu: got {} for a table that is looked up already".format(with_other),
                lambda: setattr(used, "target_gpu", with_other))
    filled = deeprec.get_embedding_variable("filled", 2)
    sok.assign(filled, tf.constant([world.rank], tf.int64), tf.zeros([1, 2]))
    refused(ValueError, "target_gpu: got 0 on rank {} for a table that has 1 rows there already".format(world.rank),
            lambda: setattr(filled, "target_gpu", 0))


    traced, folder = deeprec.get_embedding_variable("traced", 2), os.path.join(folder, "traced")
    kept = tf.function(lambda: sok.Saver().restore_from_file(traced, folder), autograph=False)
    kept.get_concrete_function()
    refused(ValueError, "whose rows an op in a tf.function assigns, saves or restores",
            lambda: setattr(traced, "target_gpu", 0))


def check_reuse():
    """Of a scope TensorFlow forgets it eagerly."""
    def get(**reuse):
        with tf.compat.v1.variable_scope("ads", reuse=tf.compat.v1.AUTO_REUSE):
            return deeprec.get_embedding_variable("shared", 2, **reuse)

    refused(ValueError, "'ads/shared': there is none, and the variable scope says reuse=True", lambda: get(reuse=True))
    table = get()
    refused(ValueError, "'ads/shared': there is one already, and variable scopes do not say in eager execution", get)
    assert get(reuse=True) is table and get(reuse=tf.compat.v1.AUTO_REUSE) is table
    assert traced("ads/shared")[0] is table and traced("ads/of_function")[0] is not table


def check_reuse_at_once():
    """The second of two threads finds what the first is making."""
    begun, found = threading.Event(), []

    def make(name, constraint):
        begun.set()
        time.sleep(0.3)
        return sok.DynamicVariable(2, name=name)

    def get():
        found.append(scoped_tables.get("at_once", make, tf.compat.v1.AUTO_REUSE))

    in_threads(get, get, between=begun.wait)
    assert found[0] is found[1]


def check_stores():
    """A layer's own: its tables are of no other, whichever thread calls it, and it finds none that are not its own."""
    class Layer(tf.keras.layers.Layer):
        @tf.compat.v1.keras.utils.track_tf1_style_variables
        def call(self, keys):
            self.table = deeprec.get_embedding_variable("of_store", 2, initializer=1.0)
            return deeprec.group_embedding_lookup([self.table], [keys])[0]

    layers, keys = [Layer() for _ in range(3)], tf.constant([7], tf.int64)
    layers[0](keys)
    layers[1](keys)
    in_threads(lambda: layers[2](keys))
    tables = [layer.table for layer in layers]
    assert len({id(table) for table in tables}) == 3
    for layer in layers[::-1]:
        in_threads(lambda layer=layer: layer(keys))
    assert all(layer.table is table for layer, table in zip(layers, tables))
    refused(ValueError, "'of_store': there is none", lambda: deeprec.get_embedding_variable("of_store", 2, reuse=True))
    found = []
    in_threads(lambda: found.append(deeprec.get_embedding_variable("of_store", 2, reuse=tf.compat.v1.AUTO_REUSE)))
    assert not any(found[0] is table for table in tables)


def in_threads(*calls, between=lambda: None):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
        between()
    for thread in threads:
        thread.join()


def traced(name):
    """The tables that two traces of a function have made, or found: in two threads, as each has a variable store."""
    found = []

    @tf.function
    def look_up(keys):
        found.append(deeprec.get_embedding_variable(name, 2, reuse=tf.compat.v1.AUTO_REUSE))
        return deeprec.group_embedding_lookup(found[-1:], [keys])[0]

    for keys in [7], [7, 8]:
        in_threads(lambda keys=keys: look_up(tf.constant(keys, tf.int64)))
    assert len(found) == 2 and found[0] is found[1], found
    return found


def check(world, folder):
    folder = os.path.join(folder, "deeprec_{}".format(world.size))
    check_leaving(world, folder)
    check_target_gpu(world, folder)
    check_reuse()
    check_reuse_at_once()
    check_stores()
