"""Initial values of a table's variables. They come from ops of ours so that they too fail before `sok1x.Init`."""
from typing import Any, Callable, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill, hash_index, host_memory, row_init
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.table import Table


class InitialConfig(NamedTuple):
    """Attributes:
      table: the table whose variable it is."""

    table: Table


def _array(request: Any, dtype: str, shape: Sequence[int]) -> Any:
    """Output 0, not yet touched, on large pages where that pays."""
    out = request.output(0, dtype, shape)
    host_memory.advise_large_pages(out.pointer, out.size * ITEM_BYTES[dtype])
    return out


@register
class _Rows(Operation):
    """float32 [V, D]: zeros where an index gives rows to keys later, else every key's own initial row."""

    name = "stores.initial.rows"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        table = config.table
        out = _array(request, "float32", (table.rows, table.dim))
        kind, a, b = ("zeros", 0.0, 0.0) if table.hashed else table.distribution(world.size)
        placement = table.placement
        row_init.initial_rows_of_shard(world.arguments["seed"], table.identity, world.rank - placement.first,
                                       placement.parts(world.size), table.rows, table.dim, kind, a, b, out.pointer)


@register
class _Index(Operation):
    """int64 [C, 2]: a key and its row in each slot; all slots free, which a row of -1 marks."""

    name = "stores.initial.index"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        capacity = config.table.capacity
        hash_index.clear(_array(request, "int64", (capacity, 2)).pointer, capacity)


@register
class _Count(Operation):
    """int64 []: a count, 0."""

    name = "stores.initial.count"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        fill.fill_int64(request.output(0, "int64", ()).pointer, 1, 0)


@register
class _Check(Operation):
    """No output: fails before `sok1x.Init`, as every operation does."""

    name = "stores.initial.check"

    def run(self, request: Any, config: NoConfig, world: Any, headers: Any) -> None:
        pass


@register
class _Stamps(Operation):
    """int64 [V]: no row has changed."""

    name = "stores.initial.stamps"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        rows = config.table.rows
        fill.fill_int64(_array(request, "int64", (rows,)).pointer, rows, 0)


def _value(function: str, table: Table, dtype: Any, shape: Sequence[int]) -> tf.Tensor:
    return library.call(function, InitialConfig(table), [], [dtype], [shape], name="initial_value")[0]


def initial_rows(table: Table, by_row_value: Optional[Callable[[], tf.Tensor]] = None) -> tf.Tensor:
    """float32 [V, D]. by_row_value: makes the tensor where a Keras initializer fills the rows."""
    if by_row_value is None:
        return _value("stores.initial.rows", table, tf.float32, [table.rows, table.dim])
    check = library.call("stores.initial.check", NoConfig(), [], [], [], name="check")
    with tf.control_dependencies([check]):
        return tf.identity(by_row_value())


def initial_index(table: Table) -> tf.Tensor:
    """int64 [C, 2]: free slots."""
    return _value("stores.initial.index", table, tf.int64, [table.capacity, 2])


def initial_count(table: Table) -> tf.Tensor:
    """int64 [], 0."""
    return _value("stores.initial.count", table, tf.int64, [])


def initial_stamps(table: Table) -> tf.Tensor:
    """int64 [V], 0."""
    return _value("stores.initial.stamps", table, tf.int64, [table.rows])
