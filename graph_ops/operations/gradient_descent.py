"""Updates of a table's rows on the project's kernels."""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import update
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.groups import updates
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import clock, row_checks
from sok1x.graph_ops.stores.row_gradients import RowGradients
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CHANGING, Held, TableVariables


class DescentConfig(NamedTuple):
    """Attributes:
      table, held: the table, its rows, stamps and clock.
      from_lookup: whether the graph shows that the gradient is a lookup's as it was made.
      global_step: whether the last host input is the global step."""

    table: Table
    held: Held
    from_lookup: bool
    global_step: bool


@register
class _GradientDescent(Operation):
    """inputs: gradients float32 [n, D], rows int32 or int64 [n]; learning rate float32 []. No output.

    Host inputs: `clock.step_inputs`.
    """

    name = "operations.gradient_descent.step"
    kind = "Update"
    Config = DescentConfig
    group = updates.Updates(updates.DESCEND)

    def run(self, request: Any, config: DescentConfig, world: Any, headers: Any) -> None:
        table, rate = config.table, request.inputs[2]
        row_checks.check_scalars(table, world, ["a learning rate"], [rate])
        given = RowGradients(request, config, world)
        with request_store(request, config, world, exclusive=True) as store:
            store.apply(config.global_step, given,
                        lambda given, rows: update.descend(given.values, given.rows, rate, rows))


def gradient_descent(variables: TableVariables, gradients: Any, rows: Any, learning_rate: Any,
                     name: str = "gradient_descent") -> tf.Operation:
    """An op that does table[rows[i]] -= learning_rate * gradients[i], after it has added up those of equal rows.

    Args:
      variables: the table's. gradients: float32 [n, D]. rows: integers [n]; one outside the table is an
        InvalidArgumentError, and nothing changes.
      learning_rate: a number or a scalar tensor.
    """
    rate = tf.cast(learning_rate, tf.float32)
    global_step, host_inputs = clock.step_inputs(variables.table)
    held, handles = variables.resources("rows", *CHANGING)
    config = DescentConfig(variables.table, held, embedding.from_lookup(rows, variables.table), global_step)
    inputs = [tf.convert_to_tensor(gradients, tf.float32), row_checks.as_rows(rows), rate]
    return library.call("operations.gradient_descent.step", config, inputs, [], [], resources=handles,
                        host_inputs=host_inputs, name=name)
