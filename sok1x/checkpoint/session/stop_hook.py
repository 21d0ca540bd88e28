"""The hook that ends a session when the process is told to, for sessions whose other hooks save."""
from typing import Any, Iterable, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.talk import talk
from sok1x.checkpoint.session.told_to_end import told_to_end
from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import training_util


class StopHook(tf.train.SessionRunHook):
    """Saves after the same step on all ranks, and ends the session.

    Args:
        who: whose option it is. signals: which tell the process to end. saver: TensorFlow's hook that saves.
    """

    def __init__(self, who: str, signals: Iterable[int], saver: tf.train.CheckpointSaverHook) -> None:
        self._who, self._signals, self._saver = who, tuple(signals), saver

    def begin(self) -> None:
        """Makes what it needs in the graph."""
        told_to_end.listen(self._who, self._signals)
        talk()
        self._number = training_util._get_or_create_global_step_read()
        if self._number is None:
            raise RuntimeError("{}: save_on_sigterm: the graph has no global step; make one with "
                               "tf.train.get_or_create_global_step() and give it to the optimizer".format(self._who))

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Counting begins."""
        with talk().about("a session with save_on_sigterm begins"):
            check_alike(self._who, talk().exchange(None, self._signals))
        told_to_end.begun(int(session.run(self._number)))

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        """Asks for the global step."""
        return tf.train.SessionRunArgs(self._number)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Stops where it is time to."""
        if told_to_end.passed(int(run_values.results), lambda: int(run_context.session.run(self._number))):
            run_context.request_stop()
            save_now(self._saver, run_context.session)

    def end(self, session: tf.Session) -> None:
        """The session has ended."""
        told_to_end.over()


def save_now(saver: tf.train.CheckpointSaverHook, session: tf.Session) -> None:
    """Has a hook save at once, unless it has just done so: a program that is told to end may have little time."""
    step = int(session.run(saver._global_step_tensor))
    if step != saver._timer.last_triggered_step():
        saver._timer.update_last_triggered_step(step)
        saver._save(session, step)


def check_alike(who: str, signals: List[Any]) -> None:
    """Raises CheckpointError, on all ranks, where they do not listen to the same signals."""
    if any(list(one) != list(signals[0]) for one in signals):
        raise CheckpointError("{}: save_on_sigterm must be equal on all ranks, which stop together: {}".format(
            who, "; ".join("rank {} listens to {}".format(rank, "signals {}".format(", ".join(map(str, one)))
                                                          if one else "none") for rank, one in enumerate(signals))))


def add_to_session(who: str, signals: Iterable[int], begin: bool) -> None:
    """Adds the hook to the training session that is being made by who calls: TensorFlow tells it to nobody.

    Args:
        begin: whether the session has had its hooks' `begin` called already; else it will.
    """
    for caller in callers.selves():
        hooks: Any = getattr(caller, "_hooks", None)
        savers = [hook for hook in hooks if isinstance(hook, tf.train.CheckpointSaverHook)] if isinstance(
            hooks, list) else []
        if savers:
            if not any(isinstance(hook, StopHook) for hook in hooks):
                hook = StopHook(who, signals, savers[-1])
                if begin:
                    hook.begin()
                hooks.append(hook)
            return
