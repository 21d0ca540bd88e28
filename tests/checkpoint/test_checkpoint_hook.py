"""The hook, the listener and the manager in one process; and checkpoints by the clock on two ranks."""
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, NotFoundError
from sok1x.checkpoint.files import folders
from sok1x.checkpoint.session import schedule

HERE = os.path.dirname(os.path.abspath(__file__))


class Run:
    """A model of its own graph, trained in a MonitoredTrainingSession with the hooks that are given."""

    def __init__(self, *hooks, last_step=3, use_hashtable=True, **session):
        with tf.Graph().as_default():
            layer = sok.All2AllDenseEmbedding(64, 4, 1, 2, use_hashtable=use_hashtable)
            keys = tf.placeholder(tf.int64, [None, 1, 2])
            weights = tf.get_variable("weights", [4], initializer=tf.ones_initializer())
            number = tf.train.get_or_create_global_step()
            loss = tf.reduce_sum(tf.square(layer(keys) * weights))
            step = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=number)
            variables = tf.global_variables()
            hooks = [sok.InitHook(global_batch_size=2), tf.train.StopAtStepHook(last_step=last_step)] + list(hooks)
            session = dict(dict(log_step_count_steps=None, save_summaries_steps=None), **session)
            self.steps, self.values = [], {}
            with tf.train.MonitoredTrainingSession(hooks=hooks, **session) as run:
                while not run.should_stop():
                    self.steps.append(int(run.run_step_fn(lambda step_context: step_context.session.run(number))))
                    run.run(step, {keys: [[[self.steps[-1], 50]], [[7, 7]]]})
                    self.values = run.run_step_fn(lambda step_context: {
                        variable.name: value for variable, value in zip(
                            variables, step_context.session.run(variables))})


def saved_steps(folder):
    return [found.step for found in folders.complete(str(folder))]


def same(one, two):
    assert set(one) == set(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


@pytest.mark.parametrize("use_hashtable", [True, False])
def test_resumes_and_prunes(tmp_path, use_hashtable):
    options = dict(use_hashtable=use_hashtable)
    straight = Run(last_step=9, **options)
    assert Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=5, **options).steps == list(range(5))
    assert saved_steps(tmp_path) == [5, 4, 2, 0]
    run = Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2, keep_checkpoint_max=2), last_step=9, **options)
    assert run.steps == [5, 6, 7, 8] and saved_steps(tmp_path) == [9, 7]
    same(run.values, straight.values)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [os.path.basename(path) for path in state.all_model_checkpoint_paths] == ["model.ckpt-7", "model.ckpt-9"]
    assert dict(tf.train.list_variables(tf.train.latest_checkpoint(str(tmp_path))))["weights"] == [4]


def test_tensorflows_own_hook_beside(tmp_path):
    """As MonitoredTrainingSession adds it by itself: it saves the dense variables alone, and nothing depends on it."""
    first = Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=4, checkpoint_dir=str(tmp_path))
    assert (tmp_path / "model.ckpt-4.index").exists() and saved_steps(tmp_path) == [4, 2, 0]
    second = Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=6, checkpoint_dir=str(tmp_path))
    assert first.steps + second.steps == list(range(6))
    same(second.values, Run(last_step=6).values)


def test_the_last_complete_checkpoint_counts(tmp_path):
    """Not what TensorFlow's state file says, which a job that died may not have written."""
    Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=4)
    tf.train.update_checkpoint_state(str(tmp_path), str(tmp_path / "model.ckpt-2" / "model.ckpt-2"))
    again = Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=5, checkpoint_dir=str(tmp_path),
                save_checkpoint_secs=None)
    assert again.steps == [4]
    (tmp_path / "checkpoint").unlink()
    assert Run(sok.CheckpointSaverHook(str(tmp_path), save_steps=2), last_step=6).steps == [5]


