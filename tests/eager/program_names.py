"""Run by test_eager_names.py: tables that are called like what others have beside their rows, in eager execution."""
import gc
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402

RATE, BEGINS, EPSILON = 0.5, 0.1, 1e-7
FORGETS = {"evict_strategy": "lru", "max_capacity": 64}
FROM_ROWS = {"initializer": np.ones([2, 2], np.float32)}
PAIRS = [("a", "a/index", {}), ("b/index", "b", {}), ("c", "c/stamps", {}), ("d/stamps", "d", {}),
         ("e", "e/frequency", {}), ("f", "f/used", FORGETS), ("g/free", "g", FORGETS), ("h", "h/start", FROM_ROWS),
         ("i/start", "i", FROM_ROWS), ("j", "j/visits", {})]


def train(table, optimizer, keys):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant(keys, tf.int64)))
    optimizer.apply_gradients([(tape.gradient(loss, table), table)])


def after(times):
    """A row that began with 1, after so many steps of Adagrad with a gradient of 1."""
    return 1 - sum(RATE / np.sqrt(BEGINS + n + EPSILON) for n in range(1, times + 1))


def check_growth(one, two, options):
    tables = [sok.DynamicVariable(2, name=name, init_capacity=4, **dict({"initializer": "ones"}, **options))
              for name in (one, two)]
    assert [table.table.name for table in tables] == [one, two]
    optimizer = tf.keras.optimizers.Adagrad(RATE, BEGINS)
    optimizer.build(tables)
    train(tables[1], optimizer, range(64))
    for first in range(0, 16, 4):
        train(tables[0], optimizer, range(first, first + 4))
    train(tables[1], optimizer, range(32))
    for table, counts in zip(tables, ([1] * 16, [2] * 32 + [1] * 32)):
        keys, rows = (value.numpy() for value in sok.export(table))
        order = np.argsort(keys)
        np.testing.assert_array_equal(keys[order], np.arange(len(counts)), err_msg=table.table.name)
        np.testing.assert_allclose(rows[order], np.repeat([[after(count)] for count in counts], 2, 1), 1e-5,
                                   err_msg=table.table.name)


def check_host_memory():
    """What a table has in host memory goes with its rows, and nothing else does."""
    kept = sok.DynamicVariable(2, "ones", name="x/b", cache_rows=32)
    gone = sok.DynamicVariable(2, "ones", name="x", cache_rows=32)
    optimizer = tf.keras.optimizers.Adagrad(RATE, BEGINS)
    optimizer.build([kept, gone])
    for first in range(0, 64, 16):
        for table in (kept, gone):
            train(table, optimizer, range(first, first + 16))
    before = [value.numpy() for value in sok.export(kept)]
    np.testing.assert_allclose(before[1], np.full([64, 2], after(1)), 1e-5)
    del gone, table, optimizer
    gc.collect()
    for now, then in zip(sok.export(kept), before):
        np.testing.assert_array_equal(now.numpy(), then)
    rows = sok.all2all_dense_embedding(kept, tf.range(16, dtype=tf.int64))
    np.testing.assert_allclose(rows, np.full([16, 2], after(1)), 1e-5)


sok.init()
if sys.argv[1] == "growth":
    for pair in PAIRS:
        check_growth(*pair)
else:
    check_host_memory()
print("ok")
