"""Two sessions of one graph at a time: what is restored in one leaves the other alone."""
import pytest
import tensorflow.compat.v1 as tf
from hooked_sessions import hook, listened, train
from stock_model import Model

import sok1x as sok


class Keeps(tf.train.SessionRunHook):
    """A script's own, that keeps what its session has ended with."""

    def __init__(self, folder):
        self.manager = sok.CheckpointManager(folder)

    def end(self, session):
        self.manager.save(session, int(session.run(tf.train.get_global_step())))


def session_of(scaffold, folder, *hooks):
    """A session that begins with the last checkpoint."""
    return tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=folder), hooks=hooks)


@pytest.mark.parametrize("make, hooked", [(hook, True), (hook, False), (listened, False)])
def test_an_evaluation_inside_of_a_training_leaves_that_alone(make, hooked, tmp_path):
    """A session in a hook of the training's, with a hook of its own or none, whose own hook saves."""
    saved, model = str(tmp_path / "saved"), Model(0, 1, start=False)
    train(5, [make(saved)], checkpoint_dir=saved)
    with model.graph.as_default():
        scaffold, keeps, inner = tf.train.Scaffold(), Keeps(str(tmp_path / "best")), [hook(saved, 100)] * hooked
        starts = [sok.InitHook(global_batch_size=1) for _ in range(2)]
        for one in inner + starts:
            one.begin()

        class Evaluates(tf.train.SessionRunHook):
            def after_run(self, context, values):
                if context.session.run(model.number) == 8:
                    with session_of(scaffold, saved, starts[1], *inner, keeps) as evaluation:
                        assert evaluation.run(model.number) == 5

        with session_of(scaffold, saved, starts[0], make(saved, 5), Evaluates()) as session:
            for step in range(6, 13):
                session.run(model.step)
                model.check(step, session._tf_sess().run(model.values))
                assert session._tf_sess().run(model.number) == step
    other = Model(0, 1)
    with other.graph.as_default():
        assert sok.CheckpointManager(str(tmp_path / "best")).restore(other.session) == 5
    other.check(5)


def test_two_sessions_with_one_hook(tmp_path):
    """It restores in both as they begin, and then no more."""
    saved, model = str(tmp_path / "saved"), Model(0, 1, start=False)
    train(5, [hook(saved)])
    with model.graph.as_default():
        scaffold, shared = tf.train.Scaffold(), hook(saved, 4)
        starts = [sok.InitHook(global_batch_size=1) for _ in range(2)]
        first = session_of(scaffold, saved, starts[0], shared)
        for _ in range(3):
            first.run(model.step)
        second = session_of(scaffold, saved, starts[1], shared)
        for step in range(9, 15):
            first.run(model.step)
            model.check(step, first._tf_sess().run(model.values))
        model.check(5, second._tf_sess().run(model.values))
