"""Initial values of a table's variables. They come from ops of ours so that they too fail before `sok1x.Init`."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill, host_memory, row_init
from sok1x.graph_ops import library
from sok1x.graph_ops.bridge import ITEM_BYTES
from sok1x.graph_ops.registry import Operation, register
from sok1x.graph_ops.table import Table


def _array(request, dtype, shape):
    """Output 0, not yet touched, on large pages where that pays."""
    out = request.output(0, dtype, shape)
    host_memory.advise_large_pages(out.pointer, out.size * ITEM_BYTES[dtype])
    return out


@register
class _Rows(Operation):
    """float32 [V, D]: zeros where an index gives rows to keys later, else every key's own initial row."""

    name = "initial.rows"

    def run(self, request, config, world, headers):
        table = config["table"]
        out = _array(request, "float32", (table.rows, table.dim))
        kind, a, b = ("zeros", 0.0, 0.0) if table.use_hashtable else table.distribution(world.size)
        row_init.initial_rows_of_shard(world.arguments["seed"], table.identity, world.rank, world.size,
                                       table.rows, table.dim, kind, a, b, out.pointer)


@register
class _IndexKeys(Operation):
    """int64 [C]: the index's keys, all unused."""

    name = "initial.index_keys"

    def run(self, request, config, world, headers):
        capacity = config["table"].capacity
        fill.fill_int64(_array(request, "int64", (capacity,)).pointer, capacity, 0)


@register
class _IndexRows(Operation):
    """int32 [C]: the index's rows, all -1, which marks a free slot."""

    name = "initial.index_rows"

    def run(self, request, config, world, headers):
        capacity = config["table"].capacity
        fill.fill_int32(_array(request, "int32", (capacity,)).pointer, capacity, -1)


@register
class _Count(Operation):
    """int64 []: rows in use."""

    name = "initial.count"

    def run(self, request, config, world, headers):
        fill.fill_int64(request.output(0, "int64", ()).pointer, 1, 0)


@register
class _Check(Operation):
    """No output: fails before `sok1x.Init`, as every operation does."""

    name = "initial.check"

    def run(self, request, config, world, headers):
        pass


def _value(function, table, dtype, shape):
    return library.call(function, {"table": table.config()}, [], [dtype], [shape], name="initial_value")[0]


def initial_rows(table, by_row_value=None):
    """float32 [V, D]. by_row_value: makes the tensor where a Keras initializer fills the rows."""
    if by_row_value is None:
        return _value("initial.rows", table, tf.float32, [table.rows, table.dim])
    check = library.call("initial.check", {}, [], [], [], name="check")
    with tf.control_dependencies([check]):
        return tf.identity(by_row_value())


def initial_index_keys(table):
    """int64 [C] zeros."""
    return _value("initial.index_keys", table, tf.int64, [table.capacity])


def initial_index_rows(table):
    """int32 [C], all -1."""
    return _value("initial.index_rows", table, tf.int32, [table.capacity])


def initial_count(table):
    """int64 [], 0."""
    return _value("initial.count", table, tf.int64, [])
