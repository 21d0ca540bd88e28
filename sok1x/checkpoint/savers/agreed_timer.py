"""Clocks of TensorFlow's hooks on several ranks: all ranks must find that it is time to at the same step."""
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session.schedule import Schedule
from sok1x.graph_ops.bridge import callers


class AgreedTimer:
    """In the place of the timer of a `tf.train.CheckpointSaverHook`, which asks twice: first by a step of which nobody
    knows whether it is the one before or after the run, then by the true one."""

    def __init__(self, timer: Any, talk: Any, what: str) -> None:
        self._talk, self._what = talk, what
        self._every_secs, self._every_steps = timer._every_secs, timer._every_steps
        self._schedule = Schedule(timer._every_secs, timer._every_steps, self._exchange)
        self._last: Optional[int] = timer.last_triggered_step()
        self._asked = self._started = False

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time to, as TensorFlow's."""
        if not self._asked:
            self._asked = self._schedule.may_be_due(int(step) - 1)
            return self._asked
        self._asked = False
        return self._schedule.is_due(None, int(step))

    def update_last_triggered_step(self, step: int) -> Any:
        """It was, at this step."""
        self._last, self._asked = int(step), False
        if self._started:
            self._schedule.saved(int(step))
        else:
            self._schedule.started(int(step))
            self._started = True
        return None, None

    def last_triggered_step(self) -> Optional[int]:
        """When it was last."""
        return self._last

    def reset(self) -> None:
        """As TensorFlow's."""
        self._started = False

    def _exchange(self, session: Any, value: Any) -> Any:
        with self._talk.about(self._what):
            return self._talk.exchange(session, value)


class Rank0Timer(tf.train.SecondOrStepTimer):
    """In the place of a timer by seconds that all ranks ask at the same steps: what rank 0's says counts."""

    def __init__(self, timer: Any, talk: Any, what: str) -> None:
        super().__init__(every_secs=timer._every_secs, every_steps=timer._every_steps)
        self._last_triggered_step, self._last_triggered_time = timer._last_triggered_step, timer._last_triggered_time
        self._talk, self._what = talk, what

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time to, as TensorFlow's."""
        with self._talk.about(self._what):
            return bool(self._talk.exchange(None, bool(super().should_trigger_for_step(step)))[0])


def share_clocks(hook: Any, talk: Any) -> None:
    """Gives TensorFlow's hook, or the one of ours, and its listeners clocks that all ranks share.

    Hooks save once when their session begins, on every rank, before they look at a clock: then this is called.
    """
    what = "a hook asks whether it is time to save"  # each rank may save to a path of its own
    if type(hook) is tf.train.CheckpointSaverHook and type(hook._timer) is tf.train.SecondOrStepTimer:
        hook._timer = AgreedTimer(hook._timer, talk, what)
    for listener in hook._listeners:  # that of tf.estimator.train_and_evaluate has a clock of its own
        timer = getattr(listener, "_timer", None)
        if type(timer) is tf.train.SecondOrStepTimer and timer._every_secs is not None:
            listener._timer = Rank0Timer(timer, talk, what + ", for a listener")


def calling_hook(concerns: Callable[[Any], bool]) -> Any:
    """The `tf.train.CheckpointSaverHook` that is calling and `concerns` says yes to: TensorFlow tells it to nobody.

    None where there is none.
    """
    for caller in callers.selves():
        if isinstance(caller, tf.train.CheckpointSaverHook) and concerns(caller):
            return caller
    return None
