"""What tests of a file share and takes long to make, made once: pytest's workers divide files among themselves."""
import fcntl
import os
import pickle
import tempfile


def made(folders, name, make):
    """What `make(folder)` gives, which pickle can keep, for an empty folder that stays until the run's end.

    Whichever worker is the first calls it; who comes meanwhile waits, and where it raises makes it anew.

    Args:
      folders: pytest's tmp_path_factory. name: of no other call in the tests.
    """
    shared = str(folders.getbasetemp())
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = os.path.dirname(shared)  # of which each worker has a part
    path = os.path.join(shared, name + ".pickle")
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            outcome = make(tempfile.mkdtemp(prefix=name + "_", dir=shared))
            with open(path + ".new", "wb") as file:
                pickle.dump(outcome, file)
            os.rename(path + ".new", path)
        with open(path, "rb") as file:
            return pickle.load(file)
