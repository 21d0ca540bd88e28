"""A DeepRec script, on this rank's part of each batch: `program_deeprec.py FOLDER LAST_STEP KIND SEED`.

It goes on from what is in the folder, in whatever number of ranks it was made, to the step, and must then be where one
process of stock TensorFlow is that has seen the whole batches from the start. KIND: 'monitored' or 'plain', a
MonitoredTrainingSession or a Session with a Saver; 'horovod': plain, in the way of scripts that use Horovod too.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x

sok1x.install_as_deeprec()
from tensorflow.core.framework.embedding import config_pb2  # noqa: E402

tf.logging.set_verbosity(tf.logging.ERROR)

folder, last, kind, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
BATCH, KEYS, FIELDS, CUT = 16, 30, 3, 8
random = np.random.RandomState(seed)
STEPS = 24  # of which the first `last` count
LENGTHS = random.randint(0, 4, [STEPS, FIELDS, BATCH])
IDS = [[[random.randint(0, KEYS, n) for n in field] for field in step] for step in LENGTHS]
WEIGHTS = [[random.uniform(0.5, 2, n) for n in step[1]] for step in LENGTHS]
LABELS = random.randint(0, 2, [STEPS, BATCH]).astype(np.float32)
START = random.normal(0, 0.3, [CUT, 1]).astype(np.float32)


def model(optimizer, lookup, rank, shown=lambda loss: loss):
    """(placeholders, loss, train, dense variables); lookup: gives the fields' vectors; shown: makes another loss."""
    ids = [tf.sparse_placeholder(tf.int64) for _ in range(FIELDS)]
    weights, labels = tf.sparse_placeholder(tf.float32), tf.placeholder(tf.float32, [None])
    local = tf.get_variable("local", [KEYS + 1, 2], initializer=tf.constant_initializer(0.3))
    vectors = lookup(ids, weights, local)
    # Ranks would begin with different values: rank 0's count.
    kernel = tf.get_variable("kernel", initializer=START + rank)
    bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer(), use_resource=True)
    logits = tf.matmul(tf.concat(vectors, 1), kernel)[:, 0] + bias
    loss = shown(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)))
    step = tf.train.get_or_create_global_step()
    pairs = optimizer.compute_gradients(loss)
    return ids + [weights, labels], loss, optimizer.apply_gradients(pairs, step), [kernel, bias, local]


def sparse(lists, dtype):
    rows = [(i, j) for i, each in enumerate(lists) for j in range(len(each))]
    return tf.SparseTensorValue(np.array(rows, np.int64).reshape(-1, 2), np.concatenate(lists).astype(dtype),
                                [len(lists), max(map(len, lists))])


def fed(placeholders, step, first, ranks):
    mine = slice(first, None, ranks)
    values = [sparse(field[mine], np.int64) for field in IDS[step]]
    return dict(zip(placeholders, values + [sparse(WEIGHTS[step][mine], np.float32), LABELS[step][mine]]))


def new_optimizer():
    return tf.train.AdamOptimizer(0.05) if kind == "monitored" else tf.train.FtrlOptimizer(
        0.1, l1_regularization_strength=0.001)


def stock():
    """[rows of the tables, dense variables] after the last step, on one process."""
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [tf.get_variable("table%d" % i, [KEYS + 1, dim], initializer=tf.constant_initializer(0.1 * (i + 1)))
                  for i, dim in enumerate((2, 4))]

        def lookup(ids, weights, local):
            full = [tf.sparse_fill_empty_rows(each, KEYS) for each in ids]  # a row that nobody else asks for
            given = tf.sparse_fill_empty_rows(weights, 1.0)[0]
            found = [tf.nn.embedding_lookup_sparse(table, each[0], weight, combiner=combiner) for table, each, weight,
                     combiner in zip(tables + [local], full, (None, given, None), ("sum", "mean", "sqrtn"))]
            return [tf.where(empty, tf.zeros_like(vectors), vectors) for vectors, (_, empty) in zip(found, full)]

        placeholders, _, train, dense = model(new_optimizer(), lookup, 0)
        session.run(tf.global_variables_initializer())
        for step in range(last):
            session.run(train, fed(placeholders, step, 0, 1))
        return session.run(tables + dense)


expected = stock()
if kind == "horovod":
    import horovod.tensorflow as hvd
    hvd.init()
tf.config.experimental.enable_distributed_strategy(strategy="collective")
rank, ranks = sok1x.communication.rank(), sok1x.communication.num_ranks()
with tf.variable_scope("input", reuse=tf.AUTO_REUSE):
    tables = [tf.get_embedding_variable(
        "table%d" % i, dim, initializer=tf.constant_initializer(0.1 * (i + 1)), ev_option=tf.EmbeddingVariableOption(
            storage_option=tf.StorageOption(config_pb2.StorageType.HBM))) for i, dim in enumerate((2, 4))]
tables[1].target_gpu = ranks - 1
placeholders, loss, train, dense = model(new_optimizer(), lambda ids, weights, local: (
    tf.nn.group_embedding_lookup_sparse(tables + [local], ids, ["sum", "mean", "sqrtn"], [None, weights, None])), rank,
    hvd.allreduce if kind == "horovod" else lambda loss: loss)
every = tf.constant(np.arange(KEYS), tf.int64)
values = tf.nn.group_embedding_lookup(tables, [every, every]) + dense
step = tf.train.get_global_step()
saver = tf.train.Saver()
if kind == "monitored":
    # As scripts have it that leave saving to one of their ranks.
    with tf.train.MonitoredTrainingSession(
            is_chief=rank == 0, checkpoint_dir=folder if rank == 0 else None, save_checkpoint_steps=5,
            hooks=[tf.train.StopAtStepHook(last_step=last)], log_step_count_steps=None) as session:
        at = session.run_step_fn(lambda step_context: step_context.session.run(step))
        while not session.should_stop():
            session.run(train, fed(placeholders, at, rank, ranks))
            at += 1
            if at == last:
                found = session.run_step_fn(lambda step_context: step_context.session.run(values))
else:
    assert kind != "horovod" or hvd.size() == ranks
    with tf.Session() as session:
        latest = tf.train.latest_checkpoint(folder)
        session.run(tf.global_variables_initializer())
        if latest:
            saver.restore(session, latest)
        for at in range(session.run(step), last):
            session.run([loss, train], fed(placeholders, at, rank, ranks))
        saver.save(session, os.path.join(folder, "model"), step)
        found = session.run(values)
for mine, right in zip(found, expected):
    mine, right = (one[:KEYS] if len(np.shape(one)) == 2 else one for one in (mine, right))
    np.testing.assert_allclose(mine, right, rtol=2e-4, atol=2e-5)
print("rank {} of {} agrees".format(rank, ranks))
