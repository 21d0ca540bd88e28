"""Tables that grow, have a cache, or forget, by optimizers that must know their rows, in `sok.DistributedOptimizer`.

    [mpiexec -np N] python program_distributed_growing.py SEED

Beside each, stock TensorFlow trains the whole table, and a dense variable, on the batches of all ranks.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
KEYS, D, BATCH, STEPS = 40, 3, 12, 6
OPTIMIZERS = {
    "Ftrl": lambda step: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "AdagradDA": lambda step: tf.train.AdagradDAOptimizer(0.1, step, l1_regularization_strength=0.001),
    "ProximalAdagrad": lambda step: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
}
TABLES = {
    "grows": lambda: sok.DynamicVariable(D, initializer="0.5", init_capacity=2),
    "cached": lambda: sok.DynamicVariable(D, initializer="0.5", init_capacity=2, cache_rows=30),
    "forgets": lambda: sok.DynamicVariable(D, initializer="0.5", init_capacity=2, max_capacity=64),
}


def trained(make, table, dense, look_up, distributed):
    """Embeddings' gradients, and the dense variable's, applied by one optimizer."""
    keys, targets = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.reduce_sum((tf.matmul(look_up(keys), dense) - targets) ** 2) / BATCH
    count = tf.train.get_or_create_global_step()
    optimizer = make(count)
    optimizer = sok.DistributedOptimizer(optimizer, average=False) if distributed else optimizer
    return keys, targets, optimizer.minimize(loss, count, var_list=[table, dense])


def main(seed):
    sok.init()
    world = launch.current()
    random = np.random.RandomState(seed)
    batches = [(random.randint(0, KEYS, BATCH), random.randn(BATCH, 1)) for _ in range(STEPS)]
    first = random.randn(D, 1).astype(np.float32)
    for kind, make in OPTIMIZERS.items():
        for name, make_table in TABLES.items():
            ends = []
            for distributed in (True, False):
                with tf.Graph().as_default(), tf.Session() as session:
                    dense = tf.get_variable("dense", initializer=first, use_resource=True)
                    if distributed:
                        table = make_table()
                        rank, ranks = world.rank, world.size

                        def look_up(keys, **options):
                            return sok.all2all_dense_embedding(table, keys, **options)
                    else:
                        table = tf.get_variable("table", initializer=np.full([KEYS, D], 0.5, np.float32),
                                                use_resource=True)
                        rank, ranks = 0, 1

                        def look_up(keys, **options):
                            return tf.gather(table, keys)
                    keys, targets, step = trained(make, table, dense, look_up, distributed)
                    every = look_up(tf.range(KEYS, dtype=tf.int64), training=False)
                    session.run(tf.global_variables_initializer())
                    for ids, wanted in batches:
                        session.run(step, {keys: ids[rank::ranks], targets: wanted[rank::ranks]})
                    ends.append(session.run([every, dense]))
            for one, other in zip(*ends):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg="{} {}".format(kind, name))
            assert abs(ends[0][0] - 0.5).max() > 0.05
            sys.stdout.write("{} {} ok\n".format(kind, name))


if __name__ == "__main__":
    main(int(sys.argv[1]))
