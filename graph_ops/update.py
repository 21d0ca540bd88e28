"""Updates of a table's rows on the project's kernels."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import update
from sok1x.graph_ops import library
from sok1x.graph_ops.registry import Operation, register


@register
class _GradientDescent(Operation):
    """inputs: gradients float32 [u, D], rows int32 [u], distinct; learning rate float32 []. No output."""

    name = "update.gradient_descent"

    def run(self, request, config, world, headers):
        table = config["table"]
        gradients, rows, rate = request.inputs
        with request.variables(table.name, exclusive=True) as variables:
            update.descend(gradients.pointer, table.dim, rows.pointer, rows.size, rate.pointer,
                           variables[0].pointer)


def gradient_descent(table, gradients, rows, learning_rate, name="gradient_descent"):
    """An op that does table[rows[i]] -= learning_rate * gradients[i], for a lookup's gradient, which stamps its rows.

    Args:
      table: a `Table` with handles. gradients: float32 [u, D]. rows: int32 [u], distinct.
      learning_rate: a number or a scalar tensor.
    """
    rate = tf.cast(learning_rate, tf.float32)
    return library.call("update.gradient_descent", {"table": table.config()}, [gradients, rows, rate], [], [],
                        resources=table.handles[:1], name=name)
