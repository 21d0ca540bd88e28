"""A process that dies while it dumps: the old dump is there, or the new one, or none if there was none."""
import functools
import itertools
import os
import random
import shutil

import kit_files
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from stopped_disk import StoppedDisk

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.files import folders
from sok1x.dump_load import folder as dump_folder

v1 = tf
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_dump_kill.py")


class Model:
    """A variable of ones; `times` multiplies it."""

    def __init__(self):
        sok.init()
        with tf.Graph().as_default() as graph:
            self.table = sok.Variable(np.ones([1000, 4]), dtype=tf.float32, name="table")
            self._factor = v1.placeholder(tf.float32, [])
            self._assign = self.table.assign(self._factor * tf.ones([1000, 4]), read_value=False)
            init = v1.global_variables_initializer()
            graph.finalize()
            self.session = v1.Session(graph=graph)
            self.session.run(init)

    def set(self, factor):
        self.session.run(self._assign, {self._factor: factor})

    def dump(self, path):
        sok.dump(path, self.table, session=self.session)

    def loaded(self, path):
        """The factor that a load brings; None where there is no dump."""
        self.set(-1)
        try:
            sok.load(path, self.table, session=self.session)
        except CheckpointError as error:
            assert "There is no dump" in str(error), error
        value = self.session.run(self.table)
        assert (value == value[0, 0]).all()
        return None if value[0, 0] == -1 else value[0, 0]


@pytest.fixture(scope="module")
def model():
    return Model()


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_stopped_at_every_call(model, kept, tmp_path, monkeypatch):
    """kept: 0: there was no dump before; 1: there was; 2: and other files lay beside it."""
    for name in ("fsync", "fdatasync"):  # they are counted, and need not be waited for
        monkeypatch.setattr(os, name, lambda fd: None)
    found, calls = [], None
    for last in range(1000):
        path = str(tmp_path / str(last) / "dump")
        if kept:
            model.set(1)
            model.dump(path)
        if kept == 2:
            with open(path + "/mine", "w") as file:
                file.write("kept")
        model.set(2)
        with StoppedDisk(last) as disk:
            try:
                model.dump(path)
                calls = disk.calls
            except CheckpointError:
                pass
        found.append(model.loaded(path))
        assert found[-1] in ([1, 2] if kept else [None, 2]), (last, found)
        # The next dump finds its way, and leaves nothing besides.
        model.set(3)
        model.dump(path)
        assert model.loaded(path) == 3
        names = os.listdir(path)
        assert ("mine" in names) == (kept == 2), (last, names)
        assert set(names) == {"meta_info", "table_0-key", "table_0-weight"} | ({"mine"} if kept == 2 else set())
        assert os.listdir(str(tmp_path / str(last))) == ["dump"], last
        if calls is not None and last >= calls:
            break
    assert last == calls > 20 and found[0] == (1 if kept else None) and found[-1] == 2
    assert found == sorted(found, key=lambda factor: factor or 0), "an older dump after a newer one"


def test_killed(model, tmp_path, seed):
    for call in random.Random(seed).sample(range(8, 22), 1):
        path = str(tmp_path / str(call))
        finished = run_ranks(0, PROGRAM, path, call, check=False)
        assert finished.code == -9 and "not killed" not in finished.out, str(finished)
        factor = model.loaded(path)
        assert factor in (1, 2)
        model.dump(path)
        assert kit_files.read(path)["table_0"].values[0, 0] == factor
        assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".{}.".format(call))]


@pytest.mark.parametrize("undone", [False, True])
def test_who_looks_while_one_is_replaced_finds_one(model, tmp_path, monkeypatch, undone):
    """Whenever it steps aside, its successor gets the name, or it has it again, and what is aside goes."""
    model.set(1)
    model.dump(str(tmp_path / "old"))
    model.set(2)
    model.dump(str(tmp_path / "new"))
    for when in itertools.combinations_with_replacement(range(1, 7), 2):
        folder = tmp_path / "{}-{}".format(*when)
        path, aside, new = (str(folder / name) for name in ("dump", ".dump.0123456789abcdef.old", "new"))
        shutil.copytree(str(tmp_path / "old"), path)
        shutil.copytree(str(tmp_path / "new"), new)

        def put(path=path, aside=aside, new=new):
            os.rename(aside if undone else new, path)
            shutil.rmtree(aside, ignore_errors=True)

        acts, looks = [(when[0], functools.partial(os.rename, path, aside)), (when[1], put)], []

        def looking(look, acts=acts, looks=looks):
            def then(*arguments):
                looks.append(look)
                while acts and acts[0][0] <= len(looks):
                    acts.pop(0)[1]()
                return look(*arguments)
            return then

        with monkeypatch.context() as patch:
            patch.setattr(os.path, "lexists", looking(os.path.lexists))
            patch.setattr(folders, "hidden_of", looking(folders.hidden_of))
            assert dump_folder.find(path) in (path, aside), when
