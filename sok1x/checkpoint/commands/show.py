"""What a checkpoint holds, as text. Only its manifest is read: counts and sizes are those of the save."""
import time
from typing import Iterator

import numpy as np

from sok1x.checkpoint.files import shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.manifest import Part, Table
from sok1x.checkpoint.progress import size
from sok1x.cuda_kernels import admission, hash_index


def lines(folder: str) -> Iterator[str]:
    """Yields the description of the checkpoint in a folder, line by line. Raises CheckpointError."""
    checkpoint = Checkpoint(folder)
    manifest = checkpoint.manifest
    files = manifest.files
    dense = manifest.other_files()
    yield _line("checkpoint", folder)
    yield _line("step", "{}, by {} rank{}".format(manifest.step, manifest.ranks, "" if manifest.ranks == 1 else "s"))
    yield _line("written", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(manifest.written)))
    yield _line("bytes", "{:,} in {} files".format(sum(file.bytes for file in files.values()), len(files)))
    yield _line("dense", "{:,} bytes in {} files of TensorFlow's".format(
        sum(files[name].bytes for name in dense), len(dense)) if dense else "none")
    for name in sorted(manifest.tables):
        yield ""
        yield "table {}".format(name)
        yield from _table_lines(checkpoint, name)


def _table_lines(checkpoint: Checkpoint, name: str) -> Iterator[str]:
    manifest = checkpoint.manifest
    table = manifest.tables[name]
    used = sum(table.counts)
    rows = table.rows * table.placement.parts(manifest.ranks) if table.keys is None else table.keys
    total = sum(manifest.files[manifest.shard_file(name, part, rank)].bytes
                for part in table.parts for rank in range(manifest.ranks))
    fullest = max(range(manifest.ranks), key=lambda rank: table.counts[rank])
    yield _line("  keys", "{}, {}".format(table.key_dtype, "in a hash table" if table.use_hashtable else "row numbers"))
    yield _line("  D", str(table.dim))
    where = "{} ranks of {:,}".format(manifest.ranks, table.rows) if table.localized is None else \
        table.placement.label()
    yield _line("  rows", "{:,} in use of {:,} ({})".format(used, rows, where))
    yield _line("  load factor", "{:.3f}, at most {:.3f} (rank {})".format(
        used / max(rows, 1), table.counts[fullest] / max(table.rows, 1), fullest))
    yield _line("  bytes", "{:,} ({})".format(total, size(total)))
    yield _line("  memory", _memory(table))
    if table.admission is not None:
        yield _line("  admission", _admission(*table.admission))
    slots = [part for part in table.parts if part.startswith(shard_names.SLOT)]
    for number, part in enumerate(slots):
        yield _line("" if number else "  slots", "{} {}".format(part[len(shard_names.SLOT):], _row(table.parts[part])))
    if not slots:
        yield _line("  slots", "none")


def _memory(table: Table) -> str:
    """What a rank's shard takes, restored into as many rows as it was saved from, with what was saved beside these."""
    besides = (shard_names.KEYS, shard_names.UNUSED, shard_names.ADMISSION)
    row = sum(np.dtype(part.dtype).itemsize * int(np.prod(part.row_shape, dtype=np.int64))
              for name, part in table.parts.items() if name not in besides)
    forgets = shard_names.SCORES[0] in table.parts
    if forgets:
        row += 8  # its place in the list of free rows
    slots = hash_index.capacity(table.rows) if table.use_hashtable else 0
    index = ", and {:,} slots of 16 (index)".format(slots) if slots else ""
    counters = _counter_bytes(table)
    total = table.rows * row + 16 * slots + counters
    counts = ", and {:,} (admission's counters)".format(counters) if counters else ""
    # What no checkpoint has: how many keys the table remembers, and whether it has a cache.
    more = "; besides 16 for each of remember_evicted" if forgets else ""
    return "{:,} ({}) on a rank with {:,} rows: {:,} bytes a row{}{}{}".format(
        total, size(total), table.rows, row, index, counts, more)


def _counter_bytes(table: Table) -> int:
    """Of a rank's sketch."""
    return 8 * admission.words_of(*table.admission) if table.admission and table.admission[0] else 0


def _admission(width: int, bits: int) -> str:
    """What is there of the counts and draws that decide which new keys get rows."""
    return "{} x {:,} counters of {} bits on each rank".format(admission.ROWS, width, bits) if width else "draws"


def _row(part: Part) -> str:
    return "{} {}".format(part.dtype, list(part.row_shape))


def _line(title: str, text: str) -> str:
    return "{:<14}{}".format(title, text)
