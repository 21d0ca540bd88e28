"""Checkpoints of graphs without tables, which all ranks have alike: rank 0 writes them, and the others wait for it.

So when a session is over on any rank its last checkpoint is there; and what hooks do besides, as
`tf.estimator.train_and_evaluate` evaluates after a checkpoint, all ranks do after the same steps.
"""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.savers import agreed_timer, hooks_alike, input_positions
from sok1x.checkpoint.session.saver_hook import CheckpointSaverHook
from sok1x.checkpoint.session.talk import talk
from sok1x.core import alike

_CALLED = ("after_create_session", "after_run", "end")


class Rank0SavesHook(tf.train.SessionRunHook):
    """Sees to the `tf.train.CheckpointSaverHook`s of its session; every rank's session has one.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.deeprec.rank_0_saves import Rank0SavesHook
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.train.MonitoredSession(hooks=[Rank0SavesHook()]) as session:
        ...     session.run(tf.constant(3))
        3
    """

    def __init__(self) -> None:
        self._waits = False
        self._mine: List[Any] = []  # hooks, and the Savers that they were given

    def begin(self) -> None:
        """Called by the session before it is created, after its saving hooks' own."""
        mine = [hook for hook in hooks_alike.hooks_beside(self)
                if isinstance(hook, tf.train.CheckpointSaverHook) and not isinstance(hook, CheckpointSaverHook)]
        self._mine = [(hook, hook._saver) for hook in mine]
        self._leave()  # as a session that has failed may have left them
        with talk().about("a MonitoredTrainingSession begins"):
            told = talk().exchange(None, [_described(hook) for hook in mine])
        # Hooks that rank 0 alone has, as chief_only_hooks may be, or of another clock, or of a class of the user's,
        # cannot be followed.
        self._waits = any(one != told[0] for one in told) or None in told[0]
        for hook in mine:
            if not self._waits:
                _follow(hook)
            elif launch.current().rank:
                for method in _CALLED:
                    setattr(hook, method, _nothing)
            else:
                hook._save = _by_itself(hook._save)

    def end(self, session: tf.Session) -> None:
        """Called by the session, for the last of its hooks, when it is over.

        Args:
            session: unused.

        Example:
            >>> from sok1x.deeprec.rank_0_saves import Rank0SavesHook
            >>> Rank0SavesHook().end(None)
        """
        self._leave()
        for hook, saver in self._mine:
            hook._saver = saver  # TensorFlow would keep that of this graph
        if self._waits:
            with talk().about("a MonitoredTrainingSession ends"):
                talk().exchange(None, None)

    def _leave(self) -> None:
        """The hooks are TensorFlow's again: they may serve other sessions."""
        for hook, _ in self._mine:
            for method in ("_get_saver", "_save") + _CALLED:
                hook.__dict__.pop(method, None)


class _Rank0Saver:
    """In the place of a hook's Saver, of which the hook asks no more than this."""

    def __init__(self, hook: Any, saver: Any) -> None:
        self._hook, self._saver = hook, saver

    def save(self, *arguments: Any, **options: Any) -> None:
        """As `tf.train.Saver.save`, on rank 0. Raises CheckpointError on the others where it fails there."""
        agreed_timer.share_clocks(self._hook, talk())
        held = getattr(self._saver, "_var_list", None) or ()
        input_positions.refuse(input_positions.among(held.values() if isinstance(held, dict) else held))
        rank = launch.current().rank
        with talk().about("a hook saves a checkpoint"):
            talk().agree(None, lambda: None if rank else self._saver.save(*arguments, **options) and None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)


def _described(hook: Any) -> Any:
    """What must be equal on all ranks: how often it saves, and where. None where another method may be behind that."""
    if type(hook) is not tf.train.CheckpointSaverHook:
        return None
    timer = hook._timer
    return [getattr(timer, "_every_secs", None), getattr(timer, "_every_steps", None), hook._save_path,
            len(hook._listeners)]


def _follow(hook: Any) -> None:
    stock: Any = hook._get_saver
    hook._get_saver = lambda: _Rank0Saver(hook, stock())
    for listener in hook._listeners if launch.current().rank else ():
        evaluator: Any = getattr(listener, "_evaluator", None)  # of train_and_evaluate, whose exports rank 0 writes
        if hasattr(evaluator, "_export_eval_result"):
            evaluator._export_eval_result = _no_exports


def _by_itself(save: Any) -> Any:
    """As `save`, in which listeners may evaluate, and no other rank does."""
    def alone(*arguments: Any) -> Any:
        with alike.not_here():
            return save(*arguments)

    return alone


def _nothing(*_: Any) -> None:
    pass


def _no_exports(*_: Any, **__: Any) -> List[Any]:
    return []
