"""Updates of a table's rows on the project's kernels."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import update
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import row_checks, row_gradients, stamps


@register
class _GradientDescent(Operation):
    """inputs: gradients float32 [n, D], rows int32 or int64 [n]; learning rate float32 []. No output.

    The resources are the rows, then the table's stamps and clock. Host inputs: `stamps.step_inputs`.
    """

    name = "operations.gradient_descent.step"

    def run(self, request, config, world, headers):
        table, rate = config["table"], request.inputs[2]
        row_checks.check_scalars(table, world, ["a learning rate"], [rate])
        given = row_gradients.RowGradients(request, table, world, config["from_lookup"])
        with request.variables(table.name, exclusive=True) as variables:
            row_checks.check_variables(table, world, variables[:1])
            update.descend(given.values.pointer, table.dim, given.rows.pointer, given.rows.size, rate.pointer,
                           table.rows, variables[0].pointer)
            if not given.from_lookup:
                stamps.stamp(request, config, variables, given.rows)


def gradient_descent(table, gradients, rows, learning_rate, name="gradient_descent"):
    """An op that does table[rows[i]] -= learning_rate * gradients[i], after it has added up those of equal rows.

    Args:
      table: a `Table` with handles. gradients: float32 [n, D]. rows: integers [n]; one outside the table is an
        InvalidArgumentError, and nothing changes.
      learning_rate: a number or a scalar tensor.
    """
    rate = tf.cast(learning_rate, tf.float32)
    config, host_inputs = stamps.step_inputs()
    config.update(table=table.config(), from_lookup=embedding.from_lookup(rows, table))
    inputs = [tf.convert_to_tensor(gradients, tf.float32), row_checks.as_rows(rows), rate]
    return library.call("operations.gradient_descent.step", config, inputs, [], [],
                        resources=table.handles[:1] + table.stamp_handles, host_inputs=host_inputs, name=name)
