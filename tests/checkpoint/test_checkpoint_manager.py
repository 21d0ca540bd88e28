"""CheckpointManager: whose session it is given, which checkpoints stay, and what is said of others' checkpoints."""
import contextlib
import os
import threading
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders
from sok1x.graph_ops.bridge.tensorflow_versions import V2


def test_a_session_of_another_graph_is_refused(tmp_path):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        manager = sok.CheckpointManager(str(tmp_path / "checkpoints"))
        assert manager.restore(session) is None
    with tf.Graph().as_default():
        table = sok.Variable([[1.0, 2.0]], name="table")
        with tf.Session() as session:
            session.run(table.initializer)
            for call in (lambda: manager.restore(session), lambda: manager.save(session, 1)):
                with pytest.raises(ValueError, match="session: got one of another graph than that in"):
                    call()
    assert not (tmp_path / "checkpoints").exists() or not list((tmp_path / "checkpoints").iterdir())


def test_a_later_checkpoint_of_a_saver_is_told(tmp_path):
    """It is not of the manager's kind, so an older one is restored: not in silence."""
    sok.init()
    folder = str(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager, saver = sok.CheckpointManager(folder), tf.train.Saver()
        session.run(tf.global_variables_initializer())
        manager.save(session, 1)
        with mock.patch.object(tf.logging, "warning") as warning:
            assert manager.restore(session) == 1
            assert not warning.called
            saver.save(session, folder + "/mine", 2)
            assert manager.restore(session, 1) == 1
            assert not warning.called
            assert manager.restore(session) == 1
        told, = [call[0][0] % call[0][1:] for call in warning.call_args_list]
        assert "restores step 1" in told and folder + "/mine-2" in told, told


def test_what_is_no_checkpoint_is_not_replaced(tmp_path):
    """A dump of that name, or what the user has called so: refused before anything is written, and stays."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=8, dim=2)
        manager = sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        sok.dump(str(tmp_path / "model.ckpt-1"), table, session=session)
        (tmp_path / "model.ckpt-2").mkdir()
        (tmp_path / "model.ckpt-2" / "notes").write_text("mine")
        (tmp_path / "model.ckpt-3").write_text("mine")
        manager.save(session, 5)
        (tmp_path / "model.ckpt-4").symlink_to("model.ckpt-5")
        (tmp_path / "model.ckpt-7").symlink_to("nowhere")
        (tmp_path / "model.ckpt-8" / "model.ckpt-8.index").mkdir(parents=True)
        (tmp_path / "model.ckpt-9").mkdir()
        (tmp_path / "model.ckpt-9" / "model.ckpt-10.index").write_text("a run's")
        for step, name in (10, "train.0-of-2.csv"), (11, "model.ckpt-11.index"), (12, "checkpoint"):
            (tmp_path / "model.ckpt-{}".format(step)).mkdir()
            (tmp_path / "model.ckpt-{}".format(step) / name).write_text("mine")
        (tmp_path / "model.ckpt-11" / "model.ckpt-11.data-00000-of-00001").write_text("a Saver's, of one rank")
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        for step in (1, 2, 3, 4, 7, 8, 9, 10, 11, 12):
            with pytest.raises(CheckpointError, match="Cannot save to .*/model.ckpt-{}: there is some".format(step)):
                manager.save(session, step)
        with pytest.raises(CheckpointError, match=r"no manifest.json .*restore\(session, '.*11/model.ckpt-11'\)"):
            manager.save(session, 11)  # it may as well be one of ours without tables
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before
        (tmp_path / "model.ckpt-5" / "manifest.json").unlink()
        (tmp_path / "model.ckpt-6").mkdir()
        for step in (5, 6):  # what is left of a checkpoint, and nothing at all
            assert manager.save(session, step) == str(tmp_path / "model.ckpt-{}".format(step))
            assert manager.restore(session) == step


REFUSED = """
import os, sys
import tensorflow.compat.v1 as tf
import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
with tf.Session() as session:
    table, number = sok.EmbeddingVariable(rows=8, dim=2), tf.train.get_or_create_global_step()
    manager = sok.CheckpointManager(sys.argv[1])
    session.run(sok.Init(global_batch_size=2))
    session.run(tf.global_variables_initializer())
    for step in (1, 2):
        try:
            manager.save(session, step)
        except sok.checkpoint.CheckpointError as error:
            assert "model.ckpt-1: there is something of that name" in str(error), error
            print("refused", step)
print(sorted(os.listdir(sys.argv[1])))
"""


def test_what_is_no_checkpoint_is_refused_on_all_ranks_alike(tmp_path):
    (tmp_path / "model.ckpt-1").write_text("mine")
    finished = run_ranks(2, REFUSED, tmp_path)
    assert finished.out.count("refused 1\n") == finished.out.count("refused") == 2, str(finished)
    assert finished.out.count("['.sok1x.lock', 'checkpoint', 'model.ckpt-1', 'model.ckpt-2']") == 2, str(finished)


def test_two_threads_that_save_the_same_step_save_one_after_the_other(tmp_path, monkeypatch):
    """Each with a graph of its own: it stays one checkpoint, of either, and neither is told of an error."""
    sok.init()
    managers, saved, rename, both = [], [], os.rename, threading.Barrier(2)
    for value in (1, 2):
        graph = tf.Graph()
        with graph.as_default():
            session = tf.Session()
            sok.Variable([[float(value)]], name="table")
            managers.append((sok.CheckpointManager(str(tmp_path)), session))
            session.run(tf.global_variables_initializer())

    def renamed(source, target):
        if source.endswith(".tmp"):
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.5)  # the other one is about to give the same name, if it can be
        rename(source, target)

    def save(manager, session):
        with session.graph.as_default(), session.as_default():
            try:
                saved.append(manager.save(session, 5))
            except CheckpointError as error:
                saved.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", renamed)
        threads = [threading.Thread(target=save, args=one) for one in managers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert saved == [str(tmp_path / "model.ckpt-5")] * 2
    assert [manager.restore(session) for manager, session in managers] == [5, 5]
    for _, session in managers:
        session.close()
    assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "checkpoint", "model.ckpt-5"]


def test_one_manager_saves_and_restores_for_two_threads(tmp_path):
    sok.init()
    with tf.Graph().as_default() as graph:
        table = sok.Variable([[1.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=None)
        init = tf.global_variables_initializer()
    sessions, errors = [tf.Session(graph=graph) for _ in range(2)], []

    def run(session, first):
        try:
            for step in range(first, first + 15):
                manager.save(session, step)
            for step in range(first, first + 15):
                assert manager.restore(session, step=step) == step
        except BaseException as error:
            errors.append(error)
            raise

    for session in sessions:
        session.run(init)
    threads = [threading.Thread(target=run, args=one) for one in zip(sessions, (0, 1000))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(int(name[11:]) for name in os.listdir(str(tmp_path)) if name.startswith("model.ckpt-")) == [
        *range(15), *range(1000, 1015)]
    for session in sessions:
        assert session.run(table).tolist() == [[1.0]]
        session.close()


@pytest.mark.parametrize("how", ["graph", "eager"])
def test_a_rank_that_was_stopped_and_asks_again_is_told_from_those_that_wait(tmp_path, how):
    if how == "eager" and not V2:
        pytest.skip("TensorFlow 1.15 works in graphs")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_stopped.py")
    finished = run_ranks(2, program, tmp_path, how)
    assert finished.out.count("ok") == 2, str(finished)


def test_what_was_just_saved_is_there_whatever_its_step(tmp_path):
    """As of a run that has gone back to an earlier step."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=2)
        session.run(tf.global_variables_initializer())
        paths = [manager.save(session, step) for step in (10, 20, 5)]
        assert [os.path.isdir(path) for path in paths] == [False, True, True]
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert [os.path.dirname(path) for path in state.all_model_checkpoint_paths] == paths[:0:-1]


def test_a_save_looks_once_at_each_checkpoint_that_is_there(tmp_path):
    """Many may be kept, on a file system that takes a millisecond a look."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=None)
        session.run(tf.global_variables_initializer())
        looks = []
        for step in range(20):
            with mock.patch.object(folders, "is_complete", side_effect=folders.is_complete) as looked:
                manager.save(session, step)
            looks.append(looked.call_count)
    assert looks[-1] - looks[9] == 10, looks


def test_a_later_step_than_what_is_saved_is_told(tmp_path):
    """`restore` takes that one, until the new ones have taken its place."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=4)
        session.run(tf.global_variables_initializer())
        with mock.patch.object(tf.logging, "warning") as warning:
            for step in (10, 20):
                manager.save(session, step)
            assert manager.restore(session, 10) == 10 and not warning.called
            for step in (11, 12):
                manager.save(session, step)
                assert manager.restore(session) == 20
        told, = [call[0][0] % call[0][1:] for call in warning.call_args_list]
        assert "step 11" in told and "step 20" in told, told
        manager.save(session, 13)
        assert manager.restore(session) == 13


@pytest.mark.parametrize("step", [np.int64(5), np.array(5), "5", 5.0, True, -1])
def test_a_step_to_restore_is_an_integer(tmp_path, step):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path))
        session.run(tf.global_variables_initializer())
        manager.save(session, np.int64(5))
        if isinstance(step, np.int64):
            assert manager.restore(session, step) == 5
        elif isinstance(step, int) and step == -1:
            with pytest.raises(CheckpointError, match="no complete checkpoint of step -1"):
                manager.restore(session, step)
        else:
            with pytest.raises(ValueError, match="CheckpointManager.restore: step: got .*, expected an integer, or"):
                manager.restore(session, step)


