"""Initial values of a table's variables. They come from ops of ours so that they too fail before `sok1x.Init`."""
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import fill, hash_index, host_memory, row_init
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.registry import Operation, register


def _array(request, dtype, shape):
    """Output 0, not yet touched, on large pages where that pays."""
    out = request.output(0, dtype, shape)
    host_memory.advise_large_pages(out.pointer, out.size * ITEM_BYTES[dtype])
    return out


@register
class _Rows(Operation):
    """float32 [V, D]: zeros where an index gives rows to keys later, else every key's own initial row."""

    name = "stores.initial.rows"

    def run(self, request, config, world, headers):
        table = config["table"]
        out = _array(request, "float32", (table.rows, table.dim))
        kind, a, b = ("zeros", 0.0, 0.0) if table.use_hashtable else table.distribution(world.size)
        row_init.initial_rows_of_shard(world.arguments["seed"], table.identity, world.rank, world.size,
                                       table.rows, table.dim, kind, a, b, out.pointer)


@register
class _Index(Operation):
    """int64 [C, 2]: a key and its row in each slot; all slots free, which a row of -1 marks."""

    name = "stores.initial.index"

    def run(self, request, config, world, headers):
        capacity = config["table"].capacity
        hash_index.clear(_array(request, "int64", (capacity, 2)).pointer, capacity)


@register
class _Count(Operation):
    """int64 []: a count, 0."""

    name = "stores.initial.count"

    def run(self, request, config, world, headers):
        fill.fill_int64(request.output(0, "int64", ()).pointer, 1, 0)


@register
class _Check(Operation):
    """No output: fails before `sok1x.Init`, as every operation does."""

    name = "stores.initial.check"

    def run(self, request, config, world, headers):
        pass


@register
class _Stamps(Operation):
    """int64 [V]: no row has changed."""

    name = "stores.initial.stamps"

    def run(self, request, config, world, headers):
        rows = config["table"].rows
        fill.fill_int64(_array(request, "int64", (rows,)).pointer, rows, 0)


def _value(function, table, dtype, shape):
    return library.call(function, {"table": table.config()}, [], [dtype], [shape], name="initial_value")[0]


def initial_rows(table, by_row_value=None):
    """float32 [V, D]. by_row_value: makes the tensor where a Keras initializer fills the rows."""
    if by_row_value is None:
        return _value("stores.initial.rows", table, tf.float32, [table.rows, table.dim])
    check = library.call("stores.initial.check", {}, [], [], [], name="check")
    with tf.control_dependencies([check]):
        return tf.identity(by_row_value())


def initial_index(table):
    """int64 [C, 2]: free slots."""
    return _value("stores.initial.index", table, tf.int64, [table.capacity, 2])


def initial_count(table):
    """int64 [], 0."""
    return _value("stores.initial.count", table, tf.int64, [])


def initial_stamps(table):
    """int64 [V], 0."""
    return _value("stores.initial.stamps", table, tf.int64, [table.rows])
