"""The distinct rows of a lookup, which its gradient is made of; found, and stamped, apart from both.

Only the gradient needs to know which rows are distinct. An op of its own finds that out beside whatever TensorFlow
computes between lookup and gradient; where nobody asks for a gradient, it does not run.
"""
from typing import Any, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.groups.distinct_rows import Distinct
from sok1x.graph_ops.stores import clock, figures, known_distinct
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CHANGING, Held


class DistinctConfig(NamedTuple):
    """Attributes:
      table, held: the table, and its stamps and clock.
      rows_known: whether every key that is looked up has a row, so that the rows are the gradient's as they are.
      global_step: whether the last host input is the global step."""

    table: Table
    held: Held
    rows_known: bool
    global_step: bool


class Rows(NamedTuple):
    """Inputs and outputs: what a lookup has left, and the same as its gradient needs it (exchanges/lookup.py).

    On one rank `inverse` comes as each position's row, int32 [K], the others empty; it goes as which of the distinct
    rows each position has, and `rows` as these, int32 [u]. On several ranks `requested` may come as the row of each key
    that was received, int32 [R], with nothing in `rows`: likewise.
    """

    inverse: Any
    rows: Any
    requested: Any


PLACES = Rows(0, 1, 2)


@register
class _Find(Operation):
    """inputs, outputs: `Rows`. The resources are `CHANGING`, as far as the table has them.

    Host inputs: `clock.step_inputs`.
    """

    name = "operations.distinct_rows.find"
    kind = "Distinct"
    Config = DistinctConfig
    group = Distinct()

    def run(self, request: Any, config: DistinctConfig, world: Any, headers: Any) -> None:
        given = Rows(*request.inputs)
        one_by_one = PLACES.inverse if world.size == 1 else PLACES.requested
        for place in {PLACES.inverse, PLACES.requested} - {one_by_one}:
            request.forward(place, place)
        at = given[one_by_one]
        if world.size > 1 and (given.rows.size or not at.size):
            request.forward(one_by_one, one_by_one)
            request.forward(PLACES.rows, PLACES.rows)
            rows = given.rows
        else:
            numbers = request.output(one_by_one, "int32", (at.size,))
            distinct, count = make_distinct(request, at, numbers)
            rows = request.output(PLACES.rows, "int32", (count,))
            row_numbers.narrow(distinct, rows)
            if world.size == 1:
                figures.batch(config.table.name, at.size, count)
        if config.rows_known:
            known_distinct.note(request, config.table, rows)
        with request_store(request, config, world, exclusive=True) as store:
            clock.stamp(store, config.global_step, rows, tells=True)


def find(op: tf.Operation, config: Any, given: Rows) -> Rows:
    """What the gradient of lookup `op` needs, from what it has left.

    Args:
      config: the lookup's, with `table`, `held` and `rows_known`.
    """
    global_step, host_inputs = clock.step_inputs(config.table)
    resources = list(op.inputs[:op.get_attr("Nr")])
    held = Held(tuple(name for name in CHANGING if name in config.held.names))
    made = library.call("operations.distinct_rows.find",
                        DistinctConfig(config.table, held, config.rows_known, global_step),
                        list(given), [tf.int32] * 3, [[None]] * 3, resources=config.held.pick(resources, *held.names),
                        host_inputs=host_inputs, name="lookup_distinct")
    # What backward itself works with may not be fed: its sums would go beside their memory.
    keep_from_feeds(list(op.outputs[1:]) + made)
    return Rows(*made)


def keep_from_feeds(tensors: Sequence[tf.Tensor]) -> None:
    """Makes it an error to feed tensors: what one of our ops leaves for another."""
    for tensor in tensors:
        if not hasattr(tensor, "numpy"):  # of a tape that an eager call has filled, and whose gradient a function takes
            tensor.graph.prevent_feeding(tensor)


def outputs_of(functions: Sequence[str]) -> List[Any]:
    """(function, output) of what holds distinct rows: of this op, and of the backward ops of these names."""
    return [("operations.distinct_rows.find", PLACES.rows)] + [(function, 1) for function in functions]
