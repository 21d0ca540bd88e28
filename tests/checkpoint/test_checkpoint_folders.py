"""Folders of checkpoints: at every moment, whatever was interrupted, the last complete one is found."""
import errno
import os
import shutil

import pytest

from sok1x.checkpoint.errors import DamagedError, NotFoundError, WriteError
from sok1x.checkpoint.files import folders, giving_way, manifest, publishing, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock


def make(directory, step, content="", publish=True, complete=True):
    """A checkpoint's folder with a file of its own."""
    folder = publishing.make_temporary(folders.step_folder(str(directory), step), folders.new_token())
    with open(os.path.join(folder, "content"), "w") as file:
        file.write(content)
    if complete:
        manifest.write(folder, manifest.Manifest("0123456789abcdef", step, 1, 0, {}, {}))
    return publishing.publish(folder, str(directory), step) if publish else folder


def content(found):
    with open(os.path.join(found.folder, "content")) as file:
        return file.read()


def steps(directory):
    return [found.step for found in folders.complete(str(directory))]


@pytest.fixture
def lock(tmp_path):
    with FolderLock(str(tmp_path)) as held:
        yield held


def test_complete_ones_are_found_the_last_first(tmp_path):
    assert steps(tmp_path / "none") == [] and folders.latest(str(tmp_path)) is None
    for step in (5, 100, 0, 20):
        make(tmp_path, step)
    make(tmp_path, 200, publish=False)
    make(tmp_path, 300, complete=False)
    (tmp_path / "model.ckpt-400").write_text("a file")
    (tmp_path / "model.ckpt-007").mkdir()
    (tmp_path / "model.ckpt-500").symlink_to(tmp_path / "model.ckpt-5")
    (tmp_path / "checkpoint").write_text("")
    assert steps(tmp_path) == [100, 20, 5, 0]
    found = folders.latest(str(tmp_path))
    assert found == (100, str(tmp_path / "model.ckpt-100")) and found.prefix == str(
        tmp_path / "model.ckpt-100" / "model.ckpt-100")


def test_find(tmp_path):
    for step in (5, 20):
        make(tmp_path, step)
    last = str(tmp_path / "model.ckpt-20")
    assert folders.find(str(tmp_path)) == folders.find(last) == last
    assert folders.find(str(tmp_path), 5) == str(tmp_path / "model.ckpt-5")
    with pytest.raises(NotFoundError, match="of step 6 in .*; it has those of steps 5, 20"):
        folders.find(str(tmp_path), 6)
    assert folders.find(last, 20) == last
    with pytest.raises(NotFoundError, match="no complete checkpoint of step 5 in .*ckpt-20; it is that of step 20"):
        folders.find(last, 5)
    with pytest.raises(NotFoundError, match="There is no folder .*none"):
        folders.find(str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no complete checkpoint in .*; it has none"):
        folders.find(str(tmp_path / "empty"))


def test_find_in_a_checkpoint_in_which_a_run_has_gone_on(tmp_path):
    start = make(tmp_path, 7)
    make(start, 5)
    assert folders.find(start) == folders.find(start, 7) == start
    assert folders.find(start, 5) == os.path.join(start, "model.ckpt-5")
    for step in (7, 9):
        last = make(start, step)
        assert folders.find(start) == folders.find(start, step) == last
        assert folders.within(start)[0] == (step, last)
    with pytest.raises(NotFoundError, match="of step 6 in .*; it has those of steps 5, 7, 9"):
        folders.find(start, 6)
    manifest.write(start, manifest.Manifest("fedcba9876543210", 9, 1, 1, {}, {}))  # saved anew, later than that inside
    assert folders.find(start) == folders.find(start, 9) == start and folders.within(start)[1] == (9, last)


def test_a_state_that_is_no_runs_gives_way(tmp_path):
    """In the folder lies something else that stays."""
    start = make(tmp_path, 5, "old")
    temporary = publishing.make_temporary(start, folders.new_token())
    manifest.write(temporary, manifest.Manifest("fedcba9876543210", 9, 1, 0, {}, {}))
    for folder, step in (start, 5), (temporary, 9):
        with open(os.path.join(folder, "checkpoint"), "w") as file:
            file.write('model_checkpoint_path: "model.ckpt-{}"\n'.format(step))
    for name in ("eval", ".hidden", "model.ckpt-5_temp"):
        os.mkdir(os.path.join(start, name))
    assert giving_way.others_in(start) == ["eval"]
    publishing.publish_as(temporary, start)
    assert os.path.isdir(os.path.join(start, "eval"))
    with open(os.path.join(start, "checkpoint")) as file:
        assert "model.ckpt-9" in file.read()


def test_one_that_is_damaged_does_not_hide_what_is_inside(tmp_path):
    start = make(tmp_path, 7)
    with open(os.path.join(start, manifest.NAME), "w") as file:
        file.write("damaged")
    for look in (folders.within, lambda folder: folders.find(folder, 7)):
        with pytest.raises(DamagedError, match="model.ckpt-7/manifest.json"):
            look(start)
    assert folders.find(start) == start  # who reads it is told
    last = make(start, 9)
    assert folders.within(start) == [(9, last)] and folders.find(start) == folders.find(start, 9) == last
    with pytest.raises(NotFoundError, match="of step 7 in .*; it has those of steps 9"):
        folders.find(start, 7)


def test_one_of_the_same_step_is_replaced(tmp_path):
    make(tmp_path, 5, "old")
    make(tmp_path, 5, "new")
    assert steps(tmp_path) == [5] and content(folders.latest(str(tmp_path))) == "new"
    assert os.listdir(str(tmp_path)) == ["model.ckpt-5"]


@pytest.mark.parametrize("renames, expected", [(0, "old"), (1, "old"), (2, "new")])
def test_a_death_while_one_is_replaced(tmp_path, monkeypatch, renames, expected):
    """After every rename that is done there is one complete checkpoint, and the next job puts it right."""
    make(tmp_path, 5, "old")
    temporary = make(tmp_path, 5, "new", publish=False)
    real, done = os.rename, []

    def rename(source, target):
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(real(source, target))

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(giving_way, "remove", lambda paths: None)
    try:
        publishing.publish(temporary, str(tmp_path), 5)
    except KeyboardInterrupt:
        pass
    monkeypatch.undo()
    assert steps(tmp_path) == [5] and content(folders.latest(str(tmp_path))) == expected
    with FolderLock(str(tmp_path)) as lock:
        retiring.remove_leftovers(lock)
    assert content(folders.latest(str(tmp_path))) == expected
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "model.ckpt-5"]


