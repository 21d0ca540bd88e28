"""Trains a table and a dense variable with sok1x's Adam and LazyAdam on any number of ranks; saves what came out.

    mpiexec -np N python program_adam.py OUT.npz SEED
"""
import sys

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
KEYS, DIM, STEPS, BATCH = 40, 6, 6, 8


def optimizers(name, over):
    """One for the table, and one for the dense variable, which sums its gradients over the ranks."""
    made = [sok.tf.keras.optimizers.LazyAdamOptimizer(0.1) if name == "lazy" else sok.tf.keras.optimizers.Adam(0.1)
            for _ in range(2)]
    if over == "horovod":
        horovod = hvd if name == "lazy" else hvd_keras
        return made[0], horovod.DistributedOptimizer(made[1], op=hvd.Sum)
    both = sok.DistributedOptimizer(made[0], average=False)
    return (both, both) if over == "sok1x" else (made[0], sok.DistributedOptimizer(made[1], average=False))


def train(name, over, seed):
    random = np.random.RandomState(seed)
    rank, ranks = hvd.rank(), hvd.size()
    with tf.Graph().as_default():
        layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 2, embedding_initializer="normal")
        keys = v1.placeholder(tf.int64, [None, 1, 2])
        weights = v1.get_variable("weights", initializer=np.linspace(1, 2, DIM).astype(np.float32), use_resource=True)
        loss = tf.reduce_sum(tf.exp(0.1 * layer(keys) * weights))
        table, dense = optimizers(name, over)
        number = v1.train.get_or_create_global_step()
        if name == "lazy" and table is dense:
            step = table.minimize(loss, global_step=number)
        elif name == "lazy":
            pairs = dense.compute_gradients(loss, [weights])
            with sok.OptimizerScope([layer.embedding_variable]):
                step = tf.group(table.minimize(loss, var_list=[layer.embedding_variable]),
                                dense.apply_gradients(pairs, global_step=number))
        elif table is dense:
            step = tf.group(*table.get_updates(loss, [layer.embedding_variable, weights]))
        else:
            step = tf.group(*table.get_updates(loss, [layer.embedding_variable]), *dense.get_updates(loss, [weights]))
        every = layer(tf.constant(np.arange(KEYS).reshape(-1, 1, 2)), training=False)
        with v1.train.MonitoredTrainingSession(hooks=[sok.InitHook(global_batch_size=BATCH, seed=5)]) as run:
            for i in range(STEPS):
                batch = random.randint(0, KEYS, [BATCH, 1, 2])
                # All ranks have some; then the last one has them all.
                mine = batch[rank::ranks] if i % 2 else batch[:0 if rank < ranks - 1 else BATCH]
                run.run(step, {keys: mine})
            return run.run([every, weights])


def main():
    hvd.init()
    results = {}
    for name in ("lazy", "keras"):
        for over in ("sok1x", "apart", "horovod"):
            rows, weights = train(name, over, int(sys.argv[2]))
            results.update({"{}/{}/rows".format(name, over): rows, "{}/{}/weights".format(name, over): weights})
    if hvd.rank() == 0:
        np.savez(sys.argv[1], **results)


main()
