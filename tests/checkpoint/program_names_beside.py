"""Run by test_checkpoint_names_beside.py: tables that are called like what others have beside their rows.

    [mpiexec -np N] python program_names_beside.py save|restore|imported PREFIX every|index
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.serving import sources

WIDTH, KEYS = 2, np.arange(8)
what, prefix, beside = sys.argv[1:]


def save_and_restore():
    """One of them is without an index, of the other kind both have one."""
    if beside == "index":
        user = sok.Variable(np.zeros([8, WIDTH], np.float32), name="user")
    else:
        user = sok.DynamicVariable(WIDTH, "0", name="user", init_capacity=8)
    tables = [user, sok.DynamicVariable(WIDTH, "10", name="user/" + beside, init_capacity=8)]
    tf.get_variable("dense/" + beside, initializer=tf.range(8.0), use_resource=True)
    keys = tf.placeholder(tf.int64, [None])
    rows = [sok.all2all_dense_embedding(table, keys) for table in tables]
    numbers = tf.cast(keys, tf.float32)[:, None]
    step = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.add_n([tf.reduce_sum(one * numbers) for one in rows]),
                                                           var_list=tables)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        if what == "save":
            session.run(step, {keys: KEYS})
            saver.save(session, prefix)
        else:
            saver.restore(session, prefix)
        for begins, values in zip((0, 10), session.run(rows, {keys: KEYS})):
            np.testing.assert_array_equal(values, np.repeat(begins + KEYS[:, None], WIDTH, 1))


def import_and_save():
    """By TensorFlow alone; what it has saved is then read as for serving."""
    saver = tf.train.import_meta_graph(prefix + ".meta")
    with tf.Session() as session:
        saver.restore(session, prefix)
        saver.save(session, prefix + "_again")
    found = sources.open_source(prefix + "_again")
    assert {name: facts.hashed for name, facts in found.tables.items()} == {
        "user": beside != "index", "user/" + beside: True}, found.tables
    for name, begins in (("user", 0), ("user/" + beside, 10)):
        got = [np.concatenate(parts) for parts in zip(*found.chunks(name))]
        np.testing.assert_array_equal(got[1], np.repeat(begins + got[0][:, None], WIDTH, 1))


tf.disable_v2_behavior()
sok.init()
(import_and_save if what == "imported" else save_and_restore)()
print("ok")
