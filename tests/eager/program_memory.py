"""Run by test_eager_memory.py: what is called again and again in eager execution leaves nothing behind.

Objects are counted where calls are many, not bytes: TensorFlow itself leaves some fifty for each eager tensor.
"""
import ctypes
import gc
import os
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x.core.eagerly import eager  # noqa: E402
from sok1x.graph_ops.gradients import marks  # noqa: E402

KERAS, CALLS, FEW = tf.keras.optimizers.legacy, 100, 40


def objects():
    gc.collect()
    return len(gc.get_objects())


def check(what, call, calls=CALLS):
    """A few objects may be cached, but not one for each call."""
    for _ in range(5):
        call()
    before = objects()
    for _ in range(calls):
        call()
    more = objects() - before
    assert more < FEW, "{}: {} more objects after {} calls".format(what, more, calls)


def graph_ops_of(table):
    return len(table.__dict__["_sok1x_body"].graph.get_operations())


def step(table, optimizer):
    ids = tf.RaggedTensor.from_row_lengths(tf.constant([1, 2], tf.int64), [1, 1])
    with tf.GradientTape() as tape:
        weights = tf.constant([2.0, 3.0])
        tape.watch(weights)
        loss = tf.reduce_sum(sok.lookup_sparse(table, ids, ids.with_values(weights)) ** 2)
    gradient, _ = tape.gradient(loss, [table, weights])
    optimizer.apply_gradients([(gradient, table)])


def check_marks():
    """Of tensors that are gone nothing is noted any more, and what an attribute was is none of an eager tensor."""
    table, optimizer = sok.Variable(np.ones([4, 2], np.float32)), KERAS.SGD(0.1)
    for _ in range(3):
        step(table, optimizer)
    gc.collect()
    assert not marks._noted
    for tensor in (tf.constant(1.0) + 1, tf.zeros([2])):
        assert marks.noted(tensor, "_mark") is None
        marks.note(tensor, "_mark", 3)
        marks.note(tensor, "_other", 4)
        assert [marks.noted(tensor, name, 5) for name in ("_mark", "_other", "_none")] == [3, 4, 5]
        assert not hasattr(tensor, "_mark")
    del tensor
    gc.collect()
    assert not marks._noted


def resident_megabytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2.0 ** 20


def check_tables_that_go():
    """Their kernels do too, some tables later: the 0.9 MB that each would leave."""
    def make(count):
        for _ in range(count):
            step(sok.EmbeddingVariable(None, 2, init_capacity=2), KERAS.Adagrad(0.1))
            gc.collect()
    make(2 * eager._MOST_GONE)
    before = resident_megabytes()
    make(4 * eager._MOST_GONE)
    assert resident_megabytes() - before < 35, (before, resident_megabytes())


def main(folder):
    sok.init()
    cached = sok.DynamicVariable(dimension=2, cache_rows=16)
    table, optimizer = sok.EmbeddingVariable(None, 2, init_capacity=2), KERAS.Adagrad(0.1)
    for one in (cached, table):
        sok.assign(one, tf.range(9, dtype=tf.int64), tf.ones([9, 2]))
        check("step", lambda: step(one, optimizer))  # noqa: B023
        check("table_stats", lambda: sok.table_stats(one))  # noqa: B023
        check("export", lambda: sok.export(one))  # noqa: B023
        check("incremental_dump", lambda: sok.incremental_dump(one, 3))  # noqa: B023
    rest = tf.train.Checkpoint(table=table, optimizer=optimizer)
    manager = sok.CheckpointManager(folder + "/run", 2, checkpoint=rest)
    manager.save(step=1)
    manager.restore()
    before = graph_ops_of(table)
    check("save", lambda: manager.save(step=1), 30)
    check("restore", manager.restore, 30)
    for number in range(3):
        manager.save(step=2 + number)
    others = [sok.OptimizerWrapper(KERAS.Adagrad(0.1)) for _ in range(2)]
    for other in others:
        step(table, other)
        sok.dump(folder + "/dump", [table], other)
    more = graph_ops_of(table)
    for other in others + [None] + others:
        sok.dump(folder + "/dump", [table], other)
    assert graph_ops_of(table) == more
    manager.save(step=6)  # with the slots that have come since, which get ops once
    again = graph_ops_of(table)
    manager.save(step=7)
    assert before < again == graph_ops_of(table)
    check_marks()
    check_tables_that_go()
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1])
