"""Tables of which a rank could notice a second copy: how much more memory do dump and restore take at their peak?

    mpiexec -np 4 python program_saver_memory.py FOLDER
"""
import gc
import os
import sys

import numpy as np
from mpi4py import MPI
from saver_model import Model

world = MPI.COMM_WORLD
V, D = 220000, 64
LIMIT = 110 << 20  # of buffers, MPI's and the allocators' own among them; all ranks' rows are 4 times 56 MB


def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def growth(run):
    """Bytes by which the resident memory exceeded, while `run` ran, what it was before."""
    world.Barrier()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = kilobytes("VmRSS")
    run()
    return 1024 * (kilobytes("VmHWM") - before)


def main():
    gc.set_threshold(700)  # as Python does by default
    folder = sys.argv[1]
    keys = os.path.join(folder, "EmbeddingVariable_keys.file")
    if world.rank == 0:
        np.random.RandomState(1).permutation(V * world.size).astype("<i8").tofile(keys)
        with open(os.path.join(folder, "EmbeddingVariable_values.file"), "wb") as values:
            np.arange(V * world.size * D, dtype=np.uint32).astype("<f4").tofile(values)
    world.Barrier()
    for options in {}, {"use_hashtable": False}:
        # Rows that begin with something, so that their memory is there before.
        model = Model(folder, V, D, initializer="ones", **options)
        model.run(model.restore)
        if not options:
            assert model.used() == V
        sample = np.fromfile(keys, "<i8")[:1000]
        with open(os.path.join(folder, "EmbeddingVariable_values.file"), "rb") as values:
            expected = np.fromfile(values, "<f4", 1000 * D).reshape(-1, D)
        for op in model.restore, model.dump, model.restore:
            more = growth(lambda op=op: model.run(op))
            print("rank {} {}: {:.0f} MB more".format(world.rank, op.name, more / 1e6))
            assert more < LIMIT, (op.name, more)
        np.testing.assert_array_equal(model.read(sample), expected)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
