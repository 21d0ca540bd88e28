"""Early stopping of Estimators (tf.estimator.experimental's hooks) on several ranks: at rank 0's word.

Such a hook asks now and then, by its own clock, whether the metrics of `evaluate`, which rank 0 writes, have become
worse. Ranks whose clocks differ, or that read before rank 0 has written, would end apart, and the others wait for them.
"""
import sys
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.session.schedule import Schedule
from sok1x.checkpoint.session.talk import talk
from sok1x.core import alike
from sok1x.core.frameworks import wrapping

_MODULE = "tensorflow_estimator.python.estimator.early_stopping"
_WHAT = "a hook asks whether to stop early"


def watch() -> None:
    """From now on TensorFlow's hook for early stopping ends all ranks after one step, where these run its graph alike.

    Example:
        >>> from sok1x.checkpoint.savers import early_stopping
        >>> early_stopping.watch()
    """
    kind: Any = getattr(sys.modules.get(_MODULE), "_StopOnPredicateHook", None)
    if kind is not None:
        kind.after_create_session = _after_create_session
        wrapping.wrap(kind, "after_run", _after_run)


def _after_create_session(hook: Any, session: tf.Session, coord: Any) -> None:
    shared = launch.current().size > 1 and alike.is_so()
    hook._sok1x_verdict = _Verdict(hook) if shared else None


def _after_run(stock: Any) -> Any:
    def after_run(self: Any, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        verdict = getattr(self, "_sok1x_verdict", None)
        if verdict is None:
            stock(self, run_context, run_values)
        elif verdict.is_to_stop(run_context.session, int(run_values.results)):
            run_context.session.run(self._stop_op)
            run_context.request_stop()

    return after_run


class _Verdict:
    """Rank 0's, of one session; all ranks hear it after the same step, the first time after the first step."""

    def __init__(self, hook: Any) -> None:
        self._hook, self._started = hook, False
        self._schedule = Schedule(hook._timer._every_secs, hook._timer._every_steps, self._exchange)

    def is_to_stop(self, session: tf.Session, seen: int) -> bool:
        """Whether to, after a run that has shown the global step `seen`: before or after its own step, by chance."""
        if self._started and not self._schedule.may_be_due(seen):
            return False
        step = int(session.run(self._hook._global_step_tensor))
        if not self._started:
            self._schedule.started(step)
            self._started = True
        elif self._schedule.is_due(None, step):
            self._schedule.saved(step)
        else:
            return False
        return bool(self._exchange(None, talk().rank == 0 and bool(self._hook._should_stop_fn()))[0])

    def _exchange(self, session: Any, value: Any) -> Any:
        with talk().about(_WHAT):
            return talk().exchange(session, value)
