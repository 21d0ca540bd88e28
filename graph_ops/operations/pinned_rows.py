"""Row numbers that must be of rows which a step in flight has looked up: of others it is not known whose they are."""
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.bridge import library, pins
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import cache, row_checks
from sok1x.graph_ops.stores.eviction import oldest_pinned
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held, TableVariables


class PinnedConfig(NamedTuple):
    """Attributes:
      table, held: the table, its rows, stamps, what says when rows have been looked up, and what a cache has."""

    table: Table
    held: Held


@register
class _Check(Operation):
    """inputs: row numbers int32 or int64 [n]; int32 [n], 0 where nothing is to become of a row, or nothing.
    Output: int64 [m], the places of those that have been looked up.
    """

    name = "operations.pinned_rows.check"
    Config = PinnedConfig

    def run(self, request: Any, config: PinnedConfig, world: Any, headers: Any) -> None:
        given = request.inputs[0]
        if not given.size:
            request.output(0, "int64", (0,))
            return
        wide = row_checks.checked(request, config, world, given)
        rows, used = request.temporary("int32", wide.size), request.temporary("int64", wide.size)
        row_numbers.narrow(wide, rows)
        with request_store(request, config, world, exclusive=config.table.cache is not None) as store:
            row_numbers.look_up_int64(store.own["used"], rows, used)
            asked = used.read().reshape(-1)
            in_flight = pins.of(request, store.place_of_rows) is not None
            oldest = oldest_pinned(store, store.state().tick)
            pinned = (asked >= oldest) & in_flight
            _expect_pinned(request, config, world, wide, pinned)
            # Whoever changes them may be TensorFlow's, and tells a cache nothing.
            store.about_to_change(rows)
        places = np.flatnonzero(pinned)
        request.output(0, "int64", (places.size,)).write(places)


def _expect_pinned(request: Any, config: PinnedConfig, world: Any, wide: Any, pinned: np.ndarray) -> None:
    """Raises where something is to become of a row that has not been looked up, by row numbers int64 [n]."""
    changes = request.inputs[1].read().reshape(-1) != 0 if len(request.inputs) > 1 else np.ones(wide.size, bool)
    strange = np.flatnonzero(~pinned & changes)
    if strange.size:
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got row {} at position {} of {} row numbers, of a gradient whose origin "
            "the graph does not show, expected rows that have been looked up in the same session.run, for later "
            "ones may have given them to other keys; nothing was changed. Apply the table's gradient in the run "
            "that computes it, or let no row leave: var_type='hbm', or neither evict_strategy nor a cache").format(
                config.table.name, world.name, int(wide.read().reshape(-1)[strange[0]]), int(strange[0]), wide.size))


@register
class _Hold(Operation):
    """inputs: row numbers int32 [n], and those that they are made of, int32 [*] each. Output: the first.

    Eagerly rows stay as long as their numbers are there (bridge/bridge_pins.h): of those that have been put together
    nobody would have these any more.
    """

    name = "operations.pinned_rows.hold"

    def run(self, request: Any, config: Any, world: Any, headers: Any) -> None:
        request.forward(0, 0)


def hold(rows: tf.Tensor, parts: List[tf.Tensor], name: str = "hold_rows") -> tf.Tensor:
    """Row numbers, int32 [n], for as long as which the rows of `parts`, int32 [*] each, stay too: eagerly."""
    return library.call("operations.pinned_rows.hold", NoConfig(), [rows] + parts, [tf.int32], [rows.shape],
                        name=name)[0]


def check(variables: TableVariables, rows: tf.Tensor, values: Optional[tf.Tensor] = None,
          name: str = "check_pinned") -> Tuple[tf.Tensor, Optional[tf.Tensor]]:
    """(rows, values): the row numbers, integers [n], and values [n, ...], of rows that the run has looked up.

    Others, whose values are zeros, are left out: TensorFlow adds such for branches that are not taken. Where a run
    gives any with other values, or there are none, it is an InvalidArgumentError before anybody has them.
    """
    held, handles = variables.resources("rows", "index", "count", "stamps", "clock", "used", "counters",
                                        *cache.VARIABLES)
    inputs = [tf.reshape(row_checks.as_rows(rows), [-1])]
    if values is not None:
        axes = list(range(1, values.shape.rank or 2))
        inputs.append(tf.cast(tf.reduce_any(tf.not_equal(values, 0), axes), tf.int32))
    places, = library.call("operations.pinned_rows.check", PinnedConfig(variables.table, held), inputs, [tf.int64],
                           [[None]], resources=handles, name=name)
    if values is None:
        with tf.control_dependencies([places]):
            return tf.identity(rows), None
    return tf.gather(rows, places), tf.gather(values, places)
