"""What a Keras optimizer clips by itself: lifted while gradients are not averaged, and done by all ranks' norms."""
import contextlib
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Tuple

from sok1x.graph_ops.bridge.tensorflow_versions import V2, NewKerasOptimizer
from sok1x.optimizers import clipping

# In the order in which Keras clips by them.
_NAMES = ("clipvalue", "clipnorm", "global_clipnorm") if V2 else ("clipnorm", "clipvalue")
_NAMES_OF_NEWER = ("clipnorm", "global_clipnorm", "clipvalue")

Pairs = List[Tuple[Any, Any]]

_lock = threading.Lock()
_off: Any = weakref.WeakKeyDictionary()  # optimizer -> [how many steps have its limits off, by threads; the limits]


def _by_global_norm(pairs: Pairs, limit: Any) -> Pairs:
    if all(gradient is None for gradient, _ in pairs):
        return pairs
    found, variables = zip(*pairs)
    return list(zip(clipping.clip_by_global_norm(found, limit, variables=variables)[0], variables))


_CLIPS = {"clipnorm": clipping.clip_by_norms, "clipvalue": clipping.clip_by_values, "global_clipnorm": _by_global_norm}


@contextlib.contextmanager
def lifted(optimizer: Any) -> Iterator[Callable[[Any], Pairs]]:
    """The optimizer does not clip inside: it would clip what is not averaged, and a table by this rank's norm.

    Args:
        optimizer: of tf.keras.optimizers.

    Yields:
        A function that clips pairs (gradient, variable) as the optimizer would on one rank.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import keras_clips
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0], use_resource=True)
        ...     optimizer = tf.keras.optimizers.SGD(0.5, clipvalue=2.0)
        ...     with keras_clips.lifted(optimizer) as clip:
        ...         clipped = clip([(tf.constant([1.0, 3.0]), weights)])[0][0]
        ...     session.run(clipped).tolist(), optimizer.clipvalue
        ([1.0, 2.0], 2.0)
    """
    clips = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer of Keras' the one that it scales
    limits = _take_off(clips)
    names = [name for name in _NAMES if name in limits]
    if NewKerasOptimizer is not None and isinstance(clips, NewKerasOptimizer):
        # They clip by the first that is above 0, and by no other.
        names = [name for name in _NAMES_OF_NEWER if name in limits and limits[name] > 0][:1]

    def clip(pairs: Any) -> Pairs:
        for name in names:
            pairs = _CLIPS[name](pairs, limits[name])
        return list(pairs)

    try:
        yield clip
    finally:
        _put_back(clips)


def _take_off(clips: Any) -> Dict[str, Any]:
    """The limits of an optimizer, which has none until `_put_back`: who comes meanwhile is given the same."""
    with _lock:
        if clips not in _off:
            limits = {name: getattr(clips, name) for name in _NAMES if getattr(clips, name, None) is not None}
            for name in limits:
                if V2:
                    setattr(clips, name, None)
                else:
                    delattr(clips, name)
            _off[clips] = [0, limits]
        _off[clips][0] += 1
        return _off[clips][1]


def _put_back(clips: Any) -> None:
    """The last one gives the optimizer its limits back."""
    with _lock:
        _off[clips][0] -= 1
        if _off[clips][0] == 0:
            for name, value in _off.pop(clips)[1].items():
                setattr(clips, name, value)
