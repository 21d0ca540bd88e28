"""Adam's steps for tables, and for the moments beside them, on the project's kernels."""
from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import adam
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.groups import updates
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import cache, clock, row_checks
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.row_gradients import RowGradients
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CHANGING, STAMPS, Held, TableVariables

_SCALARS = ["a {}".format(name) for name in ("learning rate", "beta1", "beta2")] + [
    "an epsilon", "a power of beta1", "a power of beta2"]


class AdamConfig(NamedTuple):
    """Attributes:
      table, held: the table, its rows, stamps and clock, and the moments m and v as slots.
      from_lookup: whether the graph shows that the gradient is a lookup's as it was made.
      global_step: whether the last host input is the global step."""

    table: Table
    held: Held
    from_lookup: bool
    global_step: bool


class _Adam(Operation):
    """inputs: gradients float32 [n, D], rows int32 or int64 [n]; four or six scalars float32 []. No output.

    Host inputs: `clock.step_inputs`.
    """

    Config = AdamConfig
    every_row = False  # whether rows without a gradient move too

    def run(self, request: Any, config: AdamConfig, world: Any, headers: Any) -> None:
        table = config.table
        row_checks.check_scalars(table, world, _SCALARS, request.inputs[2:])
        scalars = request.inputs[2:]
        given = RowGradients(request, config, world)
        with request_store(request, config, world, exclusive=True) as store:
            store.apply(config.global_step, given,
                        lambda given, *arrays: self.step(store, given, scalars, arrays), self.every_row)

    def step(self, store: Store, given: RowGradients, scalars: Sequence[Array], arrays: Sequence[Array]) -> None:
        """Changes rows, m and v."""
        raise NotImplementedError


@register
class _LazyAdam(_Adam):
    """Moves the rows that have a gradient, and their moments."""

    name = "operations.adam.lazy_step"
    kind = "Update"
    group = updates.Updates(updates.LAZY_ADAM)

    def step(self, store: Store, given: RowGradients, scalars: Sequence[Array], arrays: Sequence[Array]) -> None:
        adam.lazy_adam(given.values, given.rows, scalars, *arrays)


@register
class _WholeAdam(_Adam):
    """Moves every row of the table, and its moments."""

    name = "operations.adam.step"
    kind = "Update"
    every_row = True

    def step(self, store: Store, given: RowGradients, scalars: Sequence[Array], arrays: Sequence[Array]) -> None:
        position = store.request.temporary("int32", arrays[0].shape[0])
        adam.adam(given.values, given.rows, scalars, position, *arrays)


def step(variables: TableVariables, moments: Sequence[Any], gradients: Any, rows: Any, learning_rate: Any, beta1: Any,
         beta2: Any, epsilon: Any, powers: Sequence[Any] = (), lazy: bool = False, name: str = "adam") -> tf.Operation:
    """An op that takes one step of Adam, as TensorFlow does for sparse gradients.

    Args:
      variables: the table's. moments: the two handles of its slots m and v.
      gradients: float32 [n, D]. rows: integers [n]; those of equal rows are added up; one outside the table is an
        InvalidArgumentError, and nothing changes.
      learning_rate, beta1, beta2, epsilon: numbers or scalar tensors.
      powers: beta1 and beta2 to the power of the steps taken; none if the learning rate has been corrected for
        the moments' start at zero already.
      lazy: True touches the given rows alone; False all rows of the table, whose moments shrink.
    """
    scalars = [tf.cast(scalar, tf.float32) for scalar in (learning_rate, beta1, beta2, epsilon, *powers)]
    inputs = [tf.convert_to_tensor(gradients, tf.float32), row_checks.as_rows(rows)] + scalars
    global_step, host_inputs = clock.step_inputs(variables.table)
    # Where all rows move, those that are not in the cache of a table do, too.
    of_table = CHANGING if lazy else STAMPS + cache.VARIABLES + ("used",)
    held, handles = variables.resources("rows", *of_table, slots=dict(zip("mv", moments)))
    config = AdamConfig(variables.table, held, embedding.from_lookup(rows, variables.table), global_step)
    return library.call("operations.adam.lazy_step" if lazy else "operations.adam.step", config, inputs, [], [],
                        resources=handles, host_inputs=host_inputs, name=name)
