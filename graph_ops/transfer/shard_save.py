"""A shard handed to a sink: see `shard_transfer.save`."""
from sok1x.cuda_kernels import index_keys
from sok1x.graph_ops.transfer.shard_parts import host_chunks

# Each time that keys are asked for, the whole index is read: so they are asked for many at a time, 64 MB of them.
_KEYS_AT_ONCE = 8 << 20


def give(shard, sink):
    """Hands the whole shard over."""
    used = shard.used()
    arrays = dict(rows=shard.rows, **shard.parts)
    has_unused = shard.table.by_row and shard.table.use_hashtable
    sink.begin(_facts(shard, used, arrays, has_unused))
    for keys in keys_of_rows(shard, used):
        sink.write("keys", keys)
    for part, array in arrays.items():
        for values in host_chunks(array, 0, used):
            sink.write(part, values)
    if has_unused:
        for values in host_chunks(shard.rows, used, shard.table.rows):
            sink.write("unused", values)
    sink.end()


def _facts(shard, used, arrays, has_unused):
    table, world = shard.table, shard.world
    parts = {"keys": _part("int64", (), used)}
    for part, array in arrays.items():
        parts[part] = _part(array.dtype, array.shape[1:], used)
    if has_unused:
        parts["unused"] = _part("float32", (table.dim,), table.rows - used)
    return {"table": table.name, "rank": world.rank, "ranks": world.size, "rows": table.rows, "dim": table.dim,
            "use_hashtable": table.use_hashtable, "key_dtype": table.key_dtype, "used": used, "parts": parts}


def _part(dtype, row_shape, count):
    return {"dtype": dtype, "row_shape": list(row_shape), "count": count}


def keys_of_rows(shard, used):
    """The keys of rows 0 to used - 1 in turn, as int64 arrays in host memory: each to be done with before the next."""
    buffer = shard.request.temporary("int64", min(used, _KEYS_AT_ONCE))
    for first in range(0, used, _KEYS_AT_ONCE):
        n = min(_KEYS_AT_ONCE, used - first)
        if shard.index is None:
            index_keys.direct_keys(first, n, shard.world.size, shard.world.rank, buffer.pointer)
        else:
            index_keys.keys_by_row(shard.index.pointer, shard.index.shape[0], first, n, buffer.pointer)
        for keys in host_chunks(buffer, 0, n):
            yield keys
