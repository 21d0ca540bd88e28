"""A run that has gone on in a checkpoint's folder: what it has saved there stays, whatever takes that one's place."""
import contextlib
import errno
import os

import pytest
from prefix_checkpoints import TOKEN, files, make, save

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folder_lock, folders, giving_way, manifest, prefixes, publishing, retiring
from sok1x.checkpoint.files.folder_lock import FolderLock


@pytest.mark.parametrize("how", ["removed", "replaced", "replaced by TensorFlow", "left", "ousted"])
def test_what_a_run_has_saved_inside_stays(tmp_path, how):
    prefix = make(str(tmp_path / "my-1"))
    make(prefix + "/model.ckpt-9", "mine")
    if how == "removed":
        prefixes.remove(prefix)
        assert prefixes.folder_of(prefix) == prefix
    elif how == "replaced":
        make(prefix, "new")
        assert files(prefix)["model.ckpt-1.index"] == "new"
    elif how == "left":  # by a job that died when both had their names
        os.rename(prefix, folders.hidden(prefix, TOKEN, "old"))
        make(prefix, "new")
        prefixes.remove_leftovers(prefix)
    elif how == "ousted":  # by a job of Keras that died when it had saved
        os.rename(prefix, folders.hidden(prefix, TOKEN, "gone"))
        prefixes.remove_leftovers(prefix)
    else:
        with prefixes.replaced(prefix):
            save(prefix, ".index")
        assert prefixes.folder_of(prefix) is None
    assert prefixes.folder_of(prefix + "/model.ckpt-9") == prefix + "/model.ckpt-9"
    assert set(files(prefix + "/model.ckpt-9").values()) > {"mine"}
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".my")]


@pytest.mark.parametrize("inside", ["model.ckpt-9", "model.ckpt-1", "a folder"])
@pytest.mark.parametrize("dies", [None, 2, 3])  # between the two renames, or behind them; one is the manifest's
def test_a_checkpoint_takes_the_place_of_what_is_left_for_a_run(tmp_path, monkeypatch, inside, dies):
    """An eager save has replaced the one in whose folder a run goes on; then a graph's Saver saves there again."""
    prefix = make(str(tmp_path / "my-1"), others=["of_2_ranks.rows"])
    if inside == "a folder":
        make(prefix + "/model.ckpt-9", "mine")
    else:
        for ending in (".index", ".data-00000-of-00001"):
            (tmp_path / "my-1" / (inside + ending)).write_text("mine")
        if inside == "model.ckpt-1":  # as that of the checkpoint is called that will be saved
            manifest.write(prefix, manifest.read(prefix)._replace(step=5, files={}))
    run = {name: content for name, content in files(prefix).items() if content == "mine"}
    for _ in range(2):
        with prefixes.replaced(prefix):
            save(prefix, ".index")
        assert run.items() <= files(prefix).items() and not folders.is_complete(prefix)
        publishing.expect_free(prefix)
        publishing.expect_free(prefix, of_step=True)
        done, rename = [], os.rename

        def renamed(source, target, done=done, rename=rename):
            if len(done) == dies:
                raise KeyboardInterrupt
            done.append(rename(source, target))

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", renamed)
            with contextlib.suppress(KeyboardInterrupt):
                with contextlib.nullcontext() if dies is None else pytest.raises(KeyboardInterrupt):
                    make(prefix, "new")
        folders.at_work.clear()
        prefixes.remove_leftovers(str(tmp_path / "my-2"))  # another step's
        prefixes.remove_leftovers(prefix)
        if dies == 2:
            assert not folders.is_complete(prefix)
            publishing.expect_free(prefix)
        if inside == "model.ckpt-1" and dies != 2:  # both cannot have the name: the run's has it again, later
            assert files(prefix)["model.ckpt-1.index"] == "new"
        else:
            assert run.items() <= files(prefix).items()
        make(prefix, "newer", link=False, step=3)
        prefixes.remove_leftovers(prefix)
        assert run.items() <= files(prefix).items() and folders.is_complete(prefix)
        assert files(prefix)["model.ckpt-3.index"] == "newer"
        assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".my")]


