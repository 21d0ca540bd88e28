"""Ops on the stamps of a table's rows, see clock.py: marking rows as changed, and finding those that are."""
from typing import Any, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import row_numbers, row_use, stamps
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import cache, clock, row_checks, shown_steps
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CHANGING, OWN, STAMPS, Held, TableVariables


class MarkConfig(NamedTuple):
    """Attributes:
      table, held: the table, and its stamps and clock.
      global_step: whether the last host input is the global step."""

    table: Table
    held: Held
    global_step: bool


class TableConfig(NamedTuple):
    """Attributes:
      table, held: the table, and which of its variables are there."""

    table: Table
    held: Held


@register
class _Mark(Operation):
    """inputs: rows int32 or int64 [n], or nothing: all rows. No output."""

    name = "stores.stamps.mark"
    Config = MarkConfig

    def run(self, request: Any, config: MarkConfig, world: Any, headers: Any) -> None:
        rows = None
        if request.inputs:
            wide = row_checks.checked(request, config, world, request.inputs[0])
            rows = request.temporary("int32", wide.size)
            row_numbers.narrow(wide, rows)
        with request_store(request, config, world, exclusive=True) as store:
            clock.stamp(store, config.global_step, rows)


@register
class _MarkLoaded(Operation):
    """As `_Mark` for all rows, but outside any step: the table's clock stays. Host input: the least step, int64 []."""

    name = "stores.stamps.mark_loaded"
    Config = TableConfig

    def run(self, request: Any, config: TableConfig, world: Any, headers: Any) -> None:
        with request_store(request, config, world, exclusive=True) as store:
            store.stamp_every(clock.after_last(request, config.table.name), int(request.host_inputs[0].numpy()))


@register
class _Changed(Operation):
    """Host input: since, an integer []. Outputs: keys [n] of the table's key dtype, values [n, D] of its rows'.

    Takes 12 bytes of temporary memory for each row in use.
    """

    name = "stores.stamps.changed"
    Config = TableConfig

    def run(self, request: Any, config: TableConfig, world: Any, headers: Any) -> None:
        table = config.table
        since = int(request.host_inputs[0].numpy())
        with request_store(request, config, world, exclusive=False) as held:
            shown_steps.note(held)
            store = held.whole()
            used = store.used()
            rows, kept, number = (request.temporary("int32", used) for _ in range(3))
            stamps.changed_rows(store.stamps, since, rows)
            if "used" in store.own:
                row_use.leave_free_out(store.own["used"], rows)
            count = row_numbers.compact(rows, kept, number)
            keys = request.output(0, table.key_dtype, (count,))
            values = request.output(1, table.dtype, (count, table.dim))
            store.write_some_keys(kept, count, number, keys)
            store.read_rows(kept, count, values)


def mark(variables: TableVariables, rows: Optional[Any] = None, name: str = "mark_changed") -> tf.Operation:
    """An op that marks rows as changed in the run that runs it.

    Args:
      rows: integers of any shape; one outside the table is an InvalidArgumentError, and nothing is marked. None: all
        rows.
    """
    global_step, host_inputs = clock.step_inputs(variables.table)
    held, handles = variables.resources(*CHANGING)
    inputs = [] if rows is None else [tf.reshape(row_checks.as_rows(rows), [-1])]
    return library.call("stores.stamps.mark", MarkConfig(variables.table, held, global_step), inputs, [], [],
                        resources=handles, host_inputs=host_inputs, name=name)


def mark_loaded(variables: TableVariables, at_least: tf.Tensor, name: str = "mark_loaded") -> tf.Operation:
    """An op that marks all rows as changed one step after the table's last; it may be made before the global step.

    Args:
      at_least: the least step, int64 [], for a table that the global step has left behind: `clock.step_outside`.
    """
    held, handles = variables.resources(*CHANGING)
    return library.call("stores.stamps.mark_loaded", TableConfig(variables.table, held), [], [], [], resources=handles,
                        host_inputs=[at_least], name=name)


def changed(variables: TableVariables, since: tf.Tensor, name: str = "changed") -> Tuple[tf.Tensor, tf.Tensor]:
    """(keys [n] of the table's key dtype, values [n, D] of its rows') of those in use that changed after step `since`.

    Args:
      since: an integer scalar tensor.
    """
    table = variables.table
    held, handles = variables.resources(*OWN, *STAMPS, "used", "counters", "frequency", *cache.VARIABLES)
    keys, values = library.call("stores.stamps.changed", TableConfig(table, held), [],
                                [tf.as_dtype(table.key_dtype), tf.as_dtype(table.dtype)], [[None], [None, table.dim]],
                                resources=handles, host_inputs=[since], name=name)
    return keys, values