@pytest.mark.parametrize("refused", ["the old one's", "the new one's", "the folder's"])
def test_one_that_cannot_be_replaced_stays(tmp_path, monkeypatch, refused):
    """Its own name, the new one's, or what the disk has of both is what the system refuses."""
    final = make(tmp_path, 5, "old")
    temporary = make(tmp_path, 5, "new", publish=False)
    rename, fsync = os.rename, folders.fsync_folder

    def renamed(source, target):
        if source == {"the old one's": final, "the new one's": temporary}.get(refused):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    def synced(path):
        if refused == "the folder's" and path == str(tmp_path):
            raise WriteError("Cannot write: Input/output error")
        fsync(path)

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(folders, "fsync_folder", synced)
    with pytest.raises(WriteError, match="Input/output error"):
        publishing.publish(temporary, str(tmp_path), 5)
    assert sorted(os.listdir(str(tmp_path))) == [os.path.basename(temporary), "model.ckpt-5"]
    assert content(folders.latest(str(tmp_path))) == "old"


def test_one_that_was_replaced_does_not_count_beside_its_successor(tmp_path):
    # Many, for a folder's entries come in any order.
    for step in range(20):
        make(tmp_path, step, "new")
        os.rename(make(tmp_path / "other", step, "old"), str(tmp_path / ".model.ckpt-{}.00ff.old".format(step)))
    assert [content(found) for found in folders.complete(str(tmp_path))] == ["new"] * 20


def test_leftovers_are_removed_and_nothing_else(tmp_path, lock):
    make(tmp_path, 5)
    make(tmp_path, 6, publish=False)
    for name in (".model.ckpt-4.00ff.gone", ".model.ckpt-5.00ff.old", "mine", ".model.ckpt-x.00ff.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("t.0-of-1.keys" if name.endswith(".old") else "file")).write_text("")
    (tmp_path / ".model.ckpt-9.00ff.tmp").symlink_to(tmp_path / "mine")
    retiring.remove_leftovers(lock)
    assert sorted(os.listdir(str(tmp_path))) == [
        ".model.ckpt-9.00ff.tmp", ".model.ckpt-x.00ff.tmp", ".sok1x.lock", "mine", "model.ckpt-5"]
    assert os.listdir(str(tmp_path / "mine")) == ["file"]


def test_prune_keeps_the_last(tmp_path, lock):
    for step in (1, 2, 3, 10):
        make(tmp_path, step)
    for keep, left in ((None, [10, 3, 2, 1]), (0, [10, 3, 2, 1]), (7, [10, 3, 2, 1]), (3, [10, 3, 2]), (1, [10])):
        kept = retiring.kept(str(tmp_path), keep)
        giving_way.remove(retiring.retire(lock, keep))
        assert steps(tmp_path) == left == [found.step for found in reversed(kept)]
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "model.ckpt-10"]


