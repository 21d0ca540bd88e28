"""Run by test_eager_objects.py: what is saved eagerly over a prefix that is also the folder of a whole checkpoint."""
import os
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS = np.arange(8)


class Eager:
    """A Keras model of one table, and what it has."""

    def __init__(self):
        self.layer = sok.All2AllDenseEmbedding(len(KEYS), 2, 1, 1)
        self.model = tf.keras.Sequential([tf.keras.Input([1, 1], dtype=tf.int64), self.layer])
        self.checkpoint = tf.train.Checkpoint(model=self.model)

    def put(self, number):
        sok.assign(self.layer, tf.constant(KEYS), tf.fill([len(KEYS), 2], float(number)))

    def expect(self, number):
        keys, rows = sok.export(self.layer)
        assert len(keys) and (rows.numpy() == number).all(), rows


class InGraph:
    """A table with a cache, so that a tf.train.Saver writes a whole checkpoint on one rank too."""

    def __init__(self, path):
        with tf.Graph().as_default() as self.graph:
            table = sok.DynamicVariable(dimension=2, cache_rows=16, name="cached")
            dense = tf.compat.v1.get_variable("dense", [], initializer=tf.ones_initializer())
            put = sok.assign(table, tf.constant(KEYS), tf.ones([len(KEYS), 2]))
            self.saver, self.both = tf.compat.v1.train.Saver(), (sok.export(table)[1], dense)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                session.run(put)
                self.path = self.saver.save(session, path)

    def check(self):
        with tf.compat.v1.Session(graph=self.graph) as session:
            self.saver.restore(session, self.path)
            rows, dense = session.run(self.both)
            assert len(rows) and (rows == 1).all() and dense == 1, (rows, dense)


def fail(path):
    raise OSError("nothing is kept")


def expect_failure(checkpoint, path):
    try:
        checkpoint.write(path, tf.train.CheckpointOptions(experimental_write_callbacks=[fail]))
    except Exception as error:
        assert "nothing is kept" in str(error), error
    else:
        raise AssertionError("no error")


def check_manager(eager, folder):
    """The folder of a sok.CheckpointManager's step."""
    eager.put(1)
    manager = sok.CheckpointManager(folder)
    path = manager.save(step=1)
    eager.put(2)
    expect_failure(eager.checkpoint, path)
    assert manager.restore() == 1
    eager.expect(1)
    eager.put(3)
    assert eager.checkpoint.save(os.path.join(folder, "model.ckpt")) == path
    eager.put(4)
    eager.checkpoint.restore(path).assert_consumed()
    eager.expect(3)
    assert manager.restore() is None


def check_savers(eager, folder):
    """The folder of a tf.train.Saver's, whose index has two names."""
    path = os.path.join(folder, "saved-1")
    in_graph = InGraph(path)
    in_graph.check()
    expect_failure(eager.checkpoint, path)
    in_graph.check()
    eager.put(5)
    eager.checkpoint.write(path)
    eager.put(6)
    eager.checkpoint.read(path).assert_consumed()
    eager.expect(5)

    for number, url in enumerate(("", "file://")):
        path = InGraph(os.path.join(folder, "weights-{}".format(number))).path
        eager.put(7 + number)
        eager.model.save_weights(url + path)
        assert not os.path.isdir(path)
        eager.put(9)
        eager.model.load_weights(url + path).assert_consumed()
        eager.expect(7 + number)


def main(folder):
    sok.init()
    world, eager = launch.current(), Eager()
    folder = os.path.join(folder, str(world.size))
    check_manager(eager, os.path.join(folder, "manager"))
    check_savers(eager, folder)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
