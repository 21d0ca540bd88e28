"""What a table's rows are written to: `TableSink`, the receiver of graph_ops/transfer/shard_transfer.py's save op."""
import collections
import itertools
import os
import time
from typing import Any, DefaultDict, Dict, List, Sequence

import numpy as np

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, shard_names
from sok1x.checkpoint.files.manifest import File, Manifest, Part, Table, admission_of
from sok1x.checkpoint.files.open_file import checksum
from sok1x.checkpoint.files.shard_header import BLOCK_BYTES, Header, rows_per_block
from sok1x.checkpoint.files.shard_writer import ShardFileWriter
from sok1x.graph_ops.stores.placement import Placement


class TableSink:
    """Writes one table's shard on this rank to a checkpoint's folder, one file a part.

    `begin`, `write` (part after part, in any number of chunks each), `end`; then `outcome` is what rank 0 needs for the
    manifest. After a failure, `abort` removes the files.

    Args:
        folder: The checkpoint's folder while it is written.
        token: The save's token.
        step: The global step.
        block_bytes: About the size of the blocks that have a checksum each.

    Raises:
        CheckpointError: The system refuses; NoSpaceError where no space is left. Of every method.
    """

    def __init__(self, folder: str, token: str, step: int, block_bytes: int = BLOCK_BYTES) -> None:
        self._folder, self._token, self._step, self._block_bytes = folder, token, step, block_bytes
        self._facts: Dict[str, Any] = {}
        self._part = ""
        self._parts: Dict[str, Part] = {}
        self._counts: Dict[str, int] = {}
        self._writers: Dict[str, ShardFileWriter] = {}
        self._strays = 0
        self.outcome: Dict[str, Any] = {}

    def begin(self, facts: Dict[str, Any]) -> None:
        """Takes what the table is.

        Args:
            facts: table, rank, ranks, rows (V), dim, used, use_hashtable, key_dtype,
                parts {part: {dtype, row_shape, count}}, and, if they are not None, localized, keys and admission;
                grows: whether V is this rank's alone.
        """
        self._facts = {name: facts[name] for name in ("table", "use_hashtable", "key_dtype")}
        self._facts.update({name: int(facts[name]) for name in ("rank", "ranks", "rows", "dim", "used")})
        self._facts.update({name: facts.get(name) for name in ("localized", "keys", "admission")},
                           grows=bool(facts.get("grows")))
        slots = itertools.count()
        for name, part in facts["parts"].items():
            suffix = "slot-{}".format(next(slots)) if name.startswith(shard_names.SLOT) else name
            if not shard_names.fits(name, suffix):
                raise ValueError("a table has no part '{}'".format(name))
            self._parts[name] = Part(str(part["dtype"]), tuple(int(extent) for extent in part["row_shape"]), suffix)
            self._counts[name] = int(part["count"])

    def write(self, part: str, rows: np.ndarray) -> None:
        """Appends rows, [n, …], to a part."""
        if part != self._part:
            self._start_part(part)
        if part == shard_names.KEYS:
            self._strays += strays(self._facts, rows)
        self._writers[part].write(rows)

    def end(self) -> None:
        """Completes all files and waits until the disk has them."""
        # Parts without rows may not have been written to; they have files all the same.
        for part in self._parts:
            if part not in self._writers:
                self._start_part(part)
        files = {self._file_name(part): writer.close() for part, writer in self._writers.items()}
        self.outcome = dict(self._facts, files=files, strays=self._strays, parts={
            name: [part.dtype, list(part.row_shape), part.suffix] for name, part in self._parts.items()})

    def abort(self) -> None:
        """Removes what was written; may be called at any time, more than once."""
        for writer in self._writers.values():
            writer.abort()
        self._writers = {}

    def _start_part(self, part: str) -> None:
        if part not in self._parts or part in self._writers:
            raise ValueError("table '{}' has the parts {}, each to be written once: got '{}'".format(
                self._facts["table"], list(self._parts), part))
        dtype, row_shape, _ = self._parts[part]
        header = Header(self._token, self._step, self._facts["table"], part, self._facts["rank"], self._facts["ranks"],
                        dtype, row_shape, self._counts[part], rows_per_block(dtype, row_shape, self._block_bytes))
        self._writers[part] = ShardFileWriter(os.path.join(self._folder, self._file_name(part)), header)
        self._part = part

    def _file_name(self, part: str) -> str:
        return shard_names.file_name(self._facts["table"], self._facts["rank"], self._facts["ranks"],
                                     self._parts[part].suffix)


def strays(facts: Dict[str, Any], keys: np.ndarray) -> int:
    """How many of a shard's keys belong to other ranks, as local lookups leave them; facts: as `TableSink.begin`'s."""
    if facts["ranks"] == 1 or not facts["use_hashtable"]:
        return 0
    return int(np.count_nonzero(Placement(facts["localized"]).owners(keys, facts["ranks"]) != facts["rank"]))


def tensorflow_files(folder: str) -> Dict[str, File]:
    """{name: File} of TensorFlow's files in a checkpoint's folder, each read once. Raises CheckpointError."""
    return {name: File(*checksum(os.path.join(folder, name), "TensorFlow's checkpoint of the dense variables"))
            for name in sorted(os.listdir(folder)) if folders.is_tensorflows(name)}


def assemble(token: str, step: int, outcomes: Sequence[Sequence[Dict[str, Any]]], dense: Dict[str, File]) -> Manifest:
    """The manifest of a save.

    Args:
        token, step: As the sinks got them.
        outcomes: For every rank, in order, the `outcome` of each of its sinks (they may have gone through JSON).
        dense: What `tensorflow_files` gives.

    Raises:
        CheckpointError: The ranks disagree on what a table is.
    """
    tables: Dict[str, Table] = {}
    largest: Dict[str, int] = {}
    strays_of: DefaultDict[str, List[int]] = collections.defaultdict(list)
    files = dict(dense)
    for rank, of_rank in enumerate(outcomes):
        for outcome in of_rank:
            name = outcome["table"]
            table = Table(outcome["dim"], outcome["rows"], [], outcome["use_hashtable"], outcome["key_dtype"], {
                part: Part(dtype, tuple(row_shape), suffix)
                for part, (dtype, row_shape, suffix) in outcome["parts"].items()}, outcome.get("localized"),
                outcome.get("keys"), admission=admission_of(outcome.get("admission")))
            largest[name] = max(largest.get(name, 0), table.rows)
            known = tables.setdefault(name, table)
            if outcome.get("grows"):
                table = table._replace(rows=known.rows)
            if (outcome["rank"], outcome["ranks"], len(known.counts)) != (rank, len(outcomes), rank) \
                    or table != known._replace(counts=[]):
                raise CheckpointError("{} saved table '{}' as {}, and the ranks before it as {}: all ranks must "
                                      "build the same model.".format(launch.starting(rank), name, table, known))
            known.counts.append(outcome["used"])
            strays_of[name].append(outcome.get("strays", 0))
            files.update({file: File(**facts) for file, facts in outcome["files"].items()})
    for name, table in tables.items():
        if len(table.counts) != len(outcomes):
            raise CheckpointError("Only {} of {} ranks saved table '{}': all ranks must build the same model.".format(
                len(table.counts), len(outcomes), name))
    tables = {name: table._replace(rows=largest[name], strays=strays_of[name] if any(strays_of[name]) else None)
              for name, table in tables.items()}
    return Manifest(token, step, len(outcomes), int(time.time()), tables, files)
