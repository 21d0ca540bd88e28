"""Dumps to names that checkpoints in the folder have: neither removes what the other writes, or has put aside."""
import contextlib
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from test_dump_load_kill import Model

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.files import folders, manifest, prefixes, publishing, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.dump_load import folder as dump_folder

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def model():
    return Model()


def checkpoint(path, step=5, publish=True):
    """A whole one of no tables."""
    folder = publishing.make_temporary(path, folders.new_token())
    for name in ("model.ckpt-{}.index".format(step), "a file"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("saved")
    manifest.write(folder, manifest.Manifest(TOKEN, step, 1, 0, {}, {}))
    return publishing.publish_as(folder, path) if publish else folder


def by_manager(path):
    with FolderLock(os.path.dirname(path)) as lock:
        retiring.remove_leftovers(lock)


def by_saver(path):
    with FolderLock(os.path.dirname(path)):
        prefixes.remove_leftovers(path)


def by_saver_of_another_step(path):
    by_saver(path.rpartition("-")[0] + "-9")


removers = pytest.mark.parametrize("remove_leftovers", [by_manager, by_saver, by_saver_of_another_step])


@removers
@pytest.mark.parametrize("moment", ["empty", "list"])
def test_a_dump_that_is_being_written_stays(model, tmp_path, monkeypatch, remove_leftovers, moment):
    path = str(tmp_path / "model.ckpt-5")
    owner, name = {"empty": (publishing, "make_temporary"), "list": (folders, "fsync_file")}[moment]
    stock, done = getattr(owner, name), []

    def then(*arguments):
        found = stock(*arguments)
        done.append(remove_leftovers(path))
        return found

    monkeypatch.setattr(owner, name, then)
    model.set(2)
    model.dump(path)
    assert done and model.loaded(path) == 2


@removers
@pytest.mark.parametrize("dies", [0, 1, 2])
def test_what_a_dead_dump_has_put_aside_stays(model, tmp_path, monkeypatch, remove_leftovers, dies):
    """Between the two renames it is all that there is; behind them a file of the user's is in it."""
    path, stock, done = str(tmp_path / "model.ckpt-5"), os.rename, []
    model.set(2)
    model.dump(path)
    (tmp_path / "model.ckpt-5" / "mine").write_text("kept")

    def rename(source, target):
        if len(done) == dies:
            raise KeyboardInterrupt
        done.append(stock(source, target))

    model.set(3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "rename", rename)
        patch.setattr(dump_folder.Writing, "remove", lambda self: self._lock.release())
        model.dump(path)
    remove_leftovers(path)
    assert model.loaded(path) == (3 if dies == 2 else 2)
    model.dump(path)
    assert (tmp_path / "model.ckpt-5" / "mine").read_text() == "kept"
    assert [name for name in os.listdir(str(tmp_path)) if not name.startswith(".sok1x")] == ["model.ckpt-5"]


@removers
@pytest.mark.parametrize("dies", range(6))
def test_a_checkpoint_in_whose_place_a_dump_is_put_stays(model, tmp_path, monkeypatch, remove_leftovers, dies):
    path, stock, done = checkpoint(str(tmp_path / "model.ckpt-5")), os.rename, []
    names = set(os.listdir(path))

    def rename(source, target):
        if len(done) == dies:
            raise KeyboardInterrupt
        done.append(stock(source, target))

    model.set(2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        patch.setattr(dump_folder.Writing, "remove", lambda self: self._lock.release())
        try:
            model.dump(path)
        except KeyboardInterrupt:
            pass
    remove_leftovers(path)
    assert [found.step for found in folders.complete(str(tmp_path))] == [5]
    for _ in range(2):
        model.dump(path)
    assert set(os.listdir(path)) > names and model.loaded(path) == 2
    assert [name for name in os.listdir(str(tmp_path)) if not name.startswith(".sok1x")] == ["model.ckpt-5"]


@pytest.mark.parametrize("moment", ["made", "about to be published"])
def test_a_dump_leaves_a_checkpoint_that_is_being_written(model, tmp_path, moment):
    path = str(tmp_path / "model.ckpt-5")
    model.set(2)
    with FolderLock(str(tmp_path)):
        if moment == "made":
            folder = publishing.make_temporary(path, TOKEN)
        else:
            folder = checkpoint(path, publish=False)
        there = os.listdir(folder)
        model.dump(path)
        assert os.listdir(folder) == there
        if there:
            with pytest.raises(CheckpointError, match="Cannot save to .*5: there is something of that name"):
                publishing.publish(folder, str(tmp_path), 5)
            with pytest.raises(CheckpointError, match="Cannot save to .*5: there is something of that name"):
                publishing.publish_as(folder, path)
        assert os.listdir(folder) == there and model.loaded(path) == 2
    model.dump(path)  # its job has ended
    assert not os.path.lexists(folder) and model.loaded(path) == 2


def test_a_dump_that_comes_between_is_put_aside_at_most(model, tmp_path, monkeypatch):
    """In the moment between the last look at the name and when it is taken."""
    path, folder, stock = str(tmp_path / "model.ckpt-5"), checkpoint(str(tmp_path / "model.ckpt-5"), publish=False), \
        publishing.put_in_place
    model.set(2)

    def put_in_place(*arguments):
        monkeypatch.undo()
        with FolderLock(str(tmp_path)):
            model.dump(path)
        return stock(*arguments)

    monkeypatch.setattr(publishing, "put_in_place", put_in_place)
    publishing.publish(folder, str(tmp_path), 5)
    by_manager(path)
    assert [found.step for found in folders.complete(str(tmp_path))] == [5] and model.loaded(path) == 2


def test_a_dump_into_a_checkpoints_folder_keeps_that_while_it_is_written(model, tmp_path, monkeypatch):
    path, stock, done = checkpoint(str(tmp_path / "model.ckpt-5")), folders.fsync_file, []
    checkpoint(str(tmp_path / "model.ckpt-6"), 6)

    def then(*arguments):
        stock(*arguments)
        with FolderLock(str(tmp_path)) as lock:
            done.append(retiring.retire(lock, 1))

    model.set(2)
    with monkeypatch.context() as patch:
        patch.setattr(folders, "fsync_file", then)
        model.dump(os.path.join(path, "dumped"))
    assert done[0] == [] and model.loaded(os.path.join(path, "dumped")) == 2
    shutil.rmtree(os.path.join(path, "dumped"))
    dump_folder.Writing(os.path.join(path, "dumped"))._lock.release()
    with FolderLock(str(tmp_path)) as lock:  # a dead dump's keeps nothing
        assert len(retiring.retire(lock, 1)) == 1


def test_a_dump_put_aside_in_a_checkpoints_folder_keeps_that(model, tmp_path, monkeypatch):
    """Between the two renames of a second one, whose job dies, it is all that there is."""
    path, stock, done = checkpoint(str(tmp_path / "model.ckpt-5")), os.rename, []
    checkpoint(str(tmp_path / "model.ckpt-6"), 6)
    inside = os.path.join(path, "dumped")
    model.set(2)
    model.dump(inside)

    def rename(source, target):
        if done:
            raise KeyboardInterrupt
        done.append(stock(source, target))

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "rename", rename)
        patch.setattr(dump_folder.Writing, "remove", lambda self: self._lock.release())
        model.dump(inside)
    with FolderLock(str(tmp_path)) as lock:
        assert retiring.retire(lock, 1) == []
    assert model.loaded(inside) == 2
    publishing.publish(checkpoint(path, publish=False), str(tmp_path), 5)
    assert model.loaded(inside) == 2


def retired(path):
    checkpoint(path.rpartition("-")[0] + "-6", 6)
    with FolderLock(os.path.dirname(path)) as lock:
        assert retiring.retire(lock, 1) == []


def saved_by_a_manager(path):
    publishing.publish(checkpoint(path, publish=False), os.path.dirname(path), 5)


def saved_by_tensorflow(path):
    with prefixes.replaced(path), open(path + ".index", "w") as file:
        file.write("TensorFlow's")


def saved_by_tensorflow_first(path):
    saved_by_tensorflow(path)
    assert folders.complete(os.path.dirname(path)) == []
    checkpoint(path)


@pytest.mark.parametrize("how, there", [
    (retired, True), (prefixes.remove, True), (saved_by_a_manager, True), (checkpoint, True),
    (saved_by_tensorflow, False), (saved_by_tensorflow_first, True)])
def test_a_dump_in_a_checkpoints_own_folder_stays(model, tmp_path, how, there):
    path = checkpoint(str(tmp_path / "model.ckpt-5"))
    model.set(2)
    model.dump(path)
    for others in [], ["eval"]:  # first it is alone there
        for name in others:
            os.mkdir(os.path.join(path, name))
        how(path)
        by_manager(path)
        assert model.loaded(path) == 2 and set(others) < set(os.listdir(path))
        assert [found.step for found in folders.complete(str(tmp_path))][-1:] == ([5] if there else [])
        assert [name for name in os.listdir(str(tmp_path)) if name.endswith((".old", ".gone", ".tmp"))] == []


@pytest.mark.parametrize("dies", range(2, 8))
def test_a_save_that_dies_while_it_moves_a_dump_loses_nothing_of_it(model, tmp_path, monkeypatch, dies):
    path, stock, done = checkpoint(str(tmp_path / "model.ckpt-5")), os.rename, []
    model.set(2)
    model.dump(path)

    def rename(source, target):
        if len(done) == dies:
            raise KeyboardInterrupt
        done.append(stock(source, target))

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(os, "rename", rename)
        publishing.publish(checkpoint(path, publish=False), str(tmp_path), 5)
    by_manager(path)
    assert [found.step for found in folders.complete(str(tmp_path))] == [5] and model.loaded(path) == 2
    assert [name for name in os.listdir(str(tmp_path)) if not name.startswith(".sok1x")] == ["model.ckpt-5"]


def test_a_manager_refuses_a_step_whose_name_a_dump_gets_meanwhile(model, tmp_path, monkeypatch):
    path, stock = str(tmp_path / "model.ckpt-5"), manifest.write

    def write(*arguments):
        stock(*arguments)
        monkeypatch.undo()
        model.dump(path)

    model.set(2)
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable(np.ones([2, 4]), dtype=tf.float32, name="table")
        manager = sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        monkeypatch.setattr(manifest, "write", write)
        with pytest.raises(CheckpointError, match="Cannot save to .*5: there is something of that name"):
            manager.save(session, 5)
        assert manager.save(session, 6) == str(tmp_path / "model.ckpt-6")
    assert model.loaded(path) == 2 and sorted(os.listdir(str(tmp_path))) == [
        ".sok1x.lock", "checkpoint", "model.ckpt-5", "model.ckpt-6"]
