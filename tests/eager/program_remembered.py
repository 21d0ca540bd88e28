"""Run by test_eager_objects.py: tables that remember another number of keys that left than when they were saved.

On each rank 8 keys have left then, after step 3 of the table, and 8 have rows; then 2 more leave, and 2 come.
"""
import os
import sys

import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

DIM, ROWS = 3, 8


class Model:
    def __init__(self, remembered):
        self.table = sok.DynamicVariable(dimension=DIM, initializer="0", init_capacity=ROWS, max_capacity=ROWS,
                                         remember_evicted=remembered)
        self.optimizer = sok.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(1.0), average=False)
        self.checkpoint = tf.train.Checkpoint(table=self.table)

    def train(self, first, count=ROWS):
        keys = own(range(first, first + count))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(self.table, tf.constant(keys, tf.int64)))
        self.optimizer.apply_gradients([(tape.gradient(loss, self.table), self.table)])
        return self

    def rows(self):
        keys, rows = sok.export(self.table)
        return dict(zip(keys.numpy().tolist(), rows.numpy().tolist()))

    def left(self, since):
        keys, complete = sok.evicted_keys(self.table, since)
        return keys.tolist(), bool(complete)


def own(keys):
    """This rank's own keys, by their numbers."""
    world = launch.current()
    return [world.size * key + world.rank for key in keys]


def check(folder, saved, restored, used):
    model = Model(saved).train(0).train(ROWS)
    path = model.checkpoint.write(os.path.join(folder, "{}-{}-{}".format(saved, restored, used)))
    other, what = Model(restored), (saved, restored, used)
    if used:  # what it remembers of before is void
        other.train(100).train(100 + ROWS).train(100 + 2 * ROWS)
    other.checkpoint.read(path)
    assert other.rows() == model.rows() and sorted(other.rows()) == own(range(ROWS, 2 * ROWS)), what
    step = int(other.table.steps.numpy())
    known = own(range(ROWS))[-saved:] if saved and restored else []
    assert other.left(0)[0] == known, (what, other.left(0))
    assert not other.left(0)[1] and not other.left(step)[1], what  # keys may have left after the save, too
    other.train(50, 2)
    gone = sorted(set(own(range(2 * ROWS))) - set(other.rows()))[-2:]
    assert other.left(step)[0] == (gone if restored else []), (what, gone, other.left(step))
    remembered = (known + gone)[-saved:] if saved else gone
    assert other.left(0)[0] == (remembered if restored else []), (what, other.left(0))
    assert not other.left(step)[1], what
    assert used or other.left(step + 1)[1], (what, other.left(step + 1))
    if restored:
        since = int(other.table.steps.numpy())
        before = other.rows()
        other.train(60, 2)
        if not used:
            assert other.left(since) == (sorted(set(before) - set(other.rows())), True), (what, other.left(since))
    again = Model(saved)
    again.checkpoint.read(other.checkpoint.write(path + "-again"))
    assert again.rows() == other.rows()


def main(folder):
    sok.init()
    folder = os.path.join(folder, str(launch.current().size))
    for saved, restored in ((9, 5), (5, 9), (9, 9), (0, 9), (9, 0)):
        for used in (False, True):
            check(folder, saved, restored, used)
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
