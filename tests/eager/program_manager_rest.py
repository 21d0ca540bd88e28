"""Run by test_eager_objects.py: what an eager sok.CheckpointManager's object has and its checkpoint has not.

Tables that a model makes at its first call, variables that do not fit, and those of which nothing was saved.
"""
import os
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.errors import MismatchError  # noqa: E402

SAID = []
KEYS = np.arange(4)


class Lazy(tf.keras.layers.Layer):
    """Its table comes with the first call, as Keras' layers make theirs."""

    def build(self, shape):
        self.table = sok.DynamicVariable(dimension=2, init_capacity=2, name="lazy")
        self.bias = tf.Variable(1.0)
        super().build(shape)

    def call(self, keys):
        return sok.all2all_dense_embedding(self.table, keys) + self.bias

    def expect(self, keys, bias):
        found = sok.export(self.table)[0].numpy()
        world = launch.current()
        assert sorted(found) == [key for key in keys if key % world.size == world.rank], found
        assert self.bias.numpy() == bias


def manager_of(folder, **parts):
    return sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(**parts))


def said_by_rank_0(*words):
    """What was warned of has all the words; other ranks say nothing."""
    found, rank = list(SAID), launch.current().rank
    del SAID[:]
    assert [all(word in one for word in words) for one in found] == ([True] if words and rank == 0 else []), found


def check_later(folder):
    """A table that is made after the manager is saved by it, and restored."""
    model = Lazy()
    manager = manager_of(folder, model=model)
    assert manager.restore() is None
    model(KEYS[:2])
    model.table.steps.assign(7)
    manager.save(step=1)
    model(KEYS)
    model.bias.assign(3.0)
    model.table.steps.assign(9)
    assert manager.restore() == 1
    model.expect([0, 1], 1.0)
    assert int(model.table.steps.numpy()) in (7, 8)
    said_by_rank_0()

    # Of a table that is made after the restore there is a word; all else gets its value then.
    model.bias.assign(5.0)
    manager.save(step=2)
    name = model.table.table.name
    del model, manager
    model = Lazy()
    manager = manager_of(folder, model=model)
    assert manager.restore() == 2
    said_by_rank_0("'{}'".format(name), "begins anew")
    model(KEYS[2:])
    model.expect([2, 3], 5.0)


def check_shapes(folder, saved, others):
    """Nothing has changed where one variable does not fit."""
    table, counter = sok.DynamicVariable(dimension=2, init_capacity=2), tf.Variable(1)
    sok.all2all_dense_embedding(table, KEYS[:2])
    manager_of(folder, counter=counter, dense=saved).save(step=1)
    sok.all2all_dense_embedding(table, KEYS)
    counter.assign(2)

    def values():
        return [np.sort(sok.export(table)[0].numpy()), counter.numpy(), others.numpy()]
    before = values()
    try:
        manager_of(folder, counter=counter, dense=others).restore()
    except Exception as error:
        assert launch.current().rank or isinstance(error, MismatchError), error
        assert "float32 (2,) for 'others'" in str(error), error
    else:
        raise AssertionError("no error")
    for now, then in zip(values(), before):
        np.testing.assert_array_equal(now, then)
    said_by_rank_0()


def check_lacking(folder):
    """Variables of which nothing was saved stay, and are named."""
    dense = tf.keras.layers.Dense(2)
    dense.build([None, 3])
    sok.DynamicVariable(dimension=2)
    manager_of(folder, model=dense).save(step=1)
    dense.bias.assign([7.0, 8.0])
    for options in (dict(net=dense), dict(model=dense, more=tf.Variable(1.0, name="more"))):
        assert manager_of(folder, **options).restore() == 1
        said_by_rank_0(*(["bias", "kernel"] if "net" in options else ["more"]))
        np.testing.assert_array_equal(dense.bias, [7.0, 8.0] if "net" in options else [0.0, 0.0])


def check_all_there(folder):
    """Slots of every kind of optimizer, and what is made later: not a word."""
    kinds = tf.keras.optimizers
    for number, made in enumerate((kinds.Adam, kinds.legacy.Adam, tf.compat.v1.train.AdamOptimizer)):
        model, optimizer = tf.keras.Sequential([tf.keras.layers.Dense(2)]), made(0.1)

        def step():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(tf.ones([1, 3])))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        step()
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        checkpoint.write(os.path.join(folder, "of-{}".format(launch.current().rank)))  # which counts its saves
        manager = sok.CheckpointManager(os.path.join(folder, str(number)), checkpoint=checkpoint)
        manager.save(step=1)
        step()
        assert manager.restore() == 1
        later = tf.keras.Sequential([tf.keras.layers.Dense(2)])
        assert manager_of(os.path.join(folder, str(number)), model=later, optimizer=made(0.1)).restore() == 1
        said_by_rank_0()


def main(folder):
    sok.init()
    tf.get_logger().addFilter(lambda record: record.levelname == "WARNING" and SAID.append(record.getMessage()))
    tf.get_logger().setLevel("WARNING")
    folder = os.path.join(folder, str(launch.current().size))
    check_all_there(os.path.join(folder, "all"))
    check_later(os.path.join(folder, "later"))
    check_shapes(os.path.join(folder, "shape"), tf.Variable([1.0, 2.0]), tf.Variable([3.0], name="others"))
    check_shapes(os.path.join(folder, "dtype"), tf.Variable([1.0, 2.0]), tf.Variable([3, 4], name="others"))
    check_lacking(os.path.join(folder, "lacking"))
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