def test_a_checkpoints_own_folder(tmp_path):
    """As `restore(step=5)` finds it, `restore()` does."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable([[1.0, 2.0]], name="table")
        session.run(tf.global_variables_initializer())
        path = sok.CheckpointManager(str(tmp_path)).save(session, 5)
        session.run(tf.assign(table, [[3.0, 4.0]]))
        manager = sok.CheckpointManager(path)
        assert manager.restore(session) == manager.restore(session, 5) == 5
        np.testing.assert_array_equal(session.run(table), [[1.0, 2.0]])
        with mock.patch.object(tf.logging, "warning") as warning:
            for step, last in ((3, 5), (7, 7)):
                session.run(tf.assign(table, [[step, 0.0]]))
                manager.save(session, step)
                assert warning.call_count == 1 and warning.call_args[0][-1] == 5  # restore would take that one
                for wanted in (None, 3, 5):
                    assert manager.restore(session, wanted) == (last if wanted is None else wanted)
                    assert session.run(table)[0, 0] == {3: 3, 5: 1, 7: 7}[wanted or last]
        with open(path + "/manifest.json", "w") as file:
            file.write("damaged")
        manager = sok.CheckpointManager(path)
        manager.save(session, 9)
        assert manager.restore(session) == 9


def test_a_graph_needs_a_session(tmp_path):
    sok.init()
    with tf.Graph().as_default():
        sok.Variable([[1.0, 2.0]], name="table")
        manager = sok.CheckpointManager(str(tmp_path))
        for name, call in (("save", lambda: manager.save(step=3)), ("restore", manager.restore)):
            with pytest.raises(ValueError, match="{}: session: got None, expected the tf.Session".format(name)):
                call()
