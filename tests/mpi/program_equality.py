"""Trains the same model on the same global batches, on however many ranks it is started, and saves what came out.

    mpiexec -np N python program_equality.py OUT.npz SEED

Test data and the stock TensorFlow model live in equality_model.py; this is the sok1x side.
"""
import sys

import equality_model as model
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)


def build(case, optimizer):
    """Placeholders, the local part of the loss, the train op and a lookup of every key."""
    dense_layer = sok.All2AllDenseEmbedding(
        max_vocabulary_size_per_gpu=case.rows_per_rank, embedding_vec_size=case.dense_dim, slot_num=model.SLOTS,
        nnz_per_slot=model.KEYS, use_hashtable=case.hashtable, key_dtype=case.key_dtype,
        embedding_initializer=case.initializer)
    sparse_layer = sok.DistributedEmbedding(
        combiner=case.combiner, max_vocabulary_size_per_gpu=case.rows_per_rank, embedding_vec_size=case.sparse_dim,
        slot_num=model.SLOTS, max_nnz=model.MOST_KEYS, use_hashtable=case.hashtable, key_dtype=case.key_dtype,
        embedding_initializer=case.initializer, exchange=case.exchange)
    dtype = tf.as_dtype(case.key_dtype)
    dense_keys = tf.placeholder(dtype, [None, model.SLOTS, model.KEYS])
    sparse_keys = tf.sparse_placeholder(dtype)
    labels = tf.placeholder(tf.float32, [None])
    loss = model.loss(dense_layer(dense_keys), sparse_layer(sparse_keys, training=True), labels)
    variables = [dense_layer.embedding_variable, sparse_layer.embedding_variable]
    gradients = tf.gradients(loss, variables)
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
    with sok.OptimizerScope(variables):
        train = optimizer.apply_gradients(zip(gradients, variables))
    every = tf.placeholder(dtype, [None, model.SLOTS, model.KEYS])
    each = tf.sparse_placeholder(dtype)
    tables = [dense_layer(every, training=False), sparse_layer(each, False)]
    return (dense_keys, sparse_keys, labels), loss, train, (every, each), tables


def run(case, optimizer_name, seed):
    """Initial tables, the losses of this rank's part of every step, final tables."""
    with tf.Graph().as_default():
        init = sok.Init(global_batch_size=model.GLOBAL_BATCH, seed=11)
        feeds, loss, train, lookups, tables = build(case, model.optimizer(optimizer_name))
        with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as sess:
            assert sess.run(init) == b"OK"
            sess.run(tf.global_variables_initializer())
            from mpi4py import MPI
            rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
            keys = model.keys(case, seed)
            # Every rank must take part in a lookup; all ask for everything.
            every = model.padded(keys)
            look_up = {lookups[0]: every, lookups[1]: model.sparse(*model.one_each(keys))}

            def read():
                dense, sparse = sess.run(tables, look_up)
                return dense.reshape(-1, case.dense_dim)[:len(keys)], sparse.reshape(-1, case.sparse_dim)[:len(keys)]

            before = read()
            losses = []
            for step in range(model.STEPS):
                dense_ids, bag_ids, labels = model.batch(seed, step)
                mine = model.share(seed, step, rank, ranks)
                feed = dict(zip(feeds, (keys[dense_ids[mine]], model.sparse(*model.bags(bag_ids[mine], keys)),
                                        labels[mine])))
                losses.append(sess.run([loss, train], feed)[0])
            after = read()
    return before, MPI.COMM_WORLD.allreduce(np.array(losses, np.float64)), after


def main():
    out, seed = sys.argv[1], int(sys.argv[2])
    results = {}
    for case in model.CASES:
        for optimizer in case.optimizers:
            before, losses, after = run(case, optimizer, seed)
            name = "{}/{}/".format(case.name, optimizer)
            for part, value in zip(("dense0", "sparse0", "dense1", "sparse1", "losses"), before + after + (losses,)):
                results[name + part] = value
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main()
