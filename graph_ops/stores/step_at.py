"""The op that says which step of a table a time was: see step_times.py."""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.stores import clock, shown_steps, step_times
from sok1x.graph_ops.stores.forgetting import KNOWN, UNKNOWN_STEP, unknown_after
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import STAMPS, Held, TableVariables

_RESTORED = -1


class StepConfig(NamedTuple):
    """Attributes:
      table, held: the table, and its stamps and clock.
      eager: whether the table is of no graph."""

    table: Table
    held: Held
    eager: bool


@register
class _Find(Operation):
    """Host input: a time, int64 []. Host output: int64 []. See `step_at`."""

    name = "stores.step_at.find"
    Config = StepConfig

    def run(self, request: Any, config: StepConfig, world: Any, headers: Any) -> None:
        time, table = int(request.host_inputs[0].numpy()), config.table.name
        if clock.TOLD < time <= _RESTORED:
            step_times.begin(request, table)
        with request_store(request, config, world, exclusive=time <= _RESTORED) as store:
            step = int(store.clock.read())
            if time == clock.TOLD:
                _note_told(store)
            elif time <= _RESTORED and "counters" in store.own:
                _note_restored(store, _RESTORED - time)
        request.host_output(0, "int64", ()).numpy()[...] = step_times.step_of(
            request, table, time, step, config.eager)


def _note_restored(store: Any, before: int) -> None:
    """Notes in a table that forgets that its rows are others, whose clock was at `before`."""
    counters = store.own["counters"]
    known = int(counters.read()[KNOWN])
    # In a new process, too: in the former one keys may have come and left after the save, at the step it was saved at.
    # A memory in the checkpoint has those that left earlier, but KNOWN cannot say that a step is unknown and not those
    # before it.
    before = shown_steps.before_restore(store, before)
    fill.fill_int64(counters.at(KNOWN), unknown_after(known, max(before, clock.last_step(store))))


def _note_told(store: Any) -> None:
    """As `_note_restored` of a table that was restored before it was told how far the global step is."""
    counters = store.own["counters"]
    known = int(counters.read()[KNOWN])
    if known >= UNKNOWN_STEP:
        fill.fill_int64(counters.at(KNOWN), unknown_after(known, clock.last_step(store)))


def time_of_restore(clock: int) -> int:
    """A time for `step_at` that says that the table was restored, whose clock was at a step before."""
    return _RESTORED - clock


def step_at(variables: TableVariables, time: tf.Tensor, name: str = "step_at") -> tf.Tensor:
    """int64 []: a step such that all rows that have changed since a time have changed after that step.

    Args:
      time: int64 [], microseconds since 1970; or a `time_of_restore`: all that the table has was restored just now; or
        `clock.TOLD`, of one that forgets.
    """
    held, handles = variables.resources(*STAMPS, "counters")
    config = StepConfig(variables.table, held, is_eager_outside())
    return library.call("stores.step_at.find", config, [], [], [], resources=handles,
                        host_inputs=[time], host_dtypes=[tf.int64], host_shapes=[[]], name=name)[0]
