"""Layers of float16 outputs on any number of ranks: values, gradients, bytes exchanged; steps that all ranks skip.

    mpiexec -np N python program_float16.py SEED

Errors are bounded by what rounding to float16 can do where a number is rounded, in forward or backward at most once on
each rank and once in the end; sums are made in float32, whose own rounding is below the bounds' margin.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import figures

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
S, H, D, KEYS = 3, 4, 6, 40
HALF, TINY = 2.0 ** -11 * 1.01, 2.0 ** -25 * 1.01  # half of a last place, relative and among the subnormal
world = MPI.COMM_WORLD


def rounded(values):
    return values.astype(np.float16).astype(np.float64)


def batch(random, width=H):
    """Keys [B, S, H], B from 0 to 7; of bags the first `length` of each slot are used."""
    samples = random.randint(0, 8)
    return random.randint(0, KEYS, [samples, S, width]), random.randint(0, width + 1, samples * S)


def bags(keys, lengths):
    where = np.array([[bag, place] for bag, length in enumerate(lengths) for place in range(length)])
    where = where.reshape(-1, 2).astype(np.int64)
    return v1.SparseTensorValue(where, keys.reshape(-1, H)[tuple(where.T)], [len(lengths), H])


def sent(session, fetches, feed, layer):
    """Runs `fetches`; returns them, and the payload bytes that this rank gave to others meanwhile: all, and what the
    layer's figures say of keys, rows and gradients."""
    here = launch.current()
    communicator, counted = here.gpu_communicator or here.communicator, figures.of(layer.embedding_variable.table.name)
    before = np.array([communicator.bytes_sent, counted[figures.SENT]])
    return session.run(fetches, feed), np.array([communicator.bytes_sent, counted[figures.SENT]]) - before


def check_layer(kind, combiner, hashtable, seed):
    """One step of a float16 layer against float32 lookups of the same table, and the same step of a float32 layer."""
    random = np.random.RandomState([seed, world.rank])
    dense = kind == "dense"
    with tf.Graph().as_default(), v1.Session() as session:
        options = dict(max_vocabulary_size_per_gpu=KEYS, embedding_vec_size=D, slot_num=S, use_hashtable=hashtable,
                       embedding_initializer="normal")
        layers = [sok.All2AllDenseEmbedding(nnz_per_slot=H, dtype=dtype, **options) if dense else
                  sok.DistributedEmbedding(combiner, max_nnz=H, exchange=kind, dtype=dtype, **options)
                  for dtype in ("float16", "float32")]
        half, single = layers
        keys = v1.placeholder(tf.int64, [None, S, H]) if dense else v1.sparse_placeholder(tf.int64)
        outs = [layer(keys) for layer in layers]
        weights = v1.placeholder(tf.float32, [None] + outs[0].shape.as_list()[1:])
        gradients = [tf.gradients(out, layer.embedding_variable, grad_ys=tf.cast(weights, out.dtype))[0]
                     for out, layer in zip(outs, layers)]
        assert gradients[0].values.dtype == tf.float32
        steps = [v1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, layer.embedding_variable)])
                 for gradient, layer in zip(gradients, layers)]
        every = tf.constant(np.arange(KEYS)[:, None, None].repeat(S, 1).repeat(H, 2))
        rows = embedding.lookup_dense(half.embedding_variable.table_variables, every, False)[:, 0, 0]
        unseen = half(keys, training=False)
        session.run(sok.Init(global_batch_size=32, seed=seed))
        session.run(v1.global_variables_initializer())
        for number in range(4):
            given, lengths = batch(random)
            if number == 2 and world.rank % 2:
                given, lengths = given[:0], lengths[:0]
            feed = {keys: given if dense else bags(given, lengths)}
            scale = 10.0 ** random.randint(-7, 3, [len(given), S] + [H] * dense + [D])
            feed[weights] = (random.standard_normal(scale.shape) * scale).astype(np.float16)
            before = session.run(rows).astype(np.float64)
            early = session.run(unseen, feed)
            (out, _), bytes_half = sent(session, [outs[0], steps[0]], feed, half)
            (_, _), bytes_single = sent(session, [outs[1], steps[1]], feed, single)
            after = session.run(rows).astype(np.float64)
            check_step(kind, combiner, given, lengths, feed[weights], before, out, before - after)
            np.testing.assert_array_equal(early, out)
            check_bytes(kind, given, lengths, bytes_half, bytes_single)


