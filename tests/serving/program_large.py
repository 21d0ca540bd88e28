"""A table of more than 2 GB: program_large.py make|export|serve FOLDER.

make    on several ranks: looks up `KEYS` keys of a table, and saves it
export  exports it, and prints by how many bytes the process has grown at most
serve   loads it without sok1x, and compares rows
"""
import os
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)
KEYS, DIM = 9000000, 64
SOME = [0, 2000, 8000000]


def keys_of(first, last):
    """Any int64s, all different."""
    return np.arange(first, last, dtype=np.int64) * -7046029254386353131


def make(folder):
    import sok1x as sok
    sok.init()
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    table = sok.DynamicVariable(dimension=DIM, initializer="uniform", init_capacity=KEYS // ranks + 500000,
                                name="large")
    keys = v1.placeholder(tf.int64, [None])
    count = tf.reduce_sum(sok.all2all_dense_embedding(table, keys)[:, 0])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for first in range(0, KEYS, 600000):
            session.run(count, {keys: keys_of(first, min(KEYS, first + 600000))[rank::ranks]})
        sok.CheckpointManager(os.path.join(folder, "saved")).save(session, 1)
        if rank == 0:
            # Of two ranks this one has every other key, in order: an odd number times a key's place is odd where that
            # is.
            np.save(os.path.join(folder, "some.npy"), session.run(tf.gather(table.value(), np.array(SOME) // ranks)))


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def export(folder):
    import sok1x as sok
    from sok1x.serving import export as _  # noqa: F401 (before it is measured)
    before = peak()
    sok.serving.export_saved_model(os.path.join(folder, "model", "1"), os.path.join(folder, "saved"), inputs={},
                                   outputs={}, unseen=0.0)
    print("grew", peak() - before)


def serve(folder):
    some = np.load(os.path.join(folder, "some.npy"))
    assert os.path.getsize(os.path.join(folder, "model", "1", "saved_model.pb")) < 1 << 20
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], os.path.join(folder, "model", "1")).signature_def["large"]
        keys = keys_of(0, KEYS)
        places = np.random.RandomState(0).permutation(KEYS)[:200000]

        def rows(keys):
            return session.run(found.outputs["rows"].name, {found.inputs["keys"].name: keys})

        served = rows(keys[places])
        assert (np.abs(served) <= 0.05).all() and len(np.unique(served[:, 0])) > 150000
        assert not rows(keys_of(KEYS, KEYS + 5)).any()
        np.testing.assert_array_equal(rows(keys[SOME]), some)
    assert "sok1x" not in sys.modules


if __name__ == "__main__":
    {"make": make, "export": export, "serve": serve}[sys.argv[1]](sys.argv[2])
