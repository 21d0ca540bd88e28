"""Optimizers of `tf.contrib.opt` that cannot train a table, refused by their names."""
import sys
from typing import Any, Callable, Iterable, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import V2, contrib_optimizer_v2
from sok1x.graph_ops.gradients import provenance

_CLIPPING = "tensorflow.contrib.opt.python.training.variable_clipping_optimizer"
_SPARSE = "it has no step for the sparse gradients that lookups give"
_SERVERS = "it is for workers that share variables on parameter servers, and steps what its getter has made"

# Why not, by the class' name.
_REASONS = {
    "AddSignOptimizer": _SPARSE,
    "PowerSignOptimizer": _SPARSE,
    "GGTOptimizer": "it keeps the gradients of all variables as one vector, and has no step for sparse ones",
    "ShampooOptimizer": "it keeps matrices of all of a variable's rows by all, and a rank has some of them",
    "AGNOptimizer": _SERVERS,
    "ElasticAverageOptimizer": _SERVERS,
    "ModelAverageOptimizer": _SERVERS,
    "DropStaleGradientOptimizer": "it drops what workers of parameter servers bring late, and ranks step together",
    "MultitaskOptimizerWrapper": "it looks whether whole gradients are zeros; wrap the optimizer that it was given",
}


_WITHOUT_STEP = ("AddSignOptimizer", "PowerSignOptimizer", "GGTOptimizer", "ShampooOptimizer")


def refuse(optimizer: Any) -> None:
    """Does nothing, but for those that are known not to work.

    Args:
        optimizer: anything.

    Raises:
        TypeError: it is one of `tf.contrib.opt` that cannot train a table, or derived from one.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import unfit
        >>> unfit.refuse(tf.train.AdamOptimizer())
    """
    name = _name(optimizer)
    if name:
        raise TypeError("OptimizerWrapper: got a {} of tf.contrib.opt, which cannot train tables: {}; expected "
                        "another optimizer for them, as tf.contrib.opt.LazyAdamOptimizer".format(name, _REASONS[name]))


def refuse_tables(optimizer: Any, pairs: Iterable[Tuple[Any, Any]]) -> None:
    """Does nothing, but where a `DistributedOptimizer` is to apply a table's gradient by one that has no step for it.

    Args:
        optimizer: anything.
        pairs: (gradient or None, variable).

    Raises:
        TypeError: it is one of `tf.contrib.opt` without such a step, or derived from one.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import unfit
        >>> unfit.refuse_tables(tf.train.AdamOptimizer(), [])
    """
    name = _name(optimizer)
    if name not in _WITHOUT_STEP:
        return
    for gradient, variable in pairs:
        if gradient is not None and hasattr(variable, "table"):
            raise _refusal("DistributedOptimizer: ", name, variable.table)


def watch() -> None:
    """From now on these optimizers refuse tables themselves, where they are given them without a wrapper.

    With TensorFlow 1.15 called more than once: contrib's own base class may have been imported meanwhile.

    Example:
        >>> from sok1x.optimizers import unfit
        >>> unfit.watch()
    """
    if V2:  # there is no contrib
        return
    for kind in (tf.train.Optimizer, contrib_optimizer_v2()):
        if kind is not None:
            wrapping.wrap(kind, "apply_gradients", _refusing)
    clipping: Any = getattr(sys.modules.get(_CLIPPING), "VariableClippingOptimizer", None)
    if clipping is not None:
        wrapping.wrap(clipping, "_clip_dense", _clipping)


def _clipping(stock: Callable[..., Any]) -> Callable[..., Any]:
    """VariableClippingOptimizer's way to clip by norms of whole columns."""
    def clip_dense(self: Any, var: Any) -> Any:
        if hasattr(var, "table") and 0 in self._vars_to_clip_dims[var] and _has_a_part(var.table):
            raise TypeError(
                "got a VariableClippingOptimizer of tf.contrib.opt that clips table '{}' by norms along dimensions {}: "
                "along dimension 0 these are of all rows of the table, and a rank has some of them, beside rows of no "
                "key; expected [1], by which each row is clipped, or another variable".format(
                    var.table.name, list(self._vars_to_clip_dims[var])))
        return stock(self, var)

    return clip_dense


def _refusing(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        name = _name(self)
        if name in _WITHOUT_STEP:
            grads_and_vars = list(grads_and_vars)
            for gradient, variable in grads_and_vars:
                if gradient is not None and hasattr(variable, "table") and _cannot(name, gradient, variable.table):
                    raise _refusal("", name, variable.table)
        return stock(self, grads_and_vars, *args, **kwargs)

    return apply_gradients


def _cannot(name: str, gradient: Any, table: Any) -> bool:
    """Whether an optimizer of `_WITHOUT_STEP`, not wrapped, would fail on a gradient, or do what it does not mean."""
    if name == "ShampooOptimizer":
        return _has_a_part(table)
    return isinstance(gradient, tf.IndexedSlices) or (name == "GGTOptimizer" and table.grows)


def _has_a_part(table: Any) -> bool:
    """Whether a variable's rows are not the table's, as they are on one rank where every key has its row."""
    return bool(table.hashed or provenance.ranks() > 1)


def _refusal(who: str, name: str, table: Any) -> TypeError:
    return TypeError(
        "{}got a {} of tf.contrib.opt for table '{}', which it cannot train: {}; expected another optimizer for "
        "tables, as tf.contrib.opt.LazyAdamOptimizer or any of tf.train, and this one for the others: "
        "sok.split_embedding_variable_from_others says which are which".format(who, name, table.name, _REASONS[name]))


def _name(optimizer: Any) -> str:
    """Of the class of `_REASONS` that an optimizer is of; '' if it is of none."""
    return next((base.__name__ for base in type(optimizer).__mro__
                 if ".contrib.opt." in base.__module__ and base.__name__ in _REASONS), "")
