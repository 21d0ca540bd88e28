"""One rank's checkpoint that goes while several restore it by a Saver, for test_checkpoint_replaced.py.

    mpiexec -np N python program_replaced_one_rank.py FOLDER CASE...

A case is a function below.
"""
import glob
import os
import shutil
from unittest import mock

from mpi4py import MPI
from stock_model import Model, main, refused

from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.savers.prefix_saving import PrefixRestoring

REPLACED = "Another job has replaced or removed the checkpoint in"


def saved(folder, rank, ranks):
    """By one rank, under several names."""
    model, saves = Model(rank, ranks).train(1), os.path.dirname(folder)
    for trained in (1, 2):
        model.saver().save(model.session, os.path.join(saves, "after-{}".format(trained)))
        model.train(1)
    put(saves, 1)


def put(folder, trained):
    """As another job does that saves to one path again and again."""
    remove(folder)
    for name in glob.glob(os.path.join(folder, "after-{}.*".format(trained))):
        shutil.copyfile(name, os.path.join(folder, "best" + os.path.splitext(name)[1]))


def remove(folder):
    for name in glob.glob(os.path.join(folder, "best.*")):
        os.remove(name)


def replaced(folder, rank, ranks):
    """Before anything is loaded; when rank 1 has loaded, and rank 0 not; and when all have."""
    for turn in ("before", "between", "after"):
        restored_while(turn, put, folder, rank, ranks)
        yield
        model = Model(rank, ranks)
        model.saver().restore(model.session, os.path.join(os.path.dirname(folder), "best"))
        model.check(2)
        yield


def removed(folder, rank, ranks):
    """As `replaced`; what has been read whole is restored."""
    for turn in ("before", "between", "after"):
        restored_while(turn, lambda saves, _: remove(saves), folder, rank, ranks, turn == "after")
        yield


def restored_while(turn, change, folder, rank, ranks, whole=False):
    saves, model, load = os.path.dirname(folder), Model(rank, ranks), PrefixRestoring._load
    if rank == 0:
        put(saves, 1)
    MPI.COMM_WORLD.Barrier()

    def meanwhile(*arguments):
        for now in ("before", "between", "after"):
            MPI.COMM_WORLD.Barrier()
            if now == turn and rank == 0:
                change(saves, 2)
            MPI.COMM_WORLD.Barrier()
            if now == ("before", "between")[rank == 0]:
                try:
                    load(*arguments)
                except Exception as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    failed = []
    with mock.patch.object(PrefixRestoring, "_load", meanwhile):
        def restore():
            model.saver().restore(model.session, os.path.join(saves, "best"))
        if whole:
            restore()
            model.check(1)
        else:
            refused(CheckpointError, restore, REPLACED)


main(globals())
