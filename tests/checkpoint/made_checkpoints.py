"""Checkpoints of tables that tests make up, without TensorFlow and without MPI: every rank's shards in turn."""
import os

import numpy as np

from sok1x.checkpoint.files import folders, manifest, publishing, writing


class MadeTable:
    """A table's content on all ranks; `keys[rank]` and `parts[part][rank]` are what that rank saves."""

    def __init__(self, name, ranks, rows, dim, use_hashtable=True, key_dtype="int64"):
        self.name, self.ranks, self.rows, self.dim = name, ranks, rows, dim
        self.use_hashtable, self.key_dtype = use_hashtable, key_dtype
        self.keys, self.parts = [], {}
        self.admission = None

    def facts(self, rank):
        used = len(self.keys[rank])
        arrays = dict({"keys": self.keys}, **self.parts)
        parts = {part: {"dtype": values[rank].dtype.name, "row_shape": list(values[rank].shape[1:]),
                        "count": len(values[rank])} for part, values in arrays.items()}
        return {"table": self.name, "rank": rank, "ranks": self.ranks, "rows": self.rows, "dim": self.dim,
                "use_hashtable": self.use_hashtable, "key_dtype": self.key_dtype, "used": used, "parts": parts,
                "admission": self.admission}

    def by_key(self, part):
        """{key: value} of all ranks."""
        return {int(key): value for rank in range(self.ranks)
                for key, value in zip(self.keys[rank], self.parts[part][rank])}


def hash_table(random, name="user/id", ranks=2, rows=200, dim=16, used=300, slots=("user/id/Adam",), low=-10 ** 6):
    """A hash table with random distinct keys of `low` and more, its rows, stamps and slots."""
    table = MadeTable(name, ranks, rows, dim)
    keys = random.permutation(np.unique(random.randint(low, 10 ** 6, 2 * used + 8).astype(np.int64)))[:used]
    table.keys = [keys[keys % ranks == rank] for rank in range(ranks)]
    fill(table, random, slots)
    return table


def direct_table(random, name="item", ranks=2, rows=50, dim=16, slots=()):
    """A table without a hash table: key k is row k // N of rank k % N."""
    table = MadeTable(name, ranks, rows, dim, use_hashtable=False)
    table.keys = [np.arange(rows, dtype=np.int64) * ranks + rank for rank in range(ranks)]
    fill(table, random, slots)
    return table


def fill(table, random, slots):
    """Random rows and slots, and stamps."""
    counts = [len(keys) for keys in table.keys]
    table.parts["rows"] = [random.standard_normal((n, table.dim)).astype(np.float32) for n in counts]
    table.parts["stamps"] = [random.randint(0, 99, n).astype(np.int32) for n in counts]
    for slot in slots:
        table.parts["slot:" + slot] = [random.standard_normal((n, table.dim)).astype(np.float32) for n in counts]


def without_stamps(table):
    """The table, its stamps not saved."""
    del table.parts["stamps"]
    return table


def save_shard(folder, token, step, table, rank, chunk=None, block_bytes=4096):
    """One rank's shard of one table through a sink; what the sink gives."""
    sink = writing.TableSink(folder, token, step, block_bytes)
    sink.begin(table.facts(rank))
    for part, values in dict({"keys": table.keys}, **table.parts).items():
        rows = values[rank]
        for first in range(0, len(rows), chunk or max(len(rows), 1)):
            sink.write(part, rows[first:first + (chunk or len(rows))])
    sink.end()
    return sink.outcome


def save(directory, tables, step=7, token=None, written=None, chunk=None, block_bytes=4096, dense=True):
    """A whole checkpoint below `directory`; its folder."""
    token = token or folders.new_token()
    folder = publishing.make_temporary(folders.step_folder(str(directory), step), token)
    outcomes = [[save_shard(folder, token, step, table, rank, chunk, block_bytes) for table in tables]
                for rank in range(tables[0].ranks)]
    if dense:
        # Stand-ins: what is in TensorFlow's files is TensorFlow's business.
        for suffix, size in (("index", 200), ("data-00000-of-00001", 500)):
            path = "{}.{}".format(folders.tensorflow_prefix(folder, step), suffix)
            with open(path, "wb") as file:
                file.write(bytes(i * 7 % 256 for i in range(size)))
    made = writing.assemble(token, step, outcomes, writing.tensorflow_files(folder))
    manifest.write(folder, made if written is None else made._replace(written=written))
    return publishing.publish(folder, str(directory), step)


def path_of(folder, table, rank, ranks, suffix):
    """The file of a part."""
    from sok1x.checkpoint.files import shard_names
    return os.path.join(folder, shard_names.file_name(table, rank, ranks, suffix))
