"""Of what is restored as a session begins, by several hooks and by its own Saver, the last step counts."""
import os
from unittest import mock

import pytest
import tensorflow.compat.v1 as tf
from hooked_sessions import hook, train
from stock_model import Model

import sok1x as sok
from sok1x.checkpoint.files import folders, links
from sok1x.checkpoint.session.restoring import Restoring


def test_of_several_hooks_one_loads_the_tables(tmp_path):
    made = [str(tmp_path / name) for name in ("early", "late", "none")]
    for folder, steps in zip(made, (2, 4)):
        train(steps, [hook(folder)])
    with mock.patch.object(Restoring, "restore_folder", autospec=True, side_effect=Restoring.restore_folder) as loads:
        assert train(1, map(hook, made)) == 4
    assert [call[0][2].folder for call in loads.call_args_list] == [made[1] + "/model.ckpt-4"]
    assert [folders.complete(folder)[0].step for folder in made] == [5, 5, 5]


@pytest.mark.parametrize("first", ["saved", "rare"])
def test_of_two_hooks_the_later_step_counts(tmp_path, first):
    def hooks():
        made = [hook(tmp_path / "saved", 2), hook(tmp_path / "rare", 100)]
        return made if first == "saved" else made[::-1]

    assert train(7, hooks(), killed=True) == 0
    assert sorted(name for name in os.listdir(str(tmp_path / "rare")) if "model" in name) == ["model.ckpt-0"]
    assert train(1, hooks(), killed=True) == 6
    assert train(1, hooks(), checkpoint_dir=str(tmp_path / "saved")) == 6
    assert sorted(name for name in os.listdir(str(tmp_path / "rare")) if "model" in name) == [
        "model.ckpt-0", "model.ckpt-7"]


def test_a_session_s_own_saver_counts_as_another_hook(tmp_path):
    rare, saved = (str(tmp_path / name) for name in ("rare", "saved"))
    options = dict(checkpoint_dir=saved, save_checkpoint_steps=1, scaffold=lambda: tf.train.Scaffold(
        saver=tf.train.Saver()))
    assert train(3, [hook(rare, 100)], killed=True, **options) == 0
    assert folders.latest(rare).step == 0
    assert train(1, [hook(rare, 100)], **options) == 3
    assert train(1, [hook(rare, 100)], **options) == 4


class Restores(tf.train.SessionRunHook):
    """A script's own, that restores when its session begins."""

    def __init__(self, saver, path):
        self.saver, self.path = saver, path

    def after_create_session(self, session, coord):
        self.saver.restore(session, self.path)


def saver_without(left_out):
    """Of all variables of the graph but those that are called so."""
    return tf.train.Saver([variable for variable in tf.global_variables() if left_out not in variable.name])


@pytest.mark.parametrize("left_out", ["nothing", "weights"])
def test_only_a_saver_of_all_has_restored_a_step(tmp_path, left_out):
    """With that, the later step counts; without, the session is no further than its hook's checkpoint."""
    path = Model(0, 1).train(3)
    path = path.saver().save(path.session, str(tmp_path / "mine"), 3)
    train(0, [hook(tmp_path / "saved")])

    def hooks():
        return [Restores(saver_without(left_out), path), hook(tmp_path / "saved")]

    assert train(1, hooks) == (3 if left_out == "nothing" else 0)


def test_a_saver_of_parts_has_restored_a_step(tmp_path):
    """Of a variable in parts it holds the whole, which the graph's list of variables has not."""
    def parts():
        return tf.get_variable("parts", [4, 2], partitioner=tf.fixed_size_partitioner(2))

    model = Model(0, 1, start=False)
    with model.graph.as_default(), tf.Session() as session:
        saver = tf.train.Saver(tf.global_variables() + [parts()])
        session.run(model.start)
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(model.step)
        path = saver.save(session, str(tmp_path / "mine"), 3)

    def hooks(begin):
        others = tf.global_variables()
        return [begin(tf.train.Saver(others + [parts()]), path), hook(tmp_path / "saved")]

    train(0, lambda: hooks(lambda *_: tf.train.SessionRunHook()))
    assert train(1, lambda: hooks(Restores)) == 3


@pytest.mark.parametrize("late", [False, True])
def test_a_manager_has_restored_a_step(late, tmp_path):
    """Its checkpoints may be called by other numbers, as by epochs. It does not hold a variable that is made later."""
    model = Model(0, 1).train(3)
    with model.graph.as_default():
        sok.CheckpointManager(str(tmp_path / "mine")).save(model.session, 1)

    def hooks(begin):
        made = begin(sok.CheckpointManager(str(tmp_path / "mine")), None)
        if late:
            tf.get_variable("late", [], initializer=tf.zeros_initializer())
        return [made, hook(tmp_path / "saved")]

    train(2, lambda: hooks(lambda *_: tf.train.SessionRunHook()))
    assert train(1, lambda: hooks(Restores)) == (2 if late else 3)


@pytest.mark.parametrize("left_out", ["nothing", "weights"])
def test_a_saver_of_a_definition_has_restored_a_step(left_out, tmp_path):
    model = Model(0, 1).train(3)
    path = model.saver().save(model.session, str(tmp_path / "mine"), 3)
    train(2, [hook(tmp_path / "saved")])

    def hooks():
        saver = tf.train.Saver(saver_def=saver_without(left_out).as_saver_def())
        return [Restores(saver, path), hook(tmp_path / "saved")]

    assert train(1, hooks) == (3 if left_out == "nothing" else 2)


def test_a_state_file_that_is_behind(tmp_path):
    """A job may die between a checkpoint's name and the state file that names it; the last one is restored."""
    rare, saved = (str(tmp_path / name) for name in ("rare", "saved"))
    hooks = [hook(rare, 100), hook(saved, 1)]
    train(3, hooks, killed=True)
    links.write_state(saved, "model.ckpt-2/model.ckpt-2")
    assert train(1, hooks, checkpoint_dir=saved) == 3


def test_a_step_that_has_been_given_anew_is_no_later_one(tmp_path):
    """Another model's rows are restored whenever the job begins, and its step is 0; then it goes on from its own."""
    other, own, begun = str(tmp_path / "other"), str(tmp_path / "own"), []
    train(5, lambda: [tf.train.CheckpointSaverHook(other, save_steps=100, saver=tf.train.Saver())])
    for _ in range(2):
        model = Model(0, 1, start=False)
        with model.graph.as_default():
            saver, first = tf.train.Saver(), model.number.assign(0)

            def start(scaffold, session, saver=saver, first=first):
                saver.restore(session, tf.train.latest_checkpoint(other))
                session.run(first)

            with tf.train.MonitoredTrainingSession(
                    hooks=[sok.InitHook(global_batch_size=1), hook(own)], scaffold=tf.train.Scaffold(init_fn=start),
                    log_step_count_steps=None) as session:
                begun.append(int(session._tf_sess().run(model.number)))
                for _ in range(3):
                    session.run(model.step)
    assert begun == [0, 3]
