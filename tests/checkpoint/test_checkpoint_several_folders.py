"""Jobs whose managers, hooks and sessions have several folders: each has whole checkpoints, or it is told."""
import os
import shutil
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf
from hooked_sessions import hook, listened, train
from ranks import run_ranks
from stock_model import Model

import sok1x as sok
from sok1x.checkpoint.commands import verify
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import folders, links, prefixes
from sok1x.checkpoint.files.checkpoint_files import Checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES


@pytest.mark.parametrize("first", ["ours", "tensorflow"])
def test_a_hook_with_a_new_folder_saves_what_a_later_one_has_restored(first, tmp_path):
    """The first hook saves as soon as the session begins, before the second one is called."""
    saved, new = str(tmp_path / "saved"), str(tmp_path / "new")
    train(5, [hook(saved)])

    def hooks():
        own = hook(new, 100) if first == "ours" else tf.train.CheckpointSaverHook(
            new, save_steps=100, saver=tf.train.Saver())
        return [own, hook(saved, 100)]

    assert train(1, hooks, killed=True, checkpoint_dir=saved) == 5
    model = Model(0, 1)
    with model.graph.as_default():
        if first == "ours":
            assert sok.CheckpointManager(new).restore(model.session) == 5
        else:
            tf.train.Saver().restore(model.session, tf.train.latest_checkpoint(new))
    model.check(5)


class Saves(tf.train.SessionRunHook):
    """A script's own, that saves when its session begins: by a manager, a Saver, or the tables alone by `sok.dump`."""

    def __init__(self, by, folder):
        self.saver = {"saver": tf.train.Saver, "dump": lambda: None}.get(by, lambda: sok.CheckpointManager(folder))()
        self.folder = folder

    def after_create_session(self, session, coord):
        if self.saver is None:
            sok.dump(self.folder + "/dumped", tf.get_collection(TABLES), session=session)
        elif isinstance(self.saver, tf.train.Saver):
            self.saver.save(session, self.folder + "/best", global_step=tf.train.get_global_step())
        else:
            self.saver.save(session, int(session.run(tf.train.get_global_step())))


@pytest.mark.parametrize("make", [hook, listened])
@pytest.mark.parametrize("by", ["manager", "saver", "dump"])
def test_whoever_saves_first_has_hooks_restore_before(by, make, tmp_path):
    saved, new = str(tmp_path / "saved"), str(tmp_path / "new")
    os.mkdir(new)
    train(5, [make(saved)], checkpoint_dir=saved)
    assert train(1, lambda: [Saves(by, new), make(saved, 100)], checkpoint_dir=saved) == 5
    assert train(1, [make(saved, 100)], checkpoint_dir=saved) == 6
    model = Model(0, 1)
    with model.graph.as_default():
        if by == "manager":
            assert sok.CheckpointManager(new).restore(model.session) == 5
        elif by == "saver":
            tf.train.Saver().restore(model.session, new + "/best-5")
        else:
            sok.load(new + "/dumped", tf.get_collection(TABLES), session=model.session)
    values = model.session.run(model.values)
    model.check(5, values if by != "dump" else values[:2] + [[5, 5]])


def test_what_is_saved_first_is_called_by_its_step(tmp_path):
    """The hook reads the step before it saves; then a hook of ours restores a later one. So does a manager's caller."""
    early, late, new = (str(tmp_path / name) for name in ("early", "late", "new"))
    train(2, [hook(early)])
    train(5, [hook(late)])
    assert train(1, lambda: [tf.train.CheckpointSaverHook(new, save_steps=100, saver=tf.train.Saver()), hook(early),
                             hook(late)], checkpoint_dir=early) == 5
    assert [name for name in sorted(os.listdir(new)) if name.endswith(".index")] == [
        "model.ckpt-5.index", "model.ckpt-6.index"]
    assert tf.train.load_variable(new + "/model.ckpt-5", "global_step") == 5
    managed, later = str(tmp_path / "managed"), str(tmp_path / "later")
    train(7, [hook(later)])
    assert train(0, lambda: [Saves("manager", managed), hook(early), hook(later)], checkpoint_dir=early) == 7
    assert [found.step for found in folders.complete(managed)] == [7]