class Listener(tf.train.CheckpointSaverListener):
    def __init__(self, stop_after=99):
        self.calls, self.stop_after = [], stop_after

    def begin(self):
        self.calls.append("begin")

    def before_save(self, session, global_step_value):
        self.calls.append(("before", int(global_step_value)))

    def after_save(self, session, global_step_value):
        self.calls.append(("after", int(global_step_value)))
        return global_step_value >= self.stop_after

    def end(self, session, global_step_value):
        self.calls.append(("end", int(global_step_value)))


def test_listeners_are_called_as_by_tensorflow(tmp_path):
    calls = []
    for make in (sok.CheckpointSaverHook, tf.train.CheckpointSaverHook):
        listener = Listener(stop_after=4)
        folder = str(tmp_path / str(len(calls)))
        Run(make(folder, save_steps=2, listeners=[listener]), last_step=9)
        calls.append(listener.calls)
    assert calls[0] == calls[1] and calls[0][-1] == ("end", 4)


@pytest.mark.parametrize("given", [True, False], ids=["folder given", "folder of the hook"])
def test_listener_of_ours(given, tmp_path):
    def hook():
        listener = sok.CheckpointSaverListener(str(tmp_path) if given else None)
        return tf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[listener])
    options = dict(checkpoint_dir=str(tmp_path), save_checkpoint_secs=None)
    assert Run(hook(), last_step=5, **options).steps == list(range(5))
    run = Run(hook(), last_step=8, **options)
    assert run.steps == [5, 6, 7]
    same(run.values, Run(last_step=8).values)
    # Tables that are not there are no tables that begin anew.
    os.rename(str(tmp_path / "model.ckpt-8"), str(tmp_path / "elsewhere"))
    with pytest.raises(NotFoundError, match="of step 8"):
        Run(hook(), last_step=9, **options)


def test_listener_without_a_hook():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="give checkpoint_dir"):
        sok.CheckpointSaverListener().begin()


def test_manager(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        layer = sok.DistributedEmbedding("sum", 16, 4, 1, 2, embedding_initializer=tf.keras.initializers.Ones())
        keys = tf.SparseTensor([[0, 0]], tf.constant([5], tf.int64), [1, 2])
        step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(layer(keys)))
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=None)
        variables = tf.global_variables()
        session.run(sok.Init(global_batch_size=1))
        assert manager.restore(session) is None
        session.run(tf.global_variables_initializer())
        expected = {}
        for number in range(7):
            expected[number] = session.run(variables)
            path = manager.save(session, number)
            assert path == str(tmp_path / "model.ckpt-{}".format(number))
            session.run(step)
        for number in (3, 6, 0):
            assert manager.restore(session, number) == number
            for variable, value, wanted in zip(variables, session.run(variables), expected[number]):
                np.testing.assert_array_equal(value, wanted, err_msg=variable.name)
        with pytest.raises(CheckpointError, match="of step 9"):
            manager.restore(session, 9)
        with pytest.raises(ValueError, match="got -1"):
            manager.save(session, -1)
        # A session that has initialized nothing.
        with tf.Session() as other:
            other.run(sok.Init(global_batch_size=1))
            assert manager.restore(other) == 6
            np.testing.assert_array_equal(other.run(layer.embedding_variable), expected[6][0])


@pytest.mark.parametrize("arguments, words", [
    (dict(), "save_secs=None and save_steps=None, expected one"), (dict(save_secs=1, save_steps=1), "expected one"),
    (dict(save_steps=0), "above 0"), (dict(save_steps="5"), "save_steps='5', expected"),
    (dict(save_secs=-1), "above 0"), (dict(save_steps=True), "save_steps=True, expected"),
    (dict(save_steps=2.5), "save_steps: got 2.5, expected a positive integer"),
    (dict(save_steps=1, keep_checkpoint_max=-1), "keep_checkpoint_max: got -1"),
    (dict(save_steps=1, keep_checkpoint_max="2"), "keep_checkpoint_max: got '2', expected 0 or more"),
    (dict(save_steps=1, keep_checkpoint_max=1.5), "keep_checkpoint_max: got 1.5")])
