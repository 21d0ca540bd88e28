"""Initial values of a table's variables. They come from ops of ours so that they too fail before `sok1x.Init`."""
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill, hash_index, host_memory, row_init
from sok1x.graph_ops.bridge import growing, library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import cache, growth, host_tier, known_slots, step_times
from sok1x.graph_ops.stores.known_slots import Slot
from sok1x.graph_ops.stores.table import Table


class InitialConfig(NamedTuple):
    """Attributes:
      table: the table whose variable it is."""

    table: Table


class ZerosConfig(NamedTuple):
    """Attributes:
      table: a table that forgets. variable: which of `forgetting.VARIABLES` or `cache.VARIABLES` it is."""

    table: Table
    variable: str


class SlotConfig(NamedTuple):
    """Attributes:
      table: the table whose slot it is. slot: what is known of it.
      dtype: of its numbers. shape: of what it has for each row."""

    table: Table
    slot: Slot
    dtype: str
    shape: Tuple[int, ...]


def rows_now(request: Any, table: Table) -> int:
    """V: what a table that grows has in this session, whose initializers keep it, or begins with."""
    if table.growth is None:
        return table.rows
    there = growing.rows_by_name(request, table.growth.container, table.name)
    return table.rows if there < 0 else there


def _array(request: Any, grows: bool, dtype: str, shape: Sequence[int]) -> Any:
    """Output 0, not yet touched, on large pages where that pays; what grows can do so in place."""
    out = growing.output(request, dtype, shape) if grows else request.output(0, dtype, shape)
    host_memory.advise_large_pages(out)
    return out


@register
class _Rows(Operation):
    """float32 [V, D]: zeros where an index gives rows to keys later, else every key's own initial row."""

    name = "stores.initial.rows"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        table = config.table
        rows = rows_now(request, table)
        if table.grows:
            known_slots.note_initialized(request, table.name)
        out = _array(request, table.grows, "float32", (rows, table.dim))
        kind, a, b = ("zeros", 0.0, 0.0) if table.hashed else table.distribution(world.size)
        placement = table.placement
        row_init.initial_rows_of_shard(world.seed_of_rows(), table.identity, world.rank - placement.first,
                                       placement.parts(world.size), kind, a, b, out)


@register
class _Index(Operation):
    """int64 [C, 2]: a key and its row in each slot; all slots free, which a row of -1 marks."""

    name = "stores.initial.index"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        slots = hash_index.capacity(rows_now(request, config.table))
        hash_index.clear(_array(request, False, "int64", (slots, 2)))


@register
class _Count(Operation):
    """int64 []: a count, 0."""

    name = "stores.initial.count"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        fill.fill_int64(request.output(0, "int64", ()), 0)


@register
class _Check(Operation):
    """No output: fails before `sok1x.Init`, as every operation does."""

    name = "stores.initial.check"

    def run(self, request: Any, config: NoConfig, world: Any, headers: Any) -> None:
        pass


class GivenConfig(NamedTuple):
    """Attributes:
      label: of the table, for the message."""

    label: str


@register
class _GivenHere(Operation):
    """No output: fails in another process than that which has been given a table's first rows as an array."""

    name = "stores.initial.given_here"
    Config = GivenConfig

    def run(self, request: Any, config: GivenConfig, world: Any, headers: Any) -> None:
        if request.plan is None:
            raise CallError(FAILED_PRECONDITION, (
                "{}: got its initializer in a graph that another process has built, expected the process that was "
                "given its first rows as an array: a MetaGraph has none of them. Restore a checkpoint without running "
                "the initializers, or build the model by its program").format(config.label))


@register
class _Stamps(Operation):
    """int64 [V]: no row has changed."""

    name = "stores.initial.stamps"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        rows = rows_now(request, config.table)
        step_times.begin(request, config.table.name)
        fill.fill_int64(_array(request, config.table.grows, "int64", (rows,)), 0)


