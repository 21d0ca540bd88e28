"""What one rank has counted goes on on several, and what these have: for test_checkpoint_admission.py.

    mpiexec -np N python program_admission.py FOLDER JOB_SEED SEED

Rank r leaves in FOLDER/r.pickle which keys had rows after each step: gone on from FOLDER/one, which one rank has saved,
and trained on all ranks without an end in between, of which FOLDER/several has the half. FOLDER/full has counters that
are too full together.
"""
import os
import pickle
import sys

import admission_model
import tensorflow.compat.v1 as tf
from mpi4py import MPI

tf.logging.set_verbosity(tf.logging.ERROR)
RANK, RANKS = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size


def main(folder, *seeds):
    here = tuple(map(int, seeds)) + (RANK, RANKS)
    from_one = admission_model.restored(os.path.join(folder, "one"), *here)
    whole = admission_model.trained(os.path.join(folder, "several"), *here)
    assert admission_model.restored(os.path.join(folder, "several"), *here) == whole
    admission_model.nearly_full(os.path.join(folder, "full"), RANK, RANKS)
    with open(os.path.join(folder, "{}.pickle".format(RANK)), "wb") as file:
        pickle.dump((from_one, whole), file)
    print("ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