def test_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        sok.CheckpointSaverHook("folder", **arguments)


def test_whole_numbers_of_a_floating_type_count(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=8, dim=4)
        manager = sok.CheckpointManager(str(tmp_path), keep_checkpoint_max=2.0)
        session.run(sok.Init(global_batch_size=1))
        session.run(table.initializer)
        for step in range(4):
            manager.save(session, step)
    assert sorted(name for name in os.listdir(str(tmp_path)) if name.startswith("model")) == [
        "model.ckpt-2", "model.ckpt-3"]
    sok.CheckpointSaverHook(str(tmp_path), save_steps=1e4)
    sok.CheckpointSaverHook(str(tmp_path), save_steps=float("inf"))  # at the beginning and the end alone


@pytest.mark.parametrize("folder", [None, 5, ""])
def test_a_folder_that_is_none(folder):
    for make in (lambda: sok.CheckpointSaverHook(folder, save_steps=1), lambda: sok.CheckpointManager(folder)):
        with pytest.raises(TypeError, match="checkpoint_dir: got {!r}, expected a folder's path".format(folder)):
            make()


def test_a_folder_of_tensorflows_own_checkpoints_is_warned_about(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(tf.logging, "warning", lambda text, *values: said.append(text % values))
    with tf.Graph().as_default(), tf.Session() as session:
        layer = sok.All2AllDenseEmbedding(8, 2, 1, 1)
        manager, saver = sok.CheckpointManager(str(tmp_path)), tf.train.Saver()
        session.run(sok.Init(global_batch_size=1))
        session.run(layer.embedding_variable.initializer)
        session.run(tf.global_variables_initializer())
        assert manager.restore(session) is None and not said
        saver.save(session, str(tmp_path / "model"), 3)
        assert manager.restore(session) is None
        assert ["{}, which a tf.train.Saver has saved".format(tmp_path / "model-3") in one for one in said] == [True]
        manager.save(session, 4)
        assert manager.restore(session) == 4 and len(said) == 1


def test_needs_a_global_step(tmp_path):
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="no global step"):
        sok.CheckpointSaverHook(str(tmp_path), save_steps=1).begin()


def test_seconds_are_rank_0s(monkeypatch, seed):
    """Ranks that see the global step before or after its steps, and clocks that differ: they talk and save alike."""
    random = np.random.RandomState(seed)
    now = [100.0]
    monkeypatch.setattr(schedule.time, "monotonic", lambda: now[0])
    words, log = [], ([], [])

    def exchange(rank):
        def call(session, value):
            if rank == 0:
                words.append(value)
            log[rank].append("talk")
            return [words[-1]]
        return call

    ranks = [schedule.Schedule(5.0, None, exchange(rank)) for rank in range(2)]
    for rank in ranks:
        rank.started(0)
    step = 0
    for _ in range(300):
        before, step = step, step + random.choice([1, 1, 3])
        now[0] += random.uniform(0.01, 0.2)
        for number, rank in enumerate(ranks):
            if rank.may_be_due(random.choice([before, step])) and rank.is_due(None, step):
                log[number].append(step)
                rank.saved(step)
    assert log[0] == log[1]
    saves = [entry for entry in log[0] if entry != "talk"]
    assert len(saves) >= 3, "30 s have passed"
    assert len(log[0]) < 150, "they talk about once a second"


def test_seconds_on_two_ranks(tmp_path):
    out = run_ranks(2, os.path.join(HERE, "program_seconds.py"), tmp_path).out
    runs, = {int(count) for count in re.findall(r"rank \d: (\d+) runs", out)}
    steps = saved_steps(tmp_path)
    assert len(steps) >= 3 and steps[0] == 2 * runs, (steps, runs)
