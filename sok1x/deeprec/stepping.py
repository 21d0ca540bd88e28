"""Optimizers of tf.train as they are on tables: what `sok.OptimizerWrapper` sees to otherwise."""
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import wrapping
from sok1x.optimizers.distinct_rows import KnowsDistinctRows
from sok1x.optimizers.own_state import OwnState
from sok1x.optimizers.slots_of_tables import SlotsOfTables


class _OnTables(SlotsOfTables, KnowsDistinctRows):
    """Mixed into the class of an optimizer that is given a table's gradient."""


_classes: Dict[type, type] = {}


def take(optimizer: Any, variables: Any) -> None:
    """Has an optimizer of tf.train step on tables, if there is one among the variables.

    Args:
        optimizer: it remains what it is: its class gets a subclass of the same name.
        variables: of the gradients that it is about to apply.
    """
    base = type(optimizer)
    if issubclass(base, (_OnTables, OwnState)) or not any(isinstance(each, EmbeddingVariable) for each in variables):
        return
    if base not in _classes:
        _classes[base] = type(base.__name__, (_OnTables, base), {
            "__module__": base.__module__, "__doc__": base.__doc__})
    optimizer.__class__ = _classes[base]


def watch() -> None:
    """From now on tf.train's optimizers take what is said here."""
    wrapping.wrap(tf.train.Optimizer, "apply_gradients", _taking)


def _taking(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        take(self, [variable for gradient, variable in pairs if gradient is not None])
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients
