"""A shard handed to a sink: see `shard_transfer.save`."""
from sok1x.graph_ops.transfer.shard_parts import host_chunks

# Each time that keys are asked for, the whole index is read: so they are asked for many at a time, 64 MB of them.
_KEYS_AT_ONCE = 8 << 20


def give(store, sink):
    """Hands the whole shard over."""
    used = store.used()
    arrays = dict(rows=store.rows, **store.slots)
    has_unused = store.table.by_row and store.table.hashed and not store.table.grows
    sink.begin(_facts(store, used, arrays, has_unused))
    for keys in keys_of_rows(store, used):
        sink.write("keys", keys)
    for part, array in arrays.items():
        for values in host_chunks(array, 0, used):
            sink.write(part, values)
    if has_unused:
        for values in host_chunks(store.rows, used, store.table.rows):
            sink.write("unused", values)
    sink.end()


def _facts(store, used, arrays, has_unused):
    table, world = store.table, store.world
    parts = {"keys": _part("int64", (), used)}
    for part, array in arrays.items():
        parts[part] = _part(array.dtype, array.shape[1:], used)
    if has_unused:
        parts["unused"] = _part("float32", (table.dim,), table.rows - used)
    return {"table": table.name, "rank": world.rank, "ranks": world.size, "rows": _most_rows(store),
            "dim": table.dim, "use_hashtable": table.hashed, "key_dtype": table.key_dtype, "used": used, "parts": parts,
            "localized": table.placement.rank, "keys": table.keys, "grows": table.grows}


def _most_rows(store):
    """V: of tables that have more rows on some ranks than on others the largest, of one that grows this rank's."""
    table, world = store.table, store.world
    if table.keys is None:
        return store.capacity
    return table.placement.rows_of(table.keys, table.placement.first, world.size)


def _part(dtype, row_shape, count):
    return {"dtype": dtype, "row_shape": list(row_shape), "count": count}


def keys_of_rows(store, used):
    """The keys of rows 0 to used - 1 in turn, as int64 arrays in host memory: each to be done with before the next."""
    buffer = store.request.temporary("int64", min(used, _KEYS_AT_ONCE))
    for first in range(0, used, _KEYS_AT_ONCE):
        n = min(_KEYS_AT_ONCE, used - first)
        store.write_keys(first, n, buffer)
        for keys in host_chunks(buffer, 0, n):
            yield keys
