"""A shard handed to a sink: see `shard_transfer.save`."""
import numpy as np

from sok1x.graph_ops.stores.forgetting import TICK
from sok1x.graph_ops.transfer.shard_parts import host_chunks
from sok1x.graph_ops.transfer.used_rows import UsedRows


def give(store, sink):
    """Hands the whole shard over."""
    store = store.whole()
    rows = UsedRows(store)
    used = rows.count
    arrays = dict(rows=store.rows, **store.slots)
    has_unused = store.table.by_row and store.table.hashed and not store.table.grows
    sink.begin(_facts(store, used, arrays, has_unused))
    for keys in rows.keys():
        sink.write("keys", keys)  # whose owner may be another rank, where a lookup was local
    for part, array in arrays.items():
        for values in rows.values(array):
            sink.write(part, values)
    if has_unused:
        for values in host_chunks(store.rows, used, store.table.rows):
            sink.write("unused", values)
    if store.table.admission is not None:
        sink.write("admission", np.array([store.own["counters"].read()[TICK]], np.int64))
        for words in host_chunks(store.own["sketch"], 0, store.own["sketch"].size) if "sketch" in store.own else ():
            sink.write("admission", words)
    sink.end()


def _facts(store, used, arrays, has_unused):
    table, world = store.table, store.world
    parts = {"keys": _part("int64", (), used)}
    for part, array in arrays.items():
        parts[part] = _part(array.dtype, array.shape[1:], used)
    if has_unused:
        parts["unused"] = _part("float32", (table.dim,), table.rows - used)
    if table.admission is not None:
        parts["admission"] = _part("int64", (), 1 + (store.own["sketch"].size if "sketch" in store.own else 0))
    return {"table": table.name, "rank": world.rank, "ranks": world.size, "rows": _most_rows(store),
            "dim": table.dim, "use_hashtable": table.hashed, "key_dtype": table.key_dtype, "used": used, "parts": parts,
            "localized": table.placement.rank, "keys": table.keys, "grows": table.grows, "admission": table.admission}


def _most_rows(store):
    """V: of tables that have more rows on some ranks than on others the largest, of one that grows this rank's."""
    table, world = store.table, store.world
    if table.keys is None:
        return store.capacity
    return table.placement.rows_of(table.keys, table.placement.first, world.size)


def _part(dtype, row_shape, count):
    return {"dtype": dtype, "row_shape": list(row_shape), "count": count}
