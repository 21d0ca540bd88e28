"""Dumps into folders that are there, and beside others."""
import errno
import os
import shutil

import pytest
from other_user import as_nobody, needs_root, open_folder
from test_dump_load_kill import Model

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.errors import LockedError, NoSpaceError, WriteError
from sok1x.checkpoint.files import folder_lock
from sok1x.dump_load import folder as dump_folder
from sok1x.dump_load import layout, shard_source


@pytest.fixture(scope="module")
def model():
    return Model()


def test_the_working_directory_is_not_taken_away(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.set(2)
    for path in (".", str(tmp_path), "./below/.."):
        os.makedirs("below", exist_ok=True)
        with pytest.raises(CheckpointError, match="it is the working directory, and a dump takes the place"):
            model.dump(path)
    assert os.getcwd() == str(tmp_path) and os.listdir(".") == ["below"]
    model.dump("below")
    monkeypatch.chdir(tmp_path / "below")  # one that is below a dump goes with it
    os.mkdir("mine")
    monkeypatch.chdir(tmp_path / "below" / "mine")
    model.set(3)
    model.dump("..")
    assert os.getcwd() == str(tmp_path / "below" / "mine") and model.loaded("..") == 3


def test_a_file_url_is_a_path_and_others_are_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "there")
    model.set(2)
    model.dump("file://" + path)
    assert model.loaded(path) == 2 and model.loaded("file://" + path) == 2
    for function in (sok.dump, sok.load):
        with pytest.raises(ValueError, match="path: got 'hdfs://host/there', expected a folder's path and no URL"):
            function("hdfs://host/there", model.table, session=model.session)
    assert os.listdir(".") == ["there"]


@pytest.mark.parametrize("code", [16, 13, 1])
def test_a_folder_that_cannot_be_replaced(model, tmp_path, monkeypatch, code):
    path = str(tmp_path / "mounted")
    os.mkdir(path)
    stock = os.rename

    def rename(source, target):
        if source == path:
            raise OSError(code, os.strerror(code))
        stock(source, target)

    monkeypatch.setattr(os, "rename", rename)
    model.set(2)
    with pytest.raises(WriteError, match="Cannot write {}: {}. .*dump to a new folder in it".format(
            path, os.strerror(code))):
        model.dump(path)
    assert os.listdir(path) == [] and os.listdir(str(tmp_path)) == ["mounted"]
    model.dump(os.path.join(path, "new"))
    assert model.loaded(os.path.join(path, "new")) == 2


@pytest.mark.parametrize("refused", ["rename", "fsync_folder"])
def test_a_dump_that_does_not_get_its_name_leaves_the_old_one(model, tmp_path, monkeypatch, refused):
    path = str(tmp_path / "dump")
    model.set(2)
    model.dump(path)
    (tmp_path / "dump" / "mine").write_text("kept")
    before = os.listdir(path)
    module = os if refused == "rename" else dump_folder.folders
    stock = getattr(module, refused)

    def fail(*arguments):
        if arguments[-1] == (path if refused == "rename" else str(tmp_path)) and fails:
            fails.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO)) if refused == "rename" else WriteError("no: Input/output")
        return stock(*arguments)

    fails = [True]
    monkeypatch.setattr(module, refused, fail)
    model.set(3)
    with pytest.raises(WriteError, match="Input/output"):
        model.dump(path)
    assert os.listdir(str(tmp_path)) == ["dump"] and sorted(os.listdir(path)) == sorted(before)
    assert model.loaded(path) == 2


