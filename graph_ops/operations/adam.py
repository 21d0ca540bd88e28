"""Adam's steps for tables, and for the moments beside them, on the project's kernels."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import adam
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import row_checks, row_gradients, stamps

_SCALARS = ["a {}".format(name) for name in ("learning rate", "beta1", "beta2")] + [
    "an epsilon", "a power of beta1", "a power of beta2"]


class _Adam(Operation):
    """inputs: gradients float32 [n, D], rows int32 or int64 [n]; four or six scalars float32 []. No output.

    The resources are the rows, their first and second moments, all float32 [V, D], then the table's stamps and clock.
    Host inputs: `stamps.step_inputs`.
    """

    def run(self, request, config, world, headers):
        table = config["table"]
        row_checks.check_scalars(table, world, _SCALARS, request.inputs[2:])
        scalars = [scalar.pointer for scalar in request.inputs[2:]]
        scalars += [0] * (6 - len(scalars))
        given = row_gradients.RowGradients(request, table, world, config["from_lookup"])
        with request.variables(table.name, exclusive=True) as variables:
            row_checks.check_variables(table, world, variables[:3])
            self.step(request, table, given.values, given.rows, scalars,
                      [variable.pointer for variable in variables[:3]])
            self.stamp(request, config, variables, given)

    def step(self, request, table, gradients, rows, scalars, variables):
        """Changes the variables (pointers)."""
        raise NotImplementedError

    def stamp(self, request, config, variables, given):
        """Marks the rows that have changed; given: the `RowGradients`."""
        raise NotImplementedError


@register
class _LazyAdam(_Adam):
    """Moves the rows that have a gradient, and their moments."""

    name = "operations.adam.lazy_step"

    def step(self, request, table, gradients, rows, scalars, variables):
        adam.lazy_adam(gradients.pointer, table.dim, rows.pointer, rows.size, scalars, table.rows, *variables)

    def stamp(self, request, config, variables, given):
        if not given.from_lookup:
            stamps.stamp(request, config, variables, given.rows)


@register
class _WholeAdam(_Adam):
    """Moves every row of the table, and its moments."""

    name = "operations.adam.step"

    def step(self, request, table, gradients, rows, scalars, variables):
        position = request.temporary("int32", table.rows)
        adam.adam(gradients.pointer, table.dim, rows.pointer, rows.size, scalars, table.rows, position.pointer,
                  *variables)

    def stamp(self, request, config, variables, given):
        stamps.stamp(request, config, variables, None)


def step(table, moments, gradients, rows, learning_rate, beta1, beta2, epsilon, powers=(), lazy=False, name="adam"):
    """An op that takes one step of Adam, as TensorFlow does for sparse gradients.

    Args:
      table: a `Table` with handles. moments: the two handles of its slots m and v.
      gradients: float32 [n, D]. rows: integers [n]; those of equal rows are added up; one outside the table is an
        InvalidArgumentError, and nothing changes.
      learning_rate, beta1, beta2, epsilon: numbers or scalar tensors.
      powers: beta1 and beta2 to the power of the steps taken; none if the learning rate has been corrected for
        the moments' start at zero already.
      lazy: True touches the given rows alone; False all rows of the table, whose moments shrink.
    """
    scalars = [tf.cast(scalar, tf.float32) for scalar in (learning_rate, beta1, beta2, epsilon) + tuple(powers)]
    inputs = [tf.convert_to_tensor(gradients, tf.float32), row_checks.as_rows(rows)] + scalars
    config, host_inputs = stamps.step_inputs()
    config.update(table=table.config(), from_lookup=embedding.from_lookup(rows, table))
    return library.call("operations.adam.lazy_step" if lazy else "operations.adam.step", config, inputs, [], [],
                        resources=table.handles[:1] + list(moments) + table.stamp_handles, host_inputs=host_inputs,
                        name=name)
