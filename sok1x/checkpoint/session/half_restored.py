"""Sessions that TensorFlow has begun with what is in no table: their hooks of ours are to restore the tables, or have.

Whoever saves before would save tables that have not begun.
"""
import weakref
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import callers

_sessions: Any = weakref.WeakSet()


def begin(session: tf.Session) -> None:
    """A session has been given what is in no table."""
    _sessions.add(session)


def complete(session: Any) -> bool:
    """Has the hooks of such a session restore what they will, each once; called by who is about to save.

    Args:
        session: with what is to be saved.

    Returns:
        Whether one has restored something now, so that the global step may be another.
    """
    if session not in _sessions:
        return False
    for caller in callers.selves():  # TensorFlow tells a session's hooks to nobody
        hooks = getattr(caller, "_hooks", None)
        ours = [hook for hook in hooks if hasattr(hook, "_is_to_restore")] if isinstance(
            hooks, (list, tuple)) else []
        if ours:
            return any([hook._restore_in(session) for hook in ours if hook._is_to_restore(session)])
    return False
