"""The op that says which step of a table a time was: see step_times.py."""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import step_times
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import STAMPS, Held, TableVariables

RESTORED = -1  # for a time: see `step_at`


class StepConfig(NamedTuple):
    """Attributes:
      table, held: the table, and its stamps and clock."""

    table: Table
    held: Held


@register
class _Find(Operation):
    """Host input: a time, int64 []. Host output: int64 []. See `step_at`."""

    name = "stores.step_at.find"
    Config = StepConfig

    def run(self, request: Any, config: StepConfig, world: Any, headers: Any) -> None:
        time, table = int(request.host_inputs[0].numpy()), config.table.name
        if time == RESTORED:
            step_times.begin(request, table)
        with request_store(request, config, world, exclusive=False) as store:
            step = int(store.clock.read())
        request.host_output(0, "int64", ()).numpy()[...] = step_times.step_of(request, table, time, step)


def step_at(variables: TableVariables, time: tf.Tensor, name: str = "step_at") -> tf.Tensor:
    """int64 []: a step such that all rows that have changed since a time have changed after that step.

    Args:
      time: int64 [], microseconds since 1970; or RESTORED: all that the table has was restored just now.
    """
    held, handles = variables.resources(*STAMPS)
    return library.call("stores.step_at.find", StepConfig(variables.table, held), [], [], [], resources=handles,
                        host_inputs=[time], host_dtypes=[tf.int64], host_shapes=[[]], name=name)[0]
