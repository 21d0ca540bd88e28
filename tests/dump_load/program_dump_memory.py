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
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(sys.argv[1])
