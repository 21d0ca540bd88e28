"""Clipping by norms in eager execution: refused where the norm would be that of this rank's rows of a table.

In graphs the ops that a gradient has gone through tell (graph_ops/gradients/gradient_checks.py). Eager tensors do not;
so what clips is looked at: TensorFlow's two functions, and Keras' optimizers with clipnorm or global_clipnorm.
"""
from typing import Any, Callable, Iterable, Optional

from sok1x.core.eagerly import eager, function_marks
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.gradients import provenance

_LIMITS = ("clipnorm", "global_clipnorm")


def watch() -> None:
    """From now on these functions look whose gradients they are given.

    Example:
        >>> from sok1x.core.eagerly import eager_clipping
        >>> eager_clipping.watch()  # nothing, in TensorFlow 1.15
    """
    if not tensorflow_versions.V2:
        return
    clip_ops = tensorflow_versions.clip_ops
    # clip_by_global_norm finds it there; tf.linalg.global_norm, which clips nothing, is left as it is.
    wrapping.wrap(clip_ops, "global_norm", _checking_list)
    wrapping.wrap(clip_ops, "clip_by_norm", _checking_one)
    for module in tensorflow_versions.tensorflows_modules():
        module.clip_by_norm = clip_ops.clip_by_norm


def check_optimizer(optimizer: Any, pairs: Iterable[Any]) -> None:
    """Looks whether one of Keras' optimizers is about to clip a table's gradient by itself.

    Args:
        optimizer: of either kind.
        pairs: (gradient, variable).

    Raises:
        ValueError: it is, on several ranks, in eager execution.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.eagerly import eager_clipping
        >>> eager_clipping.check_optimizer(tf.keras.optimizers.SGD(0.1), [])
    """
    limit = next((name for name in _LIMITS if getattr(optimizer, name, None)), None)
    if limit is None or not _matters():
        return
    for gradient, variable in pairs:
        if gradient is not None and hasattr(variable, "table"):
            raise _refusal(variable.table.name, "{}={}".format(limit, getattr(optimizer, limit)))


def _matters() -> bool:
    return eager.is_on() and provenance.ranks() > 1


def _refusal(table: str, what: str) -> ValueError:
    return ValueError((
        "embedding table '{}': got a gradient scaled ({}) by a norm of this rank's rows, as tf.clip_by_global_norm, "
        "tf.clip_by_norm or Keras' clipnorm do: it is another on each rank. Use sok1x.clip_by_global_norm, whose norm "
        "is that of all ranks' rows, or sok1x.DistributedOptimizer with clip_norm=..., or around an optimizer with "
        "clipnorm").format(table, what))


def _checking_list(stock: Callable[..., Any]) -> Callable[..., Any]:
    def global_norm(t_list: Any, *args: Any, **kwargs: Any) -> Any:
        if _matters() and isinstance(t_list, (list, tuple)):
            for gradient in t_list:
                function_marks.refuse(gradient, lambda table: _refusal(table, "tf.clip_by_global_norm"))
        return stock(t_list, *args, **kwargs)

    return global_norm


def _checking_one(stock: Callable[..., Any]) -> Callable[..., Any]:
    def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: Optional[str] = None) -> Any:
        if axes is None and _matters():
            function_marks.refuse(t, lambda table: _refusal(table, "tf.clip_by_norm"))
        return stock(t, clip_norm, axes, name)

    return clip_by_norm