def test_what_a_run_has_saved_inside_is_not_lost_to_one_of_its_name(tmp_path):
    """The run's, of one rank, is out of the way as long as the folder's own files are called so."""
    prefix = make(str(tmp_path / "my-1"))
    for ending in (".index", ".data-00000-of-00001"):
        (tmp_path / "my-1" / ("model.ckpt-9" + ending)).write_text("mine")
    run = {name: content for name, content in files(prefix).items() if content == "mine"}
    for step, there in ((9, False), (9, False), (10, True), (11, True)):
        make(prefix, "new", step=step)
        prefixes.remove_leftovers(prefix)
        assert manifest.read(prefix).step == step and (run.items() <= files(prefix).items()) == there
        assert files(prefix)["model.ckpt-{}.index".format(step)] == "new"
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".my")]


def test_a_folder_of_the_users_is_not_taken_for_what_is_left_for_a_run(tmp_path):
    prefix = str(tmp_path / "my-1")
    make(prefix + "/model.ckpt-9", "mine")
    for of_step in (False, True):
        with pytest.raises(CheckpointError, match="Cannot save to .*my-1: there is something"):
            publishing.expect_free(prefix, of_step)


@pytest.mark.parametrize("last", [".index", "checkpoint", "model.ckpt-9", ".sub"])
@pytest.mark.parametrize("refused", [False, True])
def test_what_a_run_has_saved_inside_is_not_lost_to_a_death_while_it_moves(tmp_path, monkeypatch, last, refused):
    """In whatever order the file system lists it: what tells that a run's files are there is the last that moves."""
    state, listdir, rename = 'model_checkpoint_path: "model.ckpt-12"\n', os.listdir, os.rename

    def listed(*path):
        return sorted(listdir(*path), key=lambda name: (last in name, name))

    for dies in range(1, 13):
        prefix = make(str(tmp_path / str(dies) / "my-1"))
        make(prefix + "/model.ckpt-9", "mine", link=False)
        os.makedirs(prefix + "/.sub_temp")
        run = {name: "mine" for name in (".sub_temp/notes", "events", "model.ckpt-11.meta")}
        run.update({"model.ckpt-{}{}".format(step, ending): "mine" for step in (11, 12)
                    for ending in (".data-00000-of-00001", ".index")}, checkpoint=state)
        for name, content in run.items():
            with open(os.path.join(prefix, name), "w") as file:
                file.write(content)
        run.update({"model.ckpt-9/" + name: content for name, content in files(prefix + "/model.ckpt-9").items()})
        done = []

        def moved(source, target, done=done, dies=dies):
            if ".old/" in source:
                done.append(source)
                if len(done) >= dies:
                    raise OSError(errno.EIO, os.strerror(errno.EIO)) if refused else KeyboardInterrupt
            rename(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", listed)
            patch.setattr(os, "rename", moved)
            with contextlib.suppress(KeyboardInterrupt):
                make(prefix, "new", link=False)
        folders.at_work.clear()
        prefixes.remove_leftovers(prefix)
        assert run.items() <= files(prefix).items(), (dies, done)
        assert files(prefix)["model.ckpt-1.index"] == "new"
        assert not [name for name in os.listdir(os.path.dirname(prefix)) if name.startswith(".my")]
    assert len(done) < dies  # the last has not died


@pytest.mark.parametrize("begun", [None, ".model.ckpt-9.{}.tmp".format(TOKEN), "model.ckpt-9_temp_" + "0f" * 16])
@pytest.mark.parametrize("how", ["retired", "removed", "replaced"])
def test_a_job_that_saves_inside_for_the_first_time_is_not_disturbed(tmp_path, begun, how):
    """What looks like a killed save's is a live one's as long as that holds the folder's lock; then it is of no use."""
    prefix, directory = make(str(tmp_path / "model.ckpt-1"), link=False), str(tmp_path)
    make(str(tmp_path / "model.ckpt-2"), link=False, step=2)
    with FolderLock(directory) as lock:
        with FolderLock(prefix):
            if begun:
                os.makedirs(os.path.join(prefix, begun, "part-00000-of-00001.data"))
                if begun[0] == ".":
                    manifest.write(os.path.join(prefix, begun), manifest.read(prefix))
            before = os.stat(os.path.join(prefix, folder_lock.NAME)).st_ino
            if how == "retired":
                assert retiring.retire(lock, 1) == []
            elif how == "removed":
                prefixes.remove(prefix)
            else:
                make(prefix, "new", link=False)
            assert os.stat(os.path.join(prefix, folder_lock.NAME)).st_ino == before
            assert not begun or os.path.isdir(os.path.join(prefix, begun, "part-00000-of-00001.data"))
        giving_way.remove(retiring.retire(lock, 1))
        assert sorted(os.listdir(directory)) == [folder_lock.NAME, "model.ckpt-2"]


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("how", ["retired", "removed", "replaced"])
def test_what_a_run_has_saved_in_one_that_a_run_has_put_out_of_sight_stays(tmp_path, marked, how):
    """A run in a checkpoint's folder has replaced one, in which another run's files have the names of its successor."""
    prefix = make(str(tmp_path / "model.ckpt-1"), link=False)
    gone = folders.hidden(make(prefix + "/model.ckpt-9", "mine", link=False), TOKEN, "gone")
    os.rename(prefix + "/model.ckpt-9", gone)
    if marked:  # all that was its own is gone
        for name in manifest.read(gone).files:
            os.unlink(os.path.join(gone, name))
        os.rename(os.path.join(gone, manifest.NAME), os.path.join(gone, folders.FOR_OTHERS))
    (tmp_path / "model.ckpt-1" / os.path.basename(gone) / "model.ckpt-11.index").write_text("another's")
    assert giving_way.others_in(prefix) == [os.path.basename(gone)]
    make(str(tmp_path / "model.ckpt-2"), link=False, step=2)
    if how == "retired":
        with FolderLock(str(tmp_path)) as lock:
            assert retiring.retire(lock, 1) == []
    elif how == "removed":
        prefixes.remove(prefix)
    else:
        make(prefix, "new", link=False)
    assert files(gone)["model.ckpt-11.index"] == "another's"


def test_a_death_while_room_is_made_for_a_run_refuses_no_save(tmp_path, monkeypatch):
    """Of a save of Keras, say, in whose place a graph's Saver saves then."""
    prefix = make(str(tmp_path / "my-1"))
    make(prefix + "/model.ckpt-9", "mine", link=False)
    run = files(prefix + "/model.ckpt-9")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), prefixes.replaced(prefix):
        def dying(final):
            os.mkdir(final)
            raise KeyboardInterrupt

        patch.setattr(giving_way, "_make_room", dying)
        save(prefix, ".index")
    assert os.listdir(prefix) == []
    publishing.expect_free(prefix)
    prefixes.remove_leftovers(prefix)
    make(prefix, "new")
    assert files(prefix + "/model.ckpt-9") == run and files(prefix)["model.ckpt-1.index"] == "new"
    os.mkdir(prefix + "-empty")
    os.symlink(prefix + "-empty", prefix + "-link")
    with pytest.raises(CheckpointError, match="Cannot save to"):
        publishing.expect_free(prefix + "-link")


@pytest.mark.parametrize("inside, counts", [("part-00000-of-00001.index", False), ("model.ckpt-7", True)])
def test_a_folder_of_a_run_may_be_called_as_a_temporary_of_tensorflows(tmp_path, inside, counts):
    prefix = make(str(tmp_path / "my-1"), link=False)
    os.makedirs(os.path.join(prefix, "high_temp", inside))
    assert bool(giving_way.others_in(prefix)) == counts
    prefixes.remove(prefix)
    assert os.path.isdir(os.path.join(prefix, "high_temp", inside)) == counts
