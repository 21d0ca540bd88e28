"""Which session ops that are run at once run in."""
import functools
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core import initialize
from sok1x.core.eagerly import eager


def in_its_graph(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method in whose course the graph of the session that it is given is the default one.

    It may be called from outside of the graph, where TensorFlow 2 executes eagerly.

    Args:
        method: takes self, a `tf.Session`, and whatever else.

    Returns:
        The method. Raises TypeError where it is given no session.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import sessions
        >>> with tf.Graph().as_default() as graph:
        ...     session = tf.Session()
        >>> sessions.in_its_graph(lambda self, sess: tf.get_default_graph() is graph)(None, session)
        True
    """
    @functools.wraps(method)
    def inside(self: Any, sess: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(sess, "graph"):
            raise TypeError("'sess' must be a Session; {}".format(sess))
        with sess.graph.as_default():
            return method(self, sess, *args, **kwargs)

    return inside


def raw(session: Any) -> Any:
    """The `tf.Session` inside a `MonitoredSession`, whose hooks are not concerned; any other session as it is.

    Args:
        session: some session.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import sessions
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     sessions.raw(session) is session
        True
    """
    return session._tf_sess() if not isinstance(session, tf.Session) and hasattr(session, "_tf_sess") else session


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
        TypeError: it is no session. ValueError: it is of another graph.
        RuntimeError: none was found, or this is the body of a `tf.function`.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import sessions
        >>> with tf.Graph().as_default() as graph, tf.Session() as session:
        ...     sessions.session_of("sok1x.dump", graph, None) is session
        True
    """
    if eager.is_on() and graph is eager.graph():
        eager.refuse_in_function(label)
        return eager.session()
    if session is not None:
        session = raw(session)
        if not hasattr(session, "graph"):
            raise TypeError("{}: session: got {!r} of type {}, expected a tf.Session".format(
                label, session, type(session).__name__))
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