@register
class _RepeatedRows(Operation):
    """Input: float32 [n, D]. float32 [V, D]: row k is the input's row k % n."""

    name = "stores.initial.repeated_rows"
    Config = InitialConfig

    def run(self, request: Any, config: InitialConfig, world: Any, headers: Any) -> None:
        table = config.table
        known_slots.note_initialized(request, table.name)
        out = _array(request, table.grows, "float32", (rows_now(request, table), table.dim))
        growth.write_repeated(request, request.inputs[0], 0, out)


@register
class _Zeros(Operation):
    """int64, zeros: a variable of a table that forgets, or of a cache."""

    name = "stores.initial.zeros"
    Config = ZerosConfig

    def run(self, request: Any, config: ZerosConfig, world: Any, headers: Any) -> None:
        table, rows = config.table, rows_now(request, config.table)
        description: Any = table.cache if config.variable in cache.VARIABLES else table.forgetting
        out = _array(request, table.grows, "int64", description.shape_of(config.variable, rows))
        fill.fill_int64(out, 0)


@register
class _Slot(Operation):
    """[V, ...]: one number everywhere."""

    name = "stores.initial.slot"
    Config = SlotConfig

    def run(self, request: Any, config: SlotConfig, world: Any, headers: Any) -> None:
        known_slots.note_initialized(request, config.table.name, config.slot)
        if config.table.cache is not None:
            host_tier.forget_slot(request, config.table, config.slot.name)
        out = _array(request, config.table.grows, config.dtype, (rows_now(request, config.table),) + config.shape)
        growth.write_value(out, 0, out.size, config.slot.value)


def _value(function: str, table: Table, dtype: Any, shape: Sequence[Optional[int]]) -> tf.Tensor:
    return library.call(function, InitialConfig(table), [], [dtype], [shape], name="initial_value")[0]


def initial_rows(table: Table, by_row_value: Optional[Callable[[], tf.Tensor]] = None) -> tf.Tensor:
    """float32 [V, D]. by_row_value: makes the tensor where a Keras initializer fills the rows."""
    if by_row_value is None:
        return _value("stores.initial.rows", table, tf.float32, [table.static_rows, table.dim])
    check = library.call("stores.initial.check", NoConfig(), [], [], [], name="check")
    with tf.control_dependencies([check]):
        return tf.identity(by_row_value())


def given_here(label: str) -> tf.Operation:
    """An op that fails where a graph has come as a MetaGraph; label: of the table whose rows are a function's here."""
    made: tf.Operation = library.call("stores.initial.given_here", GivenConfig(label), [], [], [], name="given_here")
    return made


def repeated_rows(table: Table, rows: tf.Tensor) -> tf.Tensor:
    """float32 [V, D], of a table that grows: rows, float32 [n, D], again and again."""
    return library.call("stores.initial.repeated_rows", InitialConfig(table), [rows], [tf.float32],
                        [[table.static_rows, table.dim]], name="initial_value")[0]


def initial_index(table: Table) -> tf.Tensor:
    """int64 [C, 2]: free slots."""
    index_slots = None if table.grows else hash_index.capacity(table.rows)
    return _value("stores.initial.index", table, tf.int64, [index_slots, 2])


def initial_count(table: Table) -> tf.Tensor:
    """int64 [], 0."""
    return _value("stores.initial.count", table, tf.int64, [])


def initial_stamps(table: Table) -> tf.Tensor:
    """int64 [V], 0."""
    return _value("stores.initial.stamps", table, tf.int64, [table.static_rows])


def initial_zeros(table: Table, variable: str, shape: Sequence[Optional[int]]) -> tf.Tensor:
    """int64 of that shape, zeros: one of `forgetting.VARIABLES`, or of `cache.VARIABLES`."""
    return library.call("stores.initial.zeros", ZerosConfig(table, variable), [], [tf.int64], [shape],
                        name="initial_value")[0]


def initial_slot(table: Table, slot: Slot, dtype: tf.DType, shape: Sequence[int]) -> tf.Tensor:
    """[V, ...], the slot's number everywhere: of a table that grows. shape: of what it has for each row."""
    return library.call("stores.initial.slot", SlotConfig(table, slot, dtype.name, tuple(shape)), [], [dtype],
                        [[table.static_rows, *shape]], name="initial_value")[0]
