"""A slot of a table that grows, assigned as a whole: as many rows as the value has.

An optimizer that computes with whole slots reads, computes and assigns; TensorFlow's own assignment would make the slot
short again where the table has got more rows between. In one step nothing comes between (growing_steps.py); of steps
in several threads one may.
"""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import dense
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.known_slots import Slot
from sok1x.graph_ops.stores.table import Table


class SlotConfig(NamedTuple):
    """Attributes:
      table: the table whose slot it is. slot: what is known of it."""

    table: Table
    slot: Slot


@register
class _Assign(Operation):
    """The resource is the slot. Input: [n, ...], n at most V, for its first rows. No output."""

    name = "stores.slot_values.assign"
    Config = SlotConfig

    def run(self, request: Any, config: SlotConfig, world: Any, headers: Any) -> None:
        value = request.inputs[0]
        with request.variables(config.table.name, exclusive=True) as (slot,):
            if value.dtype != slot.dtype or len(value.shape) != len(slot.shape) or value.shape[1:] != slot.shape[1:] \
                    or value.shape[0] > slot.shape[0]:
                raise CallError(INVALID_ARGUMENT, (
                    "embedding table '{}' on {}: got {} {} to assign to slot '{}', expected {} {}; nothing was "
                    "changed").format(config.table.name, world.name, value.dtype, list(value.shape), config.slot.name,
                                      slot.dtype, list(slot.shape)))
            dense.copy(value, slot.front(value.shape[0]))


def assign(table: Table, slot: Slot, handle: tf.Tensor, value: tf.Tensor, name: str = "assign_slot") -> tf.Operation:
    """An op that overwrites the first rows of a slot, as many as value [n, ...] has."""
    return library.call("stores.slot_values.assign", SlotConfig(table, slot), [value], [], [], resources=[handle],
                        name=name)
