"""Rows of some keys overwritten: each rank takes those of its own keys out of what all are given."""
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import scatter
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import clock, key_types
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.store import check_keys, request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CONTENT, Held, TableVariables


class AssignConfig(NamedTuple):
    """Attributes:
      table, held: the table, and all of its variables.
      label: what must be equal on all ranks.
      global_step: whether the last host input is the global step."""

    table: Table
    held: Held
    label: str
    global_step: bool


class _Assign(Operation):
    """inputs: keys int64 [n], values [n, D] of the rows' dtype. Host inputs: `clock.step_inputs`. No output."""

    Config = AssignConfig

    def prepare(self, request: Any, config: AssignConfig, world: Any) -> np.ndarray:
        _check(request, config.table, world)
        return np.empty(0, np.int64)

    def run(self, request: Any, config: AssignConfig, world: Any, headers: Any) -> None:
        table, (keys, values) = config.table, request.inputs
        if headers is None:
            _check(request, table, world)
        with request_store(request, config, world, exclusive=True) as store:
            rows = request.temporary("int32", keys.size)
            rows.write(_rows(store, keys.read()))
            # Rows are copied by four bytes, whatever these mean.
            scatter.scatter(values.words(), rows, store.rows.words())
            clock.stamp(store, config.global_step, rows)


@register
class _AssignHere(_Assign):
    """Of a table without index: no other rank is needed."""

    name = "operations.assign_rows.assign"


@register
class _AssignTogether(_Assign):
    """Of a table with one: new keys are inserted, on all ranks or, where a shard is full, on none."""

    name = "operations.assign_rows.insert"
    communicates = True


def _check(request: Any, table: Table, world: Any) -> None:
    keys, values = request.inputs
    if len(keys.shape) != 1 or values.shape != (keys.size, table.dim):
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got keys of shape {} and values of shape {} to assign, expected [n] and "
            "[n, {}]; nothing was changed").format(
                table.name, world.name, list(keys.shape), list(values.shape), table.dim))
    check_keys(request, table, world, keys, keys.size, "position {} of the keys to assign".format)
    key_types.check(request, table, world, keys, "position {} of the keys to assign".format)


def _rows(store: Store, keys: np.ndarray) -> np.ndarray:
    """int32 [n]: the row of each key; -1 for those of other ranks."""
    table, world = store.table, store.world
    mine = np.flatnonzero(table.placement.owners(keys, world.size) == world.rank)
    rows = np.full(len(keys), -1, np.int32)
    if not table.hashed:
        rows[mine] = table.placement.rows(keys[mine], world.size)
        return rows
    _, first, inverse = np.unique(keys[mine], return_index=True, return_inverse=True)
    order = first.argsort()  # rows are given out in the order of first appearance
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    distinct = store.request.temporary("int64", len(first))
    distinct.write(keys[mine][first[order]])
    found = store.insert(distinct, distinct.size, store.request.temporary("int32", distinct.size))
    rows[mine] = found.rows.read()[place[inverse]]
    return rows


def assign(variables: TableVariables, keys: tf.Tensor, values: tf.Tensor, name: str = "assign_rows") -> tf.Operation:
    """An op that overwrites the rows of this rank's keys; of equal keys the last counts.

    Args:
      variables: the table's `TableVariables`. keys: int64 [n]. values: [n, D], of the rows' dtype.
    """
    table = variables.table
    global_step, host_inputs = clock.step_inputs(table)
    held, handles = variables.resources(*CONTENT)
    function = "operations.assign_rows." + ("insert" if table.hashed else "assign")
    return library.call(function, AssignConfig(table, held, table.label() + " assigned", global_step), [keys, values],
                        [], [], resources=handles, host_inputs=host_inputs, name=name)