def test_a_manager_leaves_the_saver_to_tensorflows_hook(tmp_path):
    """It saves to a folder of its own, as of the best steps; the session's has everything, too."""
    best, saved = str(tmp_path / "best"), str(tmp_path / "saved")
    for wanted in (0, 5):
        assert train(5, best=best, checkpoint_dir=saved, save_checkpoint_steps=2) == wanted
    table = "EmbeddingVariable"
    assert table in [name for name, _ in tf.train.list_variables(saved)]
    with Model(0, 1).graph.as_default(), tf.Session() as session:
        assert sok.CheckpointManager(best).restore(session) == 2


def test_a_manager_leaves_the_saver_to_tensorflows_hook_on_two_ranks(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_stock_hooks.py"), tmp_path, "manager_beside", timeout=180)
    for rank in range(2):
        assert "rank {} did manager_beside\n".format(rank) in finished.out, str(finished)


def test_a_file_url_is_a_path(tmp_path, monkeypatch):
    """For our hook, with the session's folder given likewise; for a manager; and for a Saver."""
    monkeypatch.chdir(tmp_path)
    url = "file://" + str(tmp_path / "saved")
    for begun in (0, 2):
        assert train(2, [hook(url)], checkpoint_dir=url) == begun
    model = Model(0, 1)
    with model.graph.as_default():
        manager, saver = sok.CheckpointManager(url), tf.train.Saver()
    assert manager.restore(model.session) == 4
    model.check(4)
    assert saver.save(model.session, url + "/mine", 4) == url + "/mine-4"
    other = Model(0, 1)
    for path in (url + "/mine-4", url + "/model.ckpt-4"):
        other.saver().restore(other.session, path)
        other.check(4)
    assert os.listdir(str(tmp_path)) == ["saved"]
    for make in (sok.CheckpointManager, hook, sok.CheckpointSaverListener):
        with pytest.raises(ValueError, match="got 'gs://bucket/folder', expected a folder's path and no URL"):
            make("gs://bucket/folder")


def test_a_file_in_place_of_a_folder_is_refused_at_once(tmp_path):
    """A restore would find nothing there, and the job begin anew."""
    train(1, [hook(tmp_path)])
    files = [str(tmp_path / name) for name in ("checkpoint", "graph.pbtxt", "link")]
    assert all(map(os.path.isfile, files[:2]))
    os.symlink("nowhere", files[2])
    model = Model(0, 1)
    for make in (sok.CheckpointManager, hook, sok.CheckpointSaverListener):
        with model.graph.as_default():
            for file, told in zip(files, (True, False, False)):
                for path in (file, file + "/", os.path.join(file, "below", "it"), "file://" + file):
                    words = "got {!r}, but {} is no folder, expected a folder.*missing{}$".format(
                        path, file, "; give the folder that it is in, " + str(tmp_path) if told else "")
                    with pytest.raises(ValueError, match=words):
                        make(path)
            for name in "new", "one[", "]two[":
                make(str(tmp_path / "new" / name))
            for name in "lr=[0.1]", "lr\\0.1":
                with pytest.raises(ValueError, match="without .*, which TensorFlow takes for a pattern"):
                    make(str(tmp_path / name))
    assert not (tmp_path / "new").exists()


def test_a_session_of_another_folder_does_not_begin_its_tables_anew(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    assert train(2, [hook(old)], checkpoint_dir=str(old)) == 0
    with pytest.raises(MismatchError, match="has table 'EmbeddingVariable', and .* restores tables from .*/new, which"):
        train(2, [hook(new)], checkpoint_dir=str(old))
    assert train(1, [hook(new), hook(old)], checkpoint_dir=str(old)) == 2  # which restores it
    assert train(1, [hook(new)], checkpoint_dir=str(old)) == 3


@pytest.mark.parametrize("listening", [False, True])
def test_tensorflows_hook_removes_whole_checkpoints_of_ours(tmp_path, listening):
    """It goes on in the folder of our hook, and keeps five; but for one an hour, which it keeps for good."""
    folder = str(tmp_path)
    assert train(3, [hook(folder, 1)], checkpoint_dir=folder) == 0
    assert len(folders.complete(folder)) == 4
    with mock.patch.object(prefixes, "remove", side_effect=prefixes.remove) as remove:
        if listening:
            # Dense variables alone are restored by its Saver; tables of step 3, which it saves with them, by it.
            assert train(4, [listened(folder, 1)], checkpoint_dir=folder) == 3
        else:
            assert train(4, checkpoint_dir=folder, save_checkpoint_steps=1) == 3
    left = folders.complete(folder)
    assert all(Checkpoint(found.folder).manifest.step == found.step for found in left) and remove.called
    assert not [name for name in os.listdir(folder) if name.endswith((".gone", ".old", ".tmp"))]
    for found in left:
        assert not list(verify.faults(found.folder)), found
    assert 0 not in [found.step for found in left] and 1 not in [found.step for found in left]
    assert tf.train.checkpoint_exists(tf.train.latest_checkpoint(folder))


def start_of(tmp_path, model, step):
    """The folder of a checkpoint that has been copied, as TensorFlow's sessions find it."""
    folder = str(tmp_path / "start")
    with model.graph.as_default():
        os.rename(sok.CheckpointManager(str(tmp_path)).save(model.session, step), folder)
    links.write_state(folder, "model.ckpt-{}".format(step))
    return folder


def test_what_a_saver_saves_in_a_checkpoint_s_folder_stays(tmp_path):
    """It goes on from there. The start stays whole, and each step is what was saved."""
    model = Model(0, 1).train(1)
    folder, saver = start_of(tmp_path, model, 1), model.saver(max_to_keep=2)
    saver.recover_last_checkpoints([folder + "/model.ckpt-1"])
    for _ in range(4):
        saver.save(model.train(1).session, folder + "/model.ckpt", global_step=model.number)
    assert not os.path.exists(folder + "/model.ckpt-3.index") and not list(verify.faults(folder))
    for step in (4, 5, 1):
        saver.restore(model.session, folder + "/model.ckpt-{}".format(step))
        model.check(step)


def test_a_session_in_a_checkpoint_s_folder_goes_on_there(tmp_path):
    """Its first save is of the step that is there, and replaces that, which stays as the start of what is inside."""
    folder = start_of(tmp_path, Model(0, 1).train(1), 1)
    for begun, steps in (1, 0), (1, 7), (8, 1):
        assert train(steps, checkpoint_dir=folder, save_checkpoint_steps=1) == begun
    assert sorted(name for name in os.listdir(folder) if name.endswith(".index")) == [
        "model.ckpt-{}.index".format(step) for step in [1] + list(range(5, 10))]
    assert not list(verify.faults(folder))


def test_what_a_saver_saves_over_a_checkpoint_replaces_it(tmp_path):
    """By the name that TensorFlow's files have in its folder; whoever knows it by another one finds what was saved."""
    folder = start_of(tmp_path, Model(0, 1).train(1), 1)
    links.link_files(folder, 1, Checkpoint(folder).manifest.other_files(), folder)
    with open(folder + "/notes", "w") as file:
        file.write("mine")
    model = Model(0, 1).train(4)
    for steps in (0, 1):
        saver = model.train(steps).saver()
        assert saver.save(model.session, folder + "/model.ckpt-1") == saver.last_checkpoints[0]
    assert not list(verify.faults(folder)) and tf.train.latest_checkpoint(folder) == folder + "/model.ckpt-1"
    assert {"notes", "manifest.json"} < set(os.listdir(folder)) and not os.path.isdir(folder + "/model.ckpt-1")
    assert not [name for name in os.listdir(str(tmp_path)) + os.listdir(folder) if name.endswith((".tmp", ".gone"))]
    for path in (folder, folder + "/model.ckpt-1"):
        other = Model(0, 1)
        other.saver().restore(other.session, path)
        other.check(5)
        assert list(tf.train.NewCheckpointReader(path).get_tensor("weights")) == [5, 5]


def test_what_a_saver_of_one_table_saves_over_a_checkpoint_is_beside_it(tmp_path):
    """The one that has everything stays whole, also when the Saver does not keep its own."""
    folder = start_of(tmp_path, Model(0, 1).train(1), 1)
    model = Model(0, 1).train(4)
    saver = model.saver([model.table], max_to_keep=1)
    assert saver.save(model.session, folder + "/model.ckpt", global_step=1) == folder + "/model.ckpt-1"
    other = Model(0, 1)
    other.saver([other.table]).restore(other.session, folder + "/model.ckpt-1")
    values = other.session.run(other.values)
    model.check(4, [values[0]] + model.session.run(model.values)[1:])
    assert not values[1].any() and not list(verify.faults(folder))
    saver.save(model.session, folder + "/model.ckpt", global_step=2)
    assert not list(verify.faults(folder)) and not os.path.exists(folder + "/model.ckpt-1")
    other.saver().restore(other.session, folder + "/model.ckpt-1")
    other.check(1)


def test_a_job_goes_on_from_what_a_saver_has_saved_over_its_last_checkpoint(tmp_path):
    """A script has changed it, under the name that TensorFlow's state file has."""
    saved = str(tmp_path)
    assert train(5, [hook(saved)], checkpoint_dir=saved) == 0
    model, last = Model(0, 1), tf.train.latest_checkpoint(saved)
    saver = model.saver()
    saver.restore(model.session, last)
    saver.save(model.train(2).session, last)
    assert train(1, [hook(saved)], checkpoint_dir=saved) == 7


def test_a_run_in_a_checkpoint_s_folder_on_two_ranks(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_stock_hooks.py"), tmp_path, "inside", timeout=180)
    for rank in range(2):
        assert "rank {} did inside\n".format(rank) in finished.out, str(finished)


def test_tables_of_a_listener_do_not_begin_anew(tmp_path):
    """Its folders have tables alone, and are no checkpoints that a hook of ours restores."""
    folder = str(tmp_path)
    listener = tf.train.CheckpointSaverHook(folder, save_steps=1, listeners=[sok.CheckpointSaverListener()])
    assert train(2, [listener], checkpoint_dir=folder) == 0
    with pytest.raises(MismatchError, match="model.ckpt-2 has tables alone"):
        train(2, [hook(folder)], checkpoint_dir=folder)


@pytest.mark.parametrize("folder, make, warned", [
    ("dense", hook, True), ("saved", hook, False), (None, hook, False), ("dense", listened, True),
    ("saved", listened, False)])
def test_a_hook_that_saves_no_tables_is_told(tmp_path, folder, make, warned):
    """TensorFlow's, with the Saver of ours, to another folder than ours."""
    hooks = [make(tmp_path / "saved"), listened(tmp_path / "listened")]
    with mock.patch.object(tf.logging, "warning") as warning:
        train(1, hooks[:2 - (make is listened)], checkpoint_dir=folder and str(tmp_path / folder),
              save_checkpoint_secs=600)
    said = [call[0][0] % call[0][1:] for call in warning.call_args_list]
    assert [str(tmp_path / "dense") in one for one in said if "without tables" in one] == [True] * warned, said


def test_a_savers_whole_checkpoint_beside_a_hooks_own_is_not_taken_for_one(tmp_path):
    """As of a Saver on several ranks, under a name of its own: the hook does not restore it."""
    saved, mine = str(tmp_path / "saved"), str(tmp_path / "dir" / "mine-5")
    train(5, [hook(saved)])
    shutil.copytree(os.path.join(saved, "model.ckpt-5"), mine)
    links.link_files(mine, 5, Checkpoint(mine).manifest.other_files(), mine)
    tf.train.update_checkpoint_state(os.path.dirname(mine), mine)
    for before in (False, True):
        if before:
            shutil.copytree(os.path.join(saved, "model.ckpt-4"), str(tmp_path / "dir" / "model.ckpt-4"))
        with pytest.raises(MismatchError, match="/mine-5 has table .* which does not have it among its own: they would "
                                                "begin anew"):
            train(1, [hook(tmp_path / "dir")], checkpoint_dir=os.path.dirname(mine))