@pytest.mark.parametrize("function", ["open", "pwrite"])
def test_a_dump_without_room_for_its_lock_leaves_nothing(model, tmp_path, monkeypatch, function):
    path = str(tmp_path / "dump")
    model.set(2)
    model.dump(path)
    stock = getattr(os, function)

    def full(*arguments, **options):
        if function == "pwrite" or ".sok1x-dump.lock" in arguments[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return stock(*arguments, **options)

    monkeypatch.setattr(os, function, full)
    with pytest.raises(NoSpaceError, match=r"No space left to write .*\.tmp/\.sok1x-dump\.lock"):
        model.dump(path)
    assert os.listdir(str(tmp_path)) == ["dump"] and model.loaded(path) == 2


def test_what_is_left_of_a_replaced_dump_is_none(model, tmp_path, monkeypatch):
    """A file of the user's that has the name of one of the new dump's stays where the old dump was, alone."""
    path = str(tmp_path / "dump")
    model.set(2)
    model.dump(path)
    (tmp_path / "dump" / "table_0-key").write_text("mine")
    model.set(3)
    model.dump(path)
    left = [name for name in os.listdir(str(tmp_path)) if name != "dump"]
    assert len(left) == 1 and os.listdir(str(tmp_path / left[0])) == ["table_0-key"]
    assert (tmp_path / left[0] / "table_0-key").read_text() == "mine" and model.loaded(path) == 3
    shutil.rmtree(path)
    assert model.loaded(path) is None


def test_of_several_that_were_replaced_the_newest_counts(model, tmp_path):
    path = str(tmp_path / "dump")
    for factor, token in ((2, "f"), (4, "0"), (3, "a")):
        model.set(factor)
        model.dump(str(tmp_path / "other"))
        os.utime(str(tmp_path / "other" / "meta_info"), (factor, factor))
        os.rename(str(tmp_path / "other"), str(tmp_path / ".dump.{}.old".format(token * 16)))
    assert model.loaded(path) == 4
    dump_folder._remove_leftovers(path)
    assert os.listdir(str(tmp_path)) == ["dump"] and model.loaded(path) == 4


def test_a_dump_that_has_its_name_does_not_fail_for_what_was_there(model, tmp_path, monkeypatch):
    path = str(tmp_path / "dump")
    model.dump(path)
    stock = os.listdir

    def listdir(folder):
        if str(folder).endswith(".old"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stock(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    model.set(3)
    model.dump(path)
    monkeypatch.undo()
    assert model.loaded(path) == 3
    shutil.rmtree(path)
    assert model.loaded(path) is None


@needs_root
def test_below_a_folder_of_somebody_else(request):
    path = os.path.join(open_folder(request), "mine")
    os.mkdir(path)
    os.chmod(path, 0o777)
    told = as_nobody(lambda: dump_folder.Writing(path))
    assert told.startswith("WriteError: Cannot write") and "Permission denied" in told, told
    assert told.endswith("dump to a new folder in it."), told


@needs_root
def test_a_folder_that_may_not_be_written_to_is_refused(request):
    """Also where it is made so while the dump is written: nothing is left beside it."""
    above = open_folder(request)
    path = os.path.join(above, "dump")
    os.mkdir(path)
    for one in (above, path):
        os.chown(one, 65534, 65534)
    told = as_nobody(lambda: os.chmod(path, 0o555) or dump_folder.Writing(path))
    assert told.startswith("CheckpointError: Cannot dump to {}: the folder may not be written to".format(path)), told
    assert os.listdir(above) == ["dump"]

    def late():
        os.chmod(path, 0o755)
        writing = dump_folder.Writing(path)
        os.chmod(path, 0o555)
        try:
            writing.publish()
        finally:
            writing.remove()

    told = as_nobody(late)
    assert told.startswith("CheckpointError: Cannot dump to {}: the folder may not be written to".format(path)), told
    assert os.listdir(above) == ["dump"] and not os.listdir(path)


@needs_root
def test_a_read_only_dump_that_an_earlier_sok1x_has_replaced_does_not_come_back(request, model):
    """Of which each dump has left a copy."""
    above = open_folder(request)
    path, old = os.path.join(above, "dump"), os.path.join(above, ".dump.{}.old".format("a" * 16))
    for name in ("dump", "other"):
        model.dump(os.path.join(above, name))
    os.rename(os.path.join(above, "other"), old)
    os.chmod(old, 0o555)
    for folder, names, files in os.walk(above):
        for one in [folder] + [os.path.join(folder, name) for name in files]:
            os.chown(one, 65534, 65534)

    def dumped():
        writing = dump_folder.Writing(path)
        writing.publish()

    assert as_nobody(dumped) == "None"
    assert os.listdir(above) == ["dump"]


def test_a_lock_that_another_holds_there_stays(model, tmp_path):
    path = str(tmp_path / "saved")
    with folder_lock.FolderLock(path):
        inode = os.stat(os.path.join(path, folder_lock.NAME)).st_ino
        for factor in (2, 3):
            model.set(factor)
            model.dump(path)
            assert os.stat(os.path.join(path, folder_lock.NAME)).st_ino == inode
            with pytest.raises(LockedError, match="Another"):
                folder_lock.FolderLock(path).acquire()
    assert model.loaded(path) == 3
    assert sorted(os.listdir(path)) == [".sok1x.lock", "meta_info", "table_0-key", "table_0-weight"]
    assert os.listdir(str(tmp_path)) == ["saved"]


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
