"""Which sessions have been restored, and how far.

To a session that TensorFlow has begun with what is in no table, its hooks of ours are to restore the tables: whoever
saves before would save tables that have not begun. And of all that is restored as a session begins, by hooks of ours,
by our listener, by a manager and by a Saver of everything, the last step counts; unless the global step has been given
another value since, as that of a model that goes on from another's rows.
"""
import numbers
import weakref
from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.talk import talk
from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.stores import clock

_half: Any = weakref.WeakSet()
_steps: Any = weakref.WeakKeyDictionary()  # {session: the step that it has been restored to, all of it}


def note(session: tf.Session, step: int) -> None:
    """All of a session has been restored; the step is equal on all ranks."""
    _steps[session] = step


def note_global_step(session: tf.Session, whole: bool) -> None:
    """As `note`, of the step that the session's global step says now; all ranks call it.

    Args:
        session: one that has been restored, from one checkpoint on all ranks.
        whole: whether all that this rank has, has been; what has been noted stays where one rank's has not.
    """
    steps = [_global_step(session) if whole else None]
    world = launch.current()
    if world is not None and world.size > 1:
        with talk().about("a session has been restored"):
            steps = talk().exchange(session, steps[0])
    known = [step for step in steps if step is not None]
    if len(known) == len(steps):
        note(session, min(known))


def _global_step(session: tf.Session) -> Optional[int]:
    number = clock.global_step_of(session.graph)
    try:
        return None if number is None else int(session.run(number))
    except (tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError):  # no value, or must be fed
        return None


def begin_half(session: tf.Session) -> None:
    """A session has been given what is in no table."""
    _half.add(session)


def end_half(hooks: Sequence[Any], session: tf.Session) -> None:
    """Tables have been restored in a session, or begun anew: it is whole, unless others of its hooks are to restore.

    Hooks of a session around it, or that it shares with another, do not restore in it later.
    """
    if not _waiting(hooks, session):
        _half.discard(session)


def complete(session: Any, step: Any) -> Any:
    """Has the hooks of such a session restore what they will, each once; called by who is about to save.

    Args:
        session: with what is to be saved.
        step: that it is to be saved as, or None.

    Returns:
        The step; where it is the global step that was there before and is no more, the one that is.
    """
    hooks = _calling_hooks(session)
    if not hooks:
        return step
    number = clock.global_step_of(session.graph)
    asked = isinstance(step, numbers.Integral) and number is not None and step == session.run(number)
    return int(session.run(number)) if restore(hooks, session) and asked else step


def complete_alone(session: Any, what: str) -> None:
    """As `complete`, called by who is about to read tables and waits for no other rank.

    Args:
        session: with what is to be read.
        what: who calls, for the message.

    Raises:
        CheckpointError: there are several ranks, which restore together.
    """
    hooks = _calling_hooks(session)
    if not hooks:
        return
    if launch.current().size > 1:
        raise CheckpointError(
            "{}: the session has not restored its tables yet: its sok.CheckpointSaverHook, or TensorFlow's hook with a "
            "sok.CheckpointSaverListener, is to do so, and comes after the hook that calls. Place it before that "
            "one among the session's hooks".format(what))
    restore(hooks, session)


def _calling_hooks(session: Any) -> Sequence[Any]:
    """Where a hook calls, of such a session, the hooks beside it, if some of ours are to restore in the session."""
    if session in _half:
        for caller in callers.selves():  # TensorFlow tells a session's hooks to nobody
            hooks = getattr(caller, "_hooks", None)
            if isinstance(hooks, (list, tuple)) and _waiting(hooks, session):
                return hooks
    return ()


def restore(hooks: Sequence[Any], session: tf.Session) -> bool:
    """Has those hooks of ours that have not restored what they will look for it; the last one of all is restored.

    Args:
        hooks: of the session, ours and others.
        session: the session.

    Returns:
        Whether there was one, later than what has been restored before.
    """
    waiting = _waiting(hooks, session)
    if not waiting:  # each hook asks, and the first has had all of them restore
        return False
    found = [hook._look_in(session) for hook in waiting]
    step, last = _step_of(session), None
    for one in found:
        if one is not None and (step is None or one.step > step):
            step, last = one.step, one
    for hook, one in zip(waiting, found):
        if one is not None and one is last:
            hook._restore_in(session, one)
            note(session, one.step)
    for hook, one in zip(waiting, found):
        hook._begin_in(session, one, step)
    end_half(hooks, session)
    return last is not None


def _waiting(hooks: Sequence[Any], session: tf.Session) -> List[Any]:
    """Those of ours, and listeners of ours, that have not looked yet for what there is to restore in a session."""
    return [one for hook in hooks
            for one in [hook, *(hook._listeners if isinstance(hook, tf.train.CheckpointSaverHook) else ())]
            if hasattr(one, "_is_to_restore") and one._is_to_restore(session)]


def _step_of(session: tf.Session) -> Optional[int]:
    """The step that all of a session has been restored to, and is at, equal on all ranks; None: there is none."""
    step: Optional[int] = _steps.get(session)
    if step is None:
        return None
    number = clock.global_step_of(session.graph)
    stays = number is None or int(session.run(number)) == step
    with talk().about("a session's hooks restore"):
        return step if all(talk().exchange(session, stays)) else None
