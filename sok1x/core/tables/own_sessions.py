"""Sessions of the library's own, beside the program's: on the CPU alone, but with the GPUs that those see.

TensorFlow 1.15 makes devices of XLA's for a session whatever its `device_count` says, and fails where these are other
GPUs than those of the process's first session: "Invalid device ordinal value".
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import client_session

_seen = ""  # the `visible_device_list` of the program's sessions


def watch() -> None:
    """From now on it is known which GPUs the program's sessions see.

    Example:
        >>> from sok1x.core.tables import own_sessions
        >>> own_sessions.watch()
    """
    wrapping.wrap(client_session.BaseSession, "__init__", _noted)


def config(beside: Any = None, **options: Any) -> tf.ConfigProto:
    """The configuration of such a session.

    Args:
        beside: a session of the program's, where one is at hand, which may be older than `watch`.
        **options: more of a `tf.ConfigProto`.

    Returns:
        A new `tf.ConfigProto`.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import own_sessions
        >>> own_sessions.config().device_count["GPU"]
        0
    """
    found = tf.ConfigProto(device_count={"GPU": 0}, **options)
    known = getattr(beside, "_config", None)
    found.gpu_options.visible_device_list = _seen or (known.gpu_options.visible_device_list if known else "")
    return found


def _noted(stock: Callable[..., None]) -> Callable[..., None]:
    def method(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        global _seen
        stock(self, target, graph, config)
        _seen = (config.gpu_options.visible_device_list if config is not None else "") or _seen

    return method
