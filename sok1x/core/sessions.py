"""Which session ops that are run at once run in."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core import eager, initialize


def session_of(label: str, graph: tf.Graph, session: Any) -> tf.Session:
    """The session to run in.

    Args:
        label: of the function, for messages, as 'sok1x.dump'.
        graph: the variables'.
        session: what the function was given: a `tf.Session`, a `MonitoredSession`, or None: the default session, or the
            one that `sok.InitHook` has seen last.

    Returns:
        A `tf.Session`.

    Raises:
        ValueError: it is of another graph.
        RuntimeError: none was found.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import sessions
        >>> with tf.Graph().as_default() as graph, tf.Session() as session:
        ...     sessions.session_of("sok1x.dump", graph, None) is session
        True
    """
    if eager.is_on() and graph is eager.graph():
        return eager.session()
    if session is not None:
        if not isinstance(session, tf.Session) and hasattr(session, "_tf_sess"):
            session = session._tf_sess()  # inside a MonitoredSession, whose hooks are not concerned
        if session.graph is not graph:
            raise ValueError("{}: session: got one of another graph than the variables'".format(label))
        return session
    default = tf.get_default_session()
    found = default if default is not None and default.graph is graph else initialize.last_session(graph)
    if found is None:
        raise RuntimeError(
            "{}: no session of the variables' graph was found: pass session=, a tf.Session, a MonitoredTrainingSession "
            "or a hook's run_context.session, or add sok1x.InitHook to the hooks of a MonitoredTrainingSession".format(
                label))
    return found
