"""Tables of which a rank could notice a second copy: how much more memory do dump and load take at their peak?

    mpiexec -np N python program_dump_memory.py FOLDER
"""
import gc
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
world = MPI.COMM_WORLD
ROWS, D = 1200000, 32
LIMIT = 100 << 20  # the rows of a rank of two are 77 MB, and its slots twice as many


def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def growth(run):
    """Bytes by which the resident memory exceeded, while `run` ran, what it was before."""
    world.Barrier()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before, begin = kilobytes("VmRSS"), time.monotonic()
    run()
    return 1024 * (kilobytes("VmHWM") - before), time.monotonic() - begin


def check_filled(path):
    """Of tables whose first rows an initializer object has made, the load makes them again, of one at a time."""
    with v1.Graph().as_default(), v1.Session() as session:
        keys = v1.placeholder(tf.int64, [None])
        layers = [sok.All2AllDenseEmbedding(ROWS // 4, D, 1, 1, name="filled{}".format(number),
                                            embedding_initializer=tf.keras.initializers.RandomUniform())
                  for number in range(4)]
        look = [layer(tf.reshape(keys, [-1, 1, 1]), training=True).op for layer in layers]
        tables = [layer.embedding_variable for layer in layers]
        session.run(v1.global_variables_initializer())
        session.run(look, {keys: np.arange(10)})
        sok.dump(path, tables)
        session.run(look, {keys: np.arange(1000)})
        more, seconds = growth(lambda: sok.load(path, tables))
        print("rank {} load of filled: {:.0f} MB more, {:.2f} s".format(world.rank, more / 1e6, seconds))
        assert more < LIMIT, more
        sizes = session.run([table.index[-1] for table in tables])
        assert world.allreduce(sum(sizes)) == 4 * 10, sizes


def main(folder):
    gc.set_threshold(700)  # as Python does by default
    sok.init()
    path = os.path.join(folder, "dump")
    with v1.Session() as session:
        tables = [sok.Variable(shape=[ROWS, D], initializer="normal", name="dealt"),
                  sok.Variable(shape=[ROWS // 4, D], initializer="normal", mode="localized:0", name="localized")]
        wrapped = sok.OptimizerWrapper(v1.train.AdamOptimizer())
        # Of one row; Adam moves all.
        one = tf.IndexedSlices(tf.ones([1, D]), tf.constant([0]), tf.constant(tables[0].shape.as_list()))
        step = wrapped.apply_gradients([(one, tables[0])])
        session.run(v1.global_variables_initializer())
        session.run(step)
        sample = [table[-1000:] for table in tables]
        before = session.run(sample)
        for name, run in (("dump", lambda: sok.dump(path, tables)), ("load", lambda: sok.load(path, tables)),
                          ("dump with slots", lambda: sok.dump(path, tables[:1], wrapped)),
                          ("load with slots", lambda: sok.load(path, tables[:1], wrapped))):
            more, seconds = growth(run)
            print("rank {} {}: {:.0f} MB more, {:.2f} s".format(world.rank, name, more / 1e6, seconds))
            assert more < LIMIT, (name, more)
        for one, two in zip(session.run(sample), before):
            np.testing.assert_array_equal(one, two)
    check_filled(os.path.join(folder, "filled"))
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
