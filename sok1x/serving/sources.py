"""What is exported: a checkpoint's tables, a stretch at a time, and its dense variables.

A checkpoint is a folder of sok1x's, of any number of ranks; or what a `tf.train.Saver` on one rank has written, where
tables are variables among others.
"""
import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint import tensorflow_errors
from sok1x.checkpoint.errors import CheckpointError, MismatchError, NotFoundError
from sok1x.checkpoint.files import folders, prefixes, shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted
from sok1x.checkpoint.files.table_rows import TableRows
from sok1x.checkpoint.savers import caches, one_rank
from sok1x.checkpoint.session import dense_saver
from sok1x.serving import bundles
from sok1x.serving.readers import Reader

Chunk = Tuple[np.ndarray, np.ndarray]
_CHUNK_BYTES = 8 << 20


class TableFacts(NamedTuple):
    """What a checkpoint says of a table.

    Attributes:
        dim: D.
        hashed: whether any integer is a key; else key k is row k.
        most: rows of all ranks, at most: several ranks may have had one key.
    """

    dim: int
    hashed: bool
    most: int


class Source:
    """A checkpoint.

    Attributes:
        where: what messages call it.
        ranks: how many wrote it.
        prefix: of TensorFlow's checkpoint of dense variables; None where it has none.
        tables: {name: `TableFacts`}.
    """

    where: str
    ranks: int
    prefix: Optional[str]
    tables: Dict[str, TableFacts]

    def __init__(self) -> None:
        self._former: Dict[str, str] = {}

    def look_for(self, name: str, former: str) -> None:
        """Has a table be known by its name where the checkpoint has it under the former one: see former_names.py."""
        if name not in self.tables and former in self.tables:
            self.tables[name], self._former[name] = self.tables.pop(former), former

    def saved_name(self, name: str) -> str:
        """What a table is called in the checkpoint."""
        return self._former.get(name, name)

    def chunks(self, name: str) -> Iterator[Chunk]:
        """(keys int64 [n], rows float32 [n, D]) of a table, each key once; without an index in the order of keys."""
        raise NotImplementedError

    def keys(self, name: str) -> Iterator[np.ndarray]:
        """The keys of a table with an index, chunks int64 [n], perhaps some of them twice."""
        raise NotImplementedError

    @property
    def meta(self) -> Optional[str]:
        """The file that has the graph which was saved, or None."""
        path = "{}.meta".format(self.prefix)
        return path if self.prefix is not None and os.path.isfile(path) else None

    def facts(self, name: str) -> TableFacts:
        """Of a table. Raises NotFoundError."""
        if name not in self.tables:
            raise NotFoundError("There is no table '{}' in {}; it has {}.".format(
                name, self.where, ", ".join(sorted(self.tables)) or "none"))
        return self.tables[name]

    def dense(self) -> Reader:
        """The dense variables. Raises NotFoundError."""
        if self.prefix is None:
            raise NotFoundError("{} has no dense variables: save it by sok.CheckpointManager, sok.CheckpointSaverHook "
                                "or a tf.train.Saver of all variables.".format(self.where))
        return Reader(self.prefix)


