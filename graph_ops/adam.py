"""Adam's steps for tables, and for the moments beside them, on the project's kernels."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import adam
from sok1x.graph_ops import embedding, library, stamps
from sok1x.graph_ops.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.registry import Operation, register


class _Adam(Operation):
    """inputs: gradients float32 [u, D], rows int32 [u], distinct; four or six scalars float32 []. No output.

    The resources are the rows, their first and second moments, all float32 [V, D], then the table's stamps and clock.
    Host inputs: `stamps.step_inputs`.
    """

    def run(self, request, config, world, headers):
        table = config["table"]
        gradients, rows = request.inputs[:2]
        if gradients.shape != (rows.size, table.dim):
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on rank {}: got gradients of shape {} for {} rows, expected [{}, {}]").format(
                    table.name, world.rank, list(gradients.shape), rows.size, rows.size, table.dim))
        scalars = [scalar.pointer for scalar in request.inputs[2:]]
        scalars += [0] * (6 - len(scalars))
        with request.variables(table.name, exclusive=True) as variables:
            self.step(request, table, gradients, rows, scalars, [variable.pointer for variable in variables[:3]])
            self.stamp(request, config, variables, rows)

    def step(self, request, table, gradients, rows, scalars, variables):
        """Changes the variables (pointers)."""
        raise NotImplementedError

    def stamp(self, request, config, variables, rows):
        """Marks the rows that have changed."""
        raise NotImplementedError


@register
class _LazyAdam(_Adam):
    """Moves the rows that have a gradient, and their moments."""

    name = "update.lazy_adam"

    def step(self, request, table, gradients, rows, scalars, variables):
        adam.lazy_adam(gradients.pointer, table.dim, rows.pointer, rows.size, scalars, table.rows, *variables)

    def stamp(self, request, config, variables, rows):
        if not config["from_lookup"]:  # whose gradient has stamped its rows
            stamps.stamp(request, config, variables, rows)


@register
class _WholeAdam(_Adam):
    """Moves every row of the table, and its moments."""

    name = "update.adam"

    def step(self, request, table, gradients, rows, scalars, variables):
        position = request.temporary("int32", table.rows)
        adam.adam(gradients.pointer, table.dim, rows.pointer, rows.size, scalars, table.rows, position.pointer,
                  *variables)

    def stamp(self, request, config, variables, rows):
        stamps.stamp(request, config, variables, None)


def step(table, moments, gradients, rows, learning_rate, beta1, beta2, epsilon, powers=(), lazy=False, name="adam"):
    """An op that takes one step of Adam, as TensorFlow does for sparse gradients.

    Args:
      table: a `Table` with handles. moments: the two handles of its slots m and v.
      gradients: float32 [u, D]. rows: integers [u], distinct; those outside the table are left out.
      learning_rate, beta1, beta2, epsilon: numbers or scalar tensors.
      powers: beta1 and beta2 to the power of the steps taken; none if the learning rate has been corrected for
        the moments' start at zero already.
      lazy: True touches the given rows alone; False all rows of the table, whose moments shrink.
    """
    scalars = [tf.cast(scalar, tf.float32) for scalar in (learning_rate, beta1, beta2, epsilon) + tuple(powers)]
    inputs = [tf.convert_to_tensor(gradients, tf.float32), tf.cast(rows, tf.int32)] + scalars
    rows = tf.convert_to_tensor(rows)
    config, host_inputs = stamps.step_inputs()
    config.update(table=table.config(), from_lookup=embedding.are_distinct(rows))
    return library.call("update.lazy_adam" if lazy else "update.adam", config, inputs, [], [],
                        resources=table.handles[:1] + list(moments) + table.stamp_handles, host_inputs=host_inputs,
                        name=name)
