"""Horovod in eager execution: its tape, its optimizers and its broadcasts leave shards alone.

In graphs the ops that its broadcasts are made of tell what they are (shard_variable.py). Eager tensors do not; so what
it is given is looked at before it begins. A table's gradient is whole on the rank that has the rows.
"""
import importlib
import sys
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, function_marks
from sok1x.core.frameworks import wrapping
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.gradients import provenance, shard_gradients

_MODULE = "horovod.tensorflow"


def watch() -> None:
    """From now on Horovod's functions for TensorFlow pass over shards, if they have been imported.

    Example:
        >>> from sok1x.core.eagerly import horovod_eager
        >>> horovod_eager.watch()
    """
    found = sys.modules.get(_MODULE)
    if not V2 or found is None:
        return
    functions = importlib.import_module(_MODULE + ".functions")
    wrapping.wrap(found, "allreduce", _summing)
    for module, name, around in (
            (found, "_make_allreduce_grads_fn", _reducing), (functions, "_make_broadcast_group_fn", _broadcasting),
            (functions, "_make_inplace_broadcast_group_fn", _broadcasting_lists)):
        if hasattr(module, name):
            wrapping.wrap(module, name, around)


def _of_made(around: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function that makes functions: `around` is put around what it makes."""
    def around_maker(stock: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: around(stock(*args, **kwargs))
    return around_maker


@_of_made
def _reducing(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of gradients, for the tape and the optimizers."""
    def reduce(grads: Any, variables: Any = None, *args: Any, **kwargs: Any) -> Any:
        if variables is None or not eager.is_on():
            return stock(grads, variables, *args, **kwargs)
        grads, variables = list(grads), list(variables)
        places = [i for i, variable in enumerate(variables) if not isinstance(variable, ShardVariable)]
        if places:
            reduced = stock([grads[i] for i in places], [variables[i] for i in places], *args, **kwargs)
            for i, gradient in zip(places, reduced):
                grads[i] = gradient
                _mark(gradient)
        return grads
    return reduce


def _summing(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what a script calls itself."""
    def allreduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not eager.is_on():
            return stock(tensor, *args, **kwargs)
        if provenance.ranks() > 1:
            function_marks.refuse(tensor, _refusal)
        made = stock(tensor, *args, **kwargs)
        _mark(made)
        return made
    return allreduce


def _refusal(table: str) -> ValueError:
    return ValueError((
        "embedding table '{}': got its gradient for hvd.allreduce, expected it as the tape gives it: it is summed over "
        "the ranks already, and complete on the rank that owns the rows, where another rank's row numbers mean other "
        "keys. Use sok1x.DistributedOptimizer, or hvd.DistributedGradientTape, which leave tables alone").format(table))


def _mark(gradient: Any) -> None:
    """Notes that the ranks have exchanged it."""
    values = shard_gradients.values_of(gradient)
    if isinstance(values, tf.Tensor):
        shard_gradients.mark_exchanged(values)


def _others(variables: Any) -> Any:
    return [variable for variable in variables if not isinstance(variable, ShardVariable)]


@_of_made
def _broadcasting(stock: Callable[..., Any]) -> Callable[..., Any]:
    return lambda variables, *args, **kwargs: stock(_others(variables), *args, **kwargs)


@_of_made
def _broadcasting_lists(stock: Callable[..., Any]) -> Callable[..., Any]:
    def broadcast(lists: Any, *args: Any, **kwargs: Any) -> Any:
        left = [others for others in map(_others, lists) if others]
        return stock(left, *args, **kwargs)
    return broadcast