class _Shards(Source):
    """A folder of sok1x's."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._checkpoint = Checkpoint(folder)
        manifest = self._checkpoint.manifest
        self.where, self.ranks = folder, manifest.ranks
        prefix = dense_saver.dense_prefix(self._checkpoint)
        self.prefix = prefix if os.path.isfile(prefix + ".index") else None
        self.tables = {name: TableFacts(table.dim, table.use_hashtable, sum(table.counts))
                       for name, table in manifest.tables.items()
                       if table.parts[shard_names.ROWS].dtype == "float32"}

    def chunks(self, name: str) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        name = self.saved_name(name)
        table = self._checkpoint.table(name)
        if not table.use_hashtable:
            first = 0
            for rows in TableRows(self._checkpoint, name).values():
                yield np.arange(first, first + len(rows), dtype=np.int64), rows
                first += len(rows)
            return
        source = TableSource(self._checkpoint, name, 0, 1, Wanted(
            table.dim, sum(table.counts), True, table.key_dtype, {shard_names.ROWS: ("float32", (table.dim,))}))
        if table.strays:
            source.check()  # which decides whose row counts
        for keys, parts in source.chunks():
            yield keys, parts[shard_names.ROWS]

    def keys(self, name: str) -> Iterator[np.ndarray]:
        """See `Source.keys`."""
        return TableRows(self._checkpoint, self.saved_name(name)).keys()


class _Variables(Source):
    """What a tf.train.Saver on one rank has written, or Keras' save_weights."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.where = self.prefix = prefix
        self.ranks = 1
        with tensorflow_errors.damages(prefix):
            whose = one_rank.mark_in(tf.train.NewCheckpointReader(prefix))
        if whose is not None:
            raise MismatchError("{} has the shards of rank {} of {} alone, which a Saver with a path of its own has "
                                "saved, or eager execution (tf.train.Checkpoint, save_weights): export what "
                                "sok.CheckpointManager has saved, or what all ranks have saved with one path.".format(
                                    prefix, *whose[:2]))
        one_rank.check_whole(prefix)
        self._reader = Reader(prefix)
        self._shapes, dtypes = self._reader.shapes, self._reader.dtypes
        self.tables = {}
        for name, shape in self._shapes.items():
            if {name + "/stamps", name + "/steps"} <= set(self._shapes) and len(shape) == 2 \
                    and dtypes[name] == tf.float32:
                hashed = one_rank.has_index(name, self._shapes, dtypes)
                self.tables[name] = TableFacts(shape[1], hashed, shape[0])
                if hashed:
                    self.tables[name] = TableFacts(shape[1], True, len(self._index(name)[0]))

    def chunks(self, name: str) -> Iterator[Chunk]:
        """See `Source.chunks`."""
        hashed, name = self.tables[name].hashed, self.saved_name(name)
        if caches.saved_in(name, self._shapes):
            raise CheckpointError("Table '{}' in {} has only the rows of its cache there: save it by "
                                  "sok.CheckpointManager or sok.CheckpointSaverHook.".format(name, self.where))
        rows, dim = self._shapes[name]
        keys, places = np.arange(rows, dtype=np.int64), np.arange(rows, dtype=np.int64)
        if hashed:
            keys, places = self._index(name)
        step = max(1, _CHUNK_BYTES // (4 * dim))
        for first in range(0, rows, step):
            begin, end = np.searchsorted(places, [first, first + step])
            if begin < end:
                values = bundles.read_slice(self.where, self._reader.key(name), (rows, dim), first,
                                            min(step, rows - first), np.float32)
                yield keys[begin:end], values[places[begin:end] - first]

    def keys(self, name: str) -> Iterator[np.ndarray]:
        """See `Source.keys`."""
        yield self._index(self.saved_name(name))[0]

    def _index(self, name: str) -> Tuple[np.ndarray, np.ndarray]:
        """Keys int64 [n] and their rows, in the order of rows."""
        index = self._reader.get_tensor(name + "/index")
        index = index[index[:, 1] >= 0]
        index = index[np.argsort(index[:, 1], kind="stable")]
        return index[:, 0], index[:, 1]


def open_source(checkpoint: str, step: Optional[int] = None) -> Source:
    """A checkpoint.

    Args:
        checkpoint: a checkpoint_dir, the folder of one step in it, or the prefix of a Saver's files.
        step: which step's of a checkpoint_dir; None for the latest, whoever has saved it, and though it lie in another
            checkpoint's folder, in which a run has gone on.

    Raises:
        CheckpointError: there is none, or it is not whole.
    """
    path = os.path.normpath(os.fspath(checkpoint))
    if step is None:
        folder = prefixes.folder_of(path)
        if folder is None and os.path.isfile(path + ".index"):
            return _Variables(path)
        # In a manager's checkpoint a run may have gone on; what a Saver has saved is meant by its prefix.
        inside = folder == path and not os.path.lexists(path + ".index")
        return _latest(path) if folder is None or inside else _Shards(folder)
    elif os.path.isfile("{}.index".format(os.path.join(path, "{}-{}".format(folders.BASENAME, step)))) and \
            not any(one.step == step for one in folders.within(path)):
        return _Variables(os.path.join(path, "{}-{}".format(folders.BASENAME, step)))
    return _Shards(folders.find(path, step))


def _latest(directory: str) -> Source:
    """The latest checkpoint below a checkpoint_dir, of ours or of a tf.train.Saver, as that tells TensorFlow."""
    found = next(iter(folders.within(directory)), None)
    named = dense_saver.later_named(directory, -2 if found is None else found.step)
    if named is not None:
        try:
            folder = prefixes.folder_of(named)
            source = _Variables(named) if folder is None else _Shards(folder)
            # What has no tables was to have ours beside it, or is a Saver's of something else.
            if found is None or source.tables:
                return source
        except CheckpointError as error:
            if found is None:
                raise
            tf.logging.warning("%s is later than the last checkpoint of sok1x beside it, which is taken, for it cannot "
                               "be: %s", named, error)
    return _Shards(folders.find(directory))  # which says what there is, if it is none


def names(source: Source, chosen: Optional[List[str]] = None) -> List[str]:
    """The tables to export. Raises NotFoundError."""
    for name in chosen or ():
        source.facts(name)
    return list(dict.fromkeys(chosen)) if chosen else sorted(source.tables)
