"""Optimizers of `tf.contrib.opt` that cannot train a table, refused by their names."""
from typing import Any

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
    for base in type(optimizer).__mro__:
        if ".contrib.opt." in base.__module__ and base.__name__ in _REASONS:
            raise TypeError("OptimizerWrapper: got a {} of tf.contrib.opt, which cannot train tables: {}; expected "
                            "another optimizer for them, as tf.contrib.opt.LazyAdamOptimizer".format(
                                base.__name__, _REASONS[base.__name__]))
