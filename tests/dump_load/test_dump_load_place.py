"""Dumps into folders that are there: these stay what they are, with whatever else lies in them."""
import os
import shutil
import stat
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from other_user import as_nobody, needs_root, open_folder
from test_dump_load_kill import Model

import sok1x as sok
from sok1x.checkpoint import CheckpointError, folder_lock
from sok1x.checkpoint.errors import LockedError
from sok1x.dump_load import folder as dump_folder
from sok1x.dump_load import layout, shard_source


@pytest.fixture(scope="module")
def model():
    return Model()


def test_the_working_directory_stays(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inode = os.stat(".").st_ino
    for factor in (2, 3):
        model.set(factor)
        model.dump(".")
        assert os.stat(os.getcwd()).st_ino == inode
        assert model.loaded(".") == factor and model.loaded(str(tmp_path)) == factor


def test_mode_and_parent_of_a_folder_are_left_alone(model, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    os.chmod(str(mine), 0o2775)
    before = os.stat(str(tmp_path)).st_mtime_ns
    model.set(2)
    model.dump(str(mine))
    assert stat.S_IMODE(os.stat(str(mine)).st_mode) == 0o2775
    assert os.stat(str(tmp_path)).st_mtime_ns == before, "something was made beside it: it might be a mount point"
    assert model.loaded(str(mine)) == 2


def test_a_lock_that_another_holds_there_stays(model, tmp_path):
    path = str(tmp_path)
    with folder_lock.FolderLock(path):
        inode = os.stat(os.path.join(path, folder_lock.NAME)).st_ino
        for factor in (2, 3):
            model.set(factor)
            model.dump(path)
        assert os.stat(os.path.join(path, folder_lock.NAME)).st_ino == inode
        with pytest.raises(LockedError, match="Another"):
            folder_lock.FolderLock(path).acquire()
    assert model.loaded(path) == 3


@pytest.mark.parametrize("make", [os.mkdir, lambda path: open(path, "w").close()])
def test_what_only_has_the_name_of_a_dumps_file_is_kept(model, tmp_path, make):
    path = str(tmp_path)
    make(os.path.join(path, "table_0-key"))
    model.set(2)
    with pytest.raises(CheckpointError, match="there is a 'table_0-key' that is no file of a dump"):
        model.dump(path)
    assert os.listdir(path) == ["table_0-key"]


def test_a_dump_of_other_tables_leaves_nothing_of_the_former_one(model, tmp_path):
    path = str(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        other = sok.Variable(np.ones([3, 2], np.float32), name="other")
        session.run(tf.global_variables_initializer())
        sok.dump(path, other, session=session)
    (tmp_path / "notes.txt").write_text("mine")
    model.set(2)
    model.dump(path)
    assert sorted(os.listdir(path)) == ["meta_info", "notes.txt", "table_0-key", "table_0-weight"]


def test_who_reads_waits_for_files_that_move(model, tmp_path, monkeypatch):
    path = str(tmp_path)
    model.set(1)
    model.dump(path)
    model.set(2)
    stock, moving, go_on = os.rename, threading.Event(), threading.Event()

    def slow(source, target):
        if os.path.basename(target) == "meta_info":
            moving.set()
            go_on.wait(20)
        stock(source, target)

    monkeypatch.setattr(os, "rename", slow)
    writer = threading.Thread(target=model.dump, args=[path])
    writer.start()
    assert moving.wait(20)
    found = []
    reader = threading.Thread(target=lambda: found.append(dump_folder.find(path)))
    reader.start()
    time.sleep(0.2)
    assert not found and not os.path.exists(os.path.join(path, "meta_info"))
    monkeypatch.setattr(dump_folder, "_PATIENCE", 0.1)
    with pytest.raises(LockedError, match="Another job has been putting its dump into"):
        dump_folder.find(path)
    go_on.set()
    for thread in (writer, reader):
        thread.join(20)
    assert found == [path] and model.loaded(path) == 2
    assert sorted(os.listdir(path)) == ["meta_info", "table_0-key", "table_0-weight"]


@pytest.mark.parametrize("moment", ["list", "rows"])
def test_a_load_beside_a_dump_is_of_one_of_them_or_an_error(model, tmp_path, monkeypatch, moment):
    """Another dump takes its place when the list of tables has been read, or rows are about to be."""
    path, other = str(tmp_path / "dump"), str(tmp_path / "other")
    for factor, folder in ((2, other), (1, path)):
        model.set(factor)
        model.dump(folder)

    def replaced():
        for name in ["meta_info"] + [name for name in os.listdir(other) if name != "meta_info"]:
            shutil.copy(os.path.join(other, name), os.path.join(path, name + ".new"))
            os.rename(os.path.join(path, name + ".new"), os.path.join(path, name))

    def then(stock):
        def call(*arguments, **options):
            found = stock(*arguments, **options)
            monkeypatch.undo()
            replaced()
            return found
        return call

    owner, name = (layout, "decode_meta") if moment == "list" else (shard_source.ShardSource, "__init__")
    monkeypatch.setattr(owner, name, then(getattr(owner, name)))
    model.set(-1)
    with pytest.raises(CheckpointError, match="Another dump has taken the place of the one in .*: load it again"):
        sok.load(path, model.table, session=model.session)
    assert model.loaded(path) == 2


@needs_root
def test_a_reader_without_rights_gets_the_dump_that_is_whole_or_the_reason(model, request):
    path = os.path.join(open_folder(request), "dump")
    model.set(1)
    model.dump(path)
    hidden = os.path.join(path, ".sok1x-dump.{}.ready".format("0" * 16))
    os.mkdir(hidden)
    assert as_nobody(lambda: dump_folder.find(path)) == path
    moving = hidden.replace("ready", "moving")  # its tables' files have moved, meta_info has not
    os.rename(hidden, moving)
    os.rename(os.path.join(path, "meta_info"), os.path.join(moving, "meta_info"))
    assert as_nobody(lambda: dump_folder.find(path)) == "WriteError: Cannot write {}: Permission denied.".format(path)
    assert model.loaded(path) == 1
