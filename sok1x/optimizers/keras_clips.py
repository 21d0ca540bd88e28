"""What a Keras optimizer clips by itself: lifted while gradients are not averaged, and done by all ranks' norms."""
import contextlib
import threading
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from sok1x.graph_ops.bridge.tensorflow_versions import V2, NewKerasOptimizer
from sok1x.optimizers import clipping

# In the order in which Keras clips by them.
_NAMES = ("clipvalue", "clipnorm", "global_clipnorm") if V2 else ("clipnorm", "clipvalue")
_NAMES_OF_NEWER = ("clipnorm", "global_clipnorm", "clipvalue")

Pairs = List[Tuple[Any, Any]]

_lock = threading.Lock()
_off: Dict[int, Tuple[Set[object], Dict[str, Any]]] = {}  # id of an optimizer -> (steps that have them off; its limits)


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
    step = object()
    try:
        limits = _take_off(clips, step)
        names = [name for name in _NAMES if name in limits]
        if NewKerasOptimizer is not None and isinstance(clips, NewKerasOptimizer):
            # They clip by the first that is above 0, and by no other.
            names = [name for name in _NAMES_OF_NEWER if name in limits and limits[name] > 0][:1]

        def clip(pairs: Any) -> Pairs:
            for name in names:
                pairs = _CLIPS[name](pairs, limits[name])
            return list(pairs)

        yield clip
    finally:
        _put_back(clips, step)


def _take_off(clips: Any, step: object) -> Dict[str, Any]:
    """The limits of an optimizer, which has none until `_put_back`: who comes meanwhile is given the same."""
    with _lock:
        steps, limits = _off.setdefault(id(clips), (set(), {}))
        steps.add(step)
        # What is there though another has taken the limits off has been set since.
        limits.update({name: getattr(clips, name) for name in _NAMES if getattr(clips, name, None) is not None})
        for name in limits:
            if V2:
                setattr(clips, name, None)
            else:
                vars(clips).pop(name, None)
        return dict(limits)


def _put_back(clips: Any, step: object) -> None:
    """The last one gives the optimizer its limits back, but those that have been set since."""
    with _lock:
        steps, limits = _off.get(id(clips), (set(), {}))
        steps.discard(step)
        if not steps:
            _off.pop(id(clips), None)
            for name, value in limits.items():
                if getattr(clips, name, None) is None:
                    setattr(clips, name, value)