def check_step(kind, combiner, given, lengths, weights, rows, out, moved):
    """rows, moved: [KEYS, D], the table before the step and what the step has subtracted. weights: of this rank."""
    assert out.dtype == np.float16
    gradient, bound = np.zeros((KEYS, D)), np.zeros((KEYS, D))
    if kind == "dense":
        np.testing.assert_array_equal(out, rows.astype(np.float32).astype(np.float16)[given])
        np.add.at(gradient, given.ravel(), weights.reshape(-1, D).astype(np.float64))
        np.add.at(bound, given.ravel(), np.abs(weights.reshape(-1, D).astype(np.float64)))
    else:
        used = given.reshape(-1, H)
        mean = np.maximum(lengths, 1)[:, None] if combiner == "mean" else 1
        terms = [rows[used[bag, :length]] for bag, length in enumerate(lengths)]
        exact = np.array([term.sum(0) for term in terms]).reshape(-1, D) / mean
        absolute = np.array([np.abs(term).sum(0) for term in terms]).reshape(-1, D) / mean
        # Each row, or each rank's sum of them, and the result.
        error = np.abs(out.reshape(-1, D).astype(np.float64) - exact)
        assert (error <= 2 * HALF * absolute + TINY * (H + 1 + world.size)).all(), error.max()
        for bag, length in enumerate(lengths):
            value = weights.reshape(-1, D)[bag].astype(np.float64) / (length if combiner == "mean" else 1)
            np.add.at(gradient, used[bag, :length], value)
            np.add.at(bound, used[bag, :length], np.abs(value) * HALF + TINY)  # reduce_scatter: each over the mean
    gradient, bound = world.allreduce(gradient), world.allreduce(bound)
    # A rank's sum is rounded once; and rows are float32, of which a gradient is subtracted. On one rank no number
    # becomes float16.
    more = 2.0 ** -22 * (np.abs(rows) + bound * (1 if kind == "dense" else 1 / HALF))
    limit = more + (world.size > 1) * (bound * (HALF if kind == "dense" else 2) + TINY * world.size)
    error = np.abs(moved - gradient)
    assert (error <= limit).all(), (kind, combiner, (error / limit).max())


def check_bytes(kind, given, lengths, bytes_half, bytes_single):
    """Rows and gradients take half as many bytes; keys and counts as many. bytes_half, bytes_single: as of `sent`."""
    own = np.unique(given if kind == "dense" else np.concatenate(
        [given.reshape(-1, H)[bag, :n] for bag, n in enumerate(lengths)] + [np.zeros(0, np.int64)]))
    distinct = world.allgather(own)
    others = [rank for rank in range(world.size) if rank != world.rank]
    if kind == "reduce_scatter":
        counts = world.allgather(len(lengths))
        numbers = sum(counts[rank] for rank in others) + len(others) * len(lengths)
    else:
        numbers = (sum(int((distinct[rank] % world.size == world.rank).sum()) for rank in others)
                   + int((own % world.size != world.rank).sum()))
    assert (bytes_single - bytes_half == 2 * D * numbers).all(), (kind, bytes_single, bytes_half, numbers)


def check_skipped(make, seed):
    """An Inf in what a single rank computes, for a row of its own: all ranks skip, and lower the scale."""
    experimental = v1.train.experimental
    with tf.Graph().as_default(), v1.Session() as session:
        layer = sok.All2AllDenseEmbedding(KEYS, D, 1, 1, use_hashtable=False, embedding_initializer="normal",
                                          dtype="float16")
        keys, factor = v1.placeholder(tf.int64, [None, 1, 1]), v1.placeholder(tf.float32, [])
        dense = v1.get_variable("weights", initializer=np.ones(D, np.float32), use_resource=True)
        # Of the dense variable gradients are averaged, so that an Inf is everywhere; `factor` stays out of it.
        loss = factor * tf.reduce_sum(tf.cast(layer(keys), tf.float32)) + tf.reduce_sum(dense)
        optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(make(), experimental.DynamicLossScale(2.0 ** 6, 2))
        variables = [layer.embedding_variable, dense]
        scaled = tf.gradients(optimizer.get_scaled_loss(loss), variables)
        step = optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(scaled), variables))
        scale = [optimizer.loss_scale(), optimizer.loss_scale._num_good_steps]
        # Gradients stamp rows before they are seen to be bad.
        state = [variable for variable in v1.global_variables() if variable.name.split("/")[-1] not in (
            "current_loss_scale:0", "good_steps:0", "stamps:0", "steps:0")]
        session.run(sok.Init(global_batch_size=8, seed=seed))
        session.run([v1.global_variables_initializer(), optimizer.initializer])
        oracle = [2.0 ** 6, 0]
        for number in range(4 * world.size):
            # Every rank has keys of its own alone. 70000 overflows float16 on the rank that asks.
            bad, value = number % (2 * world.size), [70000.0, np.inf, np.nan][number % 3]
            feed = {keys: [[[world.rank + world.size * (number % 3)]]], factor: value if bad == world.rank else 0.5}
            before = session.run(state)
            session.run(step, feed)
            after = session.run(state)
            changed = [not np.array_equal(old, new) for old, new in zip(before, after)]
            if bad < world.size:
                assert not any(changed), [variable.name for variable, yes in zip(state, changed) if yes]
                oracle = [max(oracle[0] / 2, 1.0), 0]
            else:
                assert changed[0] and changed[state.index(dense)]
                oracle = [oracle[0] * 2, 0] if oracle[1] + 1 >= 2 else [oracle[0], oracle[1] + 1]
            assert session.run(scale) == oracle == world.bcast(oracle), (number, session.run(scale), oracle)
        assert len(set(world.allgather(session.run(dense).tobytes()))) == 1


def main():
    seed = int(sys.argv[1])
    for hashtable in (True, False):
        check_layer("dense", None, hashtable, seed)
        for combiner in ("sum", "mean"):
            for exchange in ("all2all", "reduce_scatter"):
                check_layer(exchange, combiner, hashtable, seed)
    makers = (lambda: sok.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)),
              lambda: sok.DistributedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9)),
              lambda: sok.DistributedOptimizer(sok.tf.keras.optimizers.Adam(0.1)))
    for make in makers:
        check_skipped(make, seed)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
