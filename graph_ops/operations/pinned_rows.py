"""Row numbers that must be of rows which a step in flight has looked up: of others it is not known whose they are."""
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.bridge import library, pins
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import row_checks
from sok1x.graph_ops.stores.eviction import oldest_pinned
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held, TableVariables


class PinnedConfig(NamedTuple):
    """Attributes:
      table, held: the table, its rows, stamps, and what says when rows have been looked up."""

    table: Table
    held: Held


@register
class _Check(Operation):
    """Input: row numbers int32 or int64 [n]. No output."""

    name = "operations.pinned_rows.check"
    Config = PinnedConfig

    def run(self, request: Any, config: PinnedConfig, world: Any, headers: Any) -> None:
        given = request.inputs[0]
        if not given.size:
            return
        wide = row_checks.checked(request, config, world, given)
        rows, used = request.temporary("int32", wide.size), request.temporary("int64", wide.size)
        row_numbers.narrow(wide, rows)
        with request_store(request, config, world, exclusive=False) as store:
            row_numbers.look_up_int64(store.own["used"], rows, used)
            asked = used.read().reshape(-1)
            in_flight = pins.of(request, store.place_of_rows) is not None
            oldest = oldest_pinned(store, store.state().tick)
        strange = np.flatnonzero(asked < oldest) if in_flight else np.arange(given.size)
        if strange.size:
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got row {} at position {} of {} row numbers, of a gradient whose origin "
                "the graph does not show, expected rows that have been looked up in the same session.run, for later "
                "ones may have given them to other keys; nothing was changed. Apply the table's gradient in the run "
                "that computes it, or let no row leave: var_type='hbm', or neither evict_strategy nor a cache").format(
                    config.table.name, world.name, int(wide.read().reshape(-1)[strange[0]]), int(strange[0]),
                    given.size))


def check(variables: TableVariables, rows: tf.Tensor, name: str = "check_pinned") -> tf.Tensor:
    """The row numbers [n], integers; where a run gives others than those of looked up rows it is an
    InvalidArgumentError, before anybody has them."""
    held, handles = variables.resources("rows", "index", "count", "stamps", "clock", "used", "counters")
    checked = library.call("operations.pinned_rows.check", PinnedConfig(variables.table, held),
                           [tf.reshape(row_checks.as_rows(rows), [-1])], [], [], resources=handles, name=name)
    with tf.control_dependencies([checked]):
        return tf.identity(rows)