@pytest.mark.parametrize("refused", [False, True])
def test_one_that_another_removes_meanwhile_keeps_no_other(tmp_path, lock, monkeypatch, refused):
    """Its user, or another thread of this process; one that the system refuses to remove is told."""
    for step in (1, 2, 3, 10):
        make(tmp_path, step)
    found, rename = folders.complete(str(tmp_path)), os.rename

    def renamed(source, target):
        if refused and source.endswith("-1"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    shutil.rmtree(str(tmp_path / "model.ckpt-2"))
    monkeypatch.setattr(os, "rename", renamed)
    if refused:
        with pytest.raises(WriteError, match="model.ckpt-1: Input/output error"):
            retiring.retire(lock, 1, 10, found)
    else:
        giving_way.remove(retiring.retire(lock, 1, 10, found))
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock"] + ["model.ckpt-1"] * refused + ["model.ckpt-10"]


def test_what_was_just_saved_stays_though_its_step_is_the_least(tmp_path, lock):
    for step in (10, 20, 5):
        make(tmp_path, step)
    assert [found.step for found in retiring.kept(str(tmp_path), 2, 5)] == [5, 20]
    giving_way.remove(retiring.retire(lock, 2, 5))
    assert steps(tmp_path) == [20, 5]
    giving_way.remove(retiring.retire(lock, 1, 5))
    assert steps(tmp_path) == [5]


def go_on_in(start, by):
    """A run's files in a checkpoint's folder: what it has saved last, by a hook of ours or by a tf.train.Saver."""
    if by == "hook":
        make(start, 9)
    else:
        for ending in ("data-00000-of-00001", "index"):
            with open(os.path.join(start, "model.ckpt-9." + ending), "w") as file:
                file.write(ending)
    for name in ("checkpoint", "events"):
        with open(os.path.join(start, name), "w") as file:
            file.write("inside")


@pytest.mark.parametrize("by", ["hook", "saver"])
def test_one_in_which_a_run_has_gone_on_is_not_removed(tmp_path, lock, by):
    go_on_in(make(tmp_path, 1), by)
    for step in (2, 3, 4):
        make(tmp_path, step)
        giving_way.remove(retiring.retire(lock, 1))
        assert steps(tmp_path) == [step, 1]
        assert [found.step for found in retiring.kept(str(tmp_path), 1)] == [step]


@pytest.mark.parametrize("by", ["hook", "saver"])
@pytest.mark.parametrize("dies", [False, True])
def test_one_that_is_replaced_leaves_what_a_run_has_saved_in_it(tmp_path, lock, monkeypatch, by, dies):
    """Also if the job dies when both names have been given."""
    start = make(tmp_path, 5, "old")
    go_on_in(start, by)
    inside = {name for name in os.listdir(start) if "9" in name}
    if dies:
        monkeypatch.setattr(giving_way, "remove_replaced", lambda retired, final: None)
    assert make(tmp_path, 5, "new") == start
    monkeypatch.undo()
    assert inside and (inside < set(os.listdir(start))) != dies
    retiring.remove_leftovers(lock)
    assert set(os.listdir(start)) == inside | {"content", "manifest.json", "checkpoint", "events"}
    assert content(folders.latest(str(tmp_path))) == "new"
    assert by == "saver" or steps(start) == [9]
    with open(os.path.join(start, "checkpoint")) as file:
        assert file.read() == "inside"
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "model.ckpt-5"]


def test_a_run_that_went_back_keeps_its_own(tmp_path, lock):
    """What it went back from goes first."""
    for step, left in ((10, [10]), (20, [20, 10]), (30, [30, 20, 10]), (40, [40, 30, 20]), (21, [40, 21, 20]),
                       (22, [22, 21, 20]), (23, [23, 22, 21])):
        make(tmp_path, step)
        kept = retiring.kept(str(tmp_path), 3, step)
        giving_way.remove(retiring.retire(lock, 3, step))
        assert steps(tmp_path) == left == [found.step for found in reversed(kept)]


@pytest.mark.parametrize("kind, counts", [("_temp", False), ("_temp_" + "0f" * 16, False), ("_temp_x", True),
                                          (" whole_temp", True), (".tmp", False), (".old", True), (".gone", False)])
def test_what_a_killed_save_left_inside_keeps_no_checkpoint(tmp_path, lock, kind, counts):
    """TensorFlow's folders, and ours, of a run that had only begun to save there, or to remove what it had saved; what
    is aside counts, and stays."""
    start = make(tmp_path, 1)
    if kind == " whole_temp":
        os.rename(make(start, 9), os.path.join(start, "my" + kind))
    elif kind.startswith("_temp"):
        os.mkdir(os.path.join(start, "model.ckpt-9" + kind))
    else:
        os.rename(make(start, 9), folders.hidden(folders.step_folder(start, 9), "0123456789abcdef", kind[1:]))
    assert bool(giving_way.others_in(start)) == counts
    make(tmp_path, 2)
    giving_way.remove(retiring.retire(lock, 1))
    assert steps(tmp_path) == ([2, 1] if counts else [2])


def test_what_removes_needs_the_lock(tmp_path):
    for act in (lambda lock: retiring.retire(lock, 1), retiring.remove_leftovers):
        with pytest.raises(ValueError, match="lock on .* is not held"):
            act(FolderLock(str(tmp_path)))
