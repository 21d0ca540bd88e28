"""What a graph hands to ops that write a table's rows, checked before they do: row numbers, numbers, variables."""
from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import row_numbers, unique
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores.table import Table


def as_rows(indices: Any) -> tf.Tensor:
    """Row numbers, integers of any width, as an op's input: int32 or int64, so that none becomes another."""
    indices = tf.convert_to_tensor(indices)
    if not indices.dtype.is_integer:
        raise TypeError("got row numbers of dtype {} ('{}'), expected integers".format(
            indices.dtype.name, indices.name))
    return indices if indices.dtype in (tf.int32, tf.int64) else tf.cast(indices, tf.int64)


def checked(request: Any, config: Any, world: Any, rows: Any) -> Any:
    """Row numbers from a graph, an `Array` of int32 or int64, as int64 of the same length.

    Args:
      config: the operation's, with `table` and `held`.

    Raises:
      CallError: INVALID_ARGUMENT where one is no row of the table. A GPU's are waited for.
    """
    table = config.table
    there = table.rows
    if table.grows:
        there = max(0, growing.rows(request, config.held.names.index("stamps")))
    wide = rows
    if rows.dtype != "int64":
        wide = request.temporary("int64", rows.size)
        unique.widen(rows, wide)
    place = row_numbers.first_out_of_range(wide, there)
    if place >= 0:
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got row {} at position {} of {} row numbers, expected rows in [0, {}), "
            "those of this rank's shard (max_vocabulary_size_per_gpu); nothing was changed. Row numbers are not keys: "
            "take those of a lookup's gradient").format(
                table.name, world.name, int(wide.read().reshape(-1)[place]), place, rows.size, there))
    return wide


def check_whole(request: Any, config: Any, world: Any) -> None:
    """Raises where a lookup's table has not a row for each of its stamps: then rows have been assigned that are not
    those of its keys, and an index would lead beyond them. (C++ leaves such lookups to Python: groups/lookup_run.cc.)

    Args:
      config: of the lookup, with `table` and `held`. No variable is locked.

    Raises:
      CallError: FAILED_PRECONDITION.
    """
    names = config.held.names
    rows, stamps = (growing.rows(request, names.index(name)) for name in ("rows", "stamps"))
    if rows != stamps:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{}' on {}: got {} rows that were assigned to it, expected {}, as many as it has keys and "
            "stamps for; nothing was looked up. Rows alone, as load() and Keras' .keras and .h5 files give them, do "
            "not say whose they are: initialize the table anew, then restore a checkpoint, or give rows to keys by "
            "sok.assign(table, keys, values)").format(config.table.name, world.name, rows, stamps))


def check_scalars(table: Table, world: Any, names: Sequence[str], scalars: Sequence[Any]) -> None:
    """Raises where an optimizer's hyperparameters (`Array`s) are not one number each."""
    for name, scalar in zip(names, scalars):
        if scalar.size != 1:
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got {} of shape {}, expected a scalar; nothing was changed").format(
                    table.name, world.name, name, list(scalar.shape)))


def check_variables(table: Table, world: Any, variables: Sequence[Any], rows: int) -> None:
    """Raises where variables (`Array`s) that must have a row for each of the table's `rows` do not."""
    for variable in variables:
        if variable.shape != (rows, table.dim) or variable.dtype != "float32":
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got a variable of {} and shape {} for its rows or their slots, "
                "expected float32 {}; nothing was changed").format(
                    table.name, world.name, variable.dtype, list(variable.shape),
                    [rows, table.dim]))
