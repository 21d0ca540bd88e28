"""Keras' counts of parameters, as in `model.summary()`, where tables grow, whose rows have no number in a graph.

A table counts with the rows that it begins with (`init_capacity`); how many it has now `sok.table_stats` says.
"""
from typing import Any, Callable, Iterable

from sok1x.core.frameworks import wrapping
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import keras_base_layer as base_layer
from sok1x.graph_ops.bridge.tensorflow_versions import keras_layer_utils as layer_utils


def watch() -> None:
    """Has Keras count tables that grow, from now on.

    Example:
        >>> from sok1x.core.tables import parameter_counts
        >>> parameter_counts.watch()
    """
    wrapping.wrap(layer_utils, "count_params", _of_weights)
    wrapping.wrap(base_layer.Layer, "count_params", _of_layer)


def _of_weights(stock: Callable[..., Any]) -> Callable[..., Any]:
    def count_params(weights: Iterable[Any]) -> int:
        every = list({id(weight): weight for weight in weights}.values())
        growing = [weight for weight in every if isinstance(weight, ShardVariable) and None in weight.shape.as_list()]
        fixed = [weight for weight in every if not any(weight is other for other in growing)]
        return int(stock(fixed)) + sum(_begins_with(weight) for weight in growing)
    return count_params


def _of_layer(stock: Callable[..., Any]) -> Callable[..., Any]:
    def count_params(self: Any) -> int:
        if not any(isinstance(weight, ShardVariable) for weight in self.weights):
            return int(stock(self))
        return int(layer_utils.count_params(self.weights))
    return count_params


def _begins_with(weight: Any) -> int:
    """Numbers in a table's rows, or in what lies beside them, at the start."""
    return int(weight.table.rows * (weight.shape[1:].num_elements() or 1)) if hasattr(weight, "table") else 0
