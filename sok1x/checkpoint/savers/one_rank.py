"""Tables in the checkpoints that `tf.train.Saver` writes on one rank, where they are variables among others."""
import hashlib
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import former_names, shard_names
from sok1x.checkpoint.files.reading import Wanted
from sok1x.checkpoint.savers import caches
from sok1x.checkpoint.session.tables import TableState

MARK = "sok1x/rank_and_ranks"  # int64 [2] in what a rank of several saved for itself: whose shards it has
TOKEN = "sok1x/save"  # a string in it, too: of which save, the same on all ranks
# int64 [] in what TensorFlow's op alone has saved: how many ranks there are, 1 where one rank has all. It has a name of
# its own, and is no MARK of rank 0 of 1: an earlier sok1x takes a MARK for a shard, and would neither restore the
# checkpoint on several ranks nor export it.
RANKS = "sok1x/ranks"
_CHUNK_ROWS = 1 << 16
_TELLING = 10  # so many keys do not all belong to one rank of several by chance


def mark_in(reader: Any) -> Optional[Tuple[int, int, str]]:
    """Whose shards a checkpoint has, and of which save: rank, ranks, and the token, "" where a sok1x before this has
    saved it. None where it does not say whose: they are one rank's, or another sok1x has saved it."""
    if not reader.has_tensor(MARK):
        return None
    rank, ranks = reader.get_tensor(MARK)
    return int(rank), int(ranks), tf.compat.as_str(reader.get_tensor(TOKEN)) if reader.has_tensor(TOKEN) else ""


def token_of(prefix: str) -> Optional[str]:
    """What tells a save from others to this prefix: a digest of the index, in which is a checksum of every value.

    None where there is no index: no checkpoint, or one of the format that TensorFlow had first.
    """
    try:
        with tf.gfile.GFile(prefix + ".index", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except tf.errors.OpError:
        return None


def has_too_many_rows(prefix: str, tables: List[TableState]) -> bool:
    """Whether one of these tables has more rows in a checkpoint than it may get: TensorFlow would give it as many."""
    shapes = tf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()
    return any(table.variable.table.hashed and table.variable.table.grows and
               shapes.get(table.name, [0])[0] > table.variable.table.most_rows for table in tables)


def has_index(name: str, shapes: Mapping[str, Any], dtypes: Mapping[str, Any]) -> bool:
    """Whether what TensorFlow has saved has an index of a table: not another table, or a variable, that is called so.

    Args:
        name: what the table is called there. shapes, dtypes: of all that there is, by name.
    """
    index = name + "/index"
    return index in shapes and dtypes[index] == tf.int64 and list(shapes[index])[1:] == [2]


def unsaved_memories(prefix: str, tables: List[TableState], name_of: Callable[[Any], str]) -> List[Any]:
    """The variables in which these tables remember keys that leave, of those that did not when they were saved:
    TensorFlow would miss them. `name_of`: what a variable is called in the checkpoint."""
    names = tf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()
    return [memory for table, memory in memories(tables)
            if name_of(table.variable) in names and name_of(memory) not in names]


def memories(tables: List[TableState]) -> List[Tuple[TableState, Any]]:
    """Of these tables those that remember keys that leave, each with the variable in which it does."""
    return [(table, table.variable.forgetting["evicted"]) for table in tables if "evicted" in table.variable.forgetting]


def check_whole(prefix: str) -> None:
    """Raises MismatchError where a checkpoint says that it is the shard of a rank that has run a Saver's op itself."""
    reader = tf.train.NewCheckpointReader(prefix)
    ranks = int(reader.get_tensor(RANKS)) if reader.has_tensor(RANKS) else 1
    if ranks != 1:
        raise MismatchError((
            "{} has only the shard of one of {} ranks, and does not say of which: the op of a Saver "
            "(saver_def.save_tensor_name) has been run there by itself. Restore a checkpoint that Saver.save on all "
            "ranks has saved, with one path, or sok.CheckpointManager.").format(prefix, ranks))


def check_saved_by_sok1x(prefix: str, tables: List[TableState]) -> None:
    """Raises MismatchError where a checkpoint has a table's rows as a variable of TensorFlow's alone: without stamps,
    which each of sok1x's has."""
    names = tf.train.NewCheckpointReader(prefix).get_variable_to_shape_map()
    for table in tables:
        rows, stamps = [former_names.saved_as(variable.op.name, names, [table.variable])
                        for variable in (table.variable, table.parts[shard_names.STAMPS])]
        if rows in names and stamps not in names:
            raise MismatchError((
                "{} has '{}' and not '{}', which sok1x saves with each table: it looks like a checkpoint that was not "
                "saved by sok1x. Leave the table out of this Saver, read its rows with "
                "tf.train.load_checkpoint('{}').get_tensor('{}'), and give them to a sok.Variable as its first value, "
                "or to a table with sok.assign(table, keys, rows).").format(prefix, rows, stamps, prefix, rows))


class OneRankSource:
    """Gives one table's rows for one rank of several, from a checkpoint of one rank.

    TensorFlow reads variables whole: while a table is loaded, a rank needs memory for its largest variable in the
    checkpoint.

    Args:
        prefix: the checkpoint.
        table: the model's table.
        rank, ranks: for which rank of how many.
        wanted: what the model has of it.

    Attributes:
        total: rows for this rank, once `check` has been called.
    """

    def __init__(self, prefix: str, table: TableState, rank: int, ranks: int, wanted: Wanted) -> None:
        self._prefix, self._table, self._rank, self._ranks, self._wanted = prefix, table, rank, ranks, wanted
        self._keys = self._rows = np.zeros([0], np.int64)
        self._without: Set[str] = set()  # parts that only a table that forgets has
        self._saved: Dict[str, Any] = {}  # all names in the checkpoint
        self.total = 0

    def check(self) -> None:
        """Finds this rank's keys. Raises MismatchError where the checkpoint does not fit the model."""
        reader = tf.train.NewCheckpointReader(self._prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        self._saved = shapes
        name = self._name_of(self._table.variable)
        if caches.saved_in(name, shapes):
            raise MismatchError((
                "{} has no more of table '{}' than the rows that were in its cache: an earlier sok1x has saved it by "
                "TensorFlow's Saver on one rank. Restore another checkpoint.").format(self._prefix, name))
        check_whole(self._prefix)
        check_saved_by_sok1x(self._prefix, [self._table])
        for part, name in self._names().items():
            dtype, row_shape = self._wanted.parts[part]
            if name not in shapes:
                if part in shard_names.SCORES:
                    self._without.add(part)
                    continue
                raise MismatchError("{} has no variable '{}', which the model has.".format(self._prefix, name))
            if dtypes[name].name != dtype or list(shapes[name][1:]) != list(row_shape):
                raise MismatchError("'{}' has rows of {} {} in {}, and of {} {} in the model.".format(
                    name, dtypes[name].name, list(shapes[name][1:]), self._prefix, dtype, list(row_shape)))
        keys, rows = self._all_keys(reader, shapes, dtypes)
        mine = self._wanted.mine(keys, self._rank, self._ranks)
        self._keys, self._rows, self.total = keys[mine], rows[mine], len(mine)
        needed = self.total if self._wanted.use_hashtable else self._wanted.rows_for(
            int(self._keys.max(initial=-1)), self._ranks)
        if needed > self._wanted.rows:
            raise MismatchError((
                "{} has {} rows of table '{}' for rank {} of {}, and its shard has {} rows{}: {}.").format(
                    self._prefix, needed, self._table.name, self._rank, self._ranks, self._wanted.rows,
                    " at most" if self._wanted.grows else "", self._wanted.remedy(needed)))

    def chunks(self) -> Iterator[Tuple[np.ndarray, Dict[str, np.ndarray]]]:
        """As `TableSource.chunks`."""
        reader = tf.train.NewCheckpointReader(self._prefix)
        values = {}
        for part, name in self._names().items():  # one whole variable at a time
            values[part] = reader.get_tensor(name)[self._rows]
        for first in range(0, self.total, _CHUNK_ROWS):
            piece = slice(first, first + _CHUNK_ROWS)
            yield self._keys[piece], {part: rows[piece] for part, rows in values.items()}

    def unused(self) -> None:
        """Rows without a key are another rank's there."""

    def _names(self) -> Dict[str, str]:
        """{part: its variable's name in the checkpoint}."""
        names = {shard_names.ROWS: self._name_of(self._table.variable)}
        names.update((part, self._name_of(variable)) for part, variable in self._table.parts.items())
        return {part: name for part, name in names.items() if part not in self._without}

    def _name_of(self, variable: Any) -> str:
        return former_names.saved_as(variable.op.name, self._saved, [self._table.variable])

    def _all_keys(self, reader: Any, shapes: Dict[str, Any], dtypes: Dict[str, Any]) -> Tuple[np.ndarray, np.ndarray]:
        """Keys int64 [n] and their rows, in the order of rows."""
        name = self._name_of(self._table.variable)
        hashed = has_index(name, shapes, dtypes)
        if hashed != self._wanted.use_hashtable:
            raise MismatchError("table '{}' has use_hashtable={} in {}, and {} in the model.".format(
                name, hashed, self._prefix, self._wanted.use_hashtable))
        if not hashed:
            if self._wanted.keys not in (None, shapes[name][0]):
                raise MismatchError("'{}' has {} rows in {}, and {} in the model.".format(
                    name, shapes[name][0], self._prefix, self._wanted.keys))
            every = np.arange(shapes[name][0])
            return every, every
        index = reader.get_tensor(name + "/index")
        index = index[index[:, 1] >= 0]
        index = index[index[:, 1].argsort(kind="stable")]
        keys = index[:, 0]
        owners = np.unique(keys % self._ranks)
        if self._ranks > 1 and len(keys) >= _TELLING and len(owners) == 1 and RANKS not in shapes:
            raise MismatchError((
                "All {} keys of table '{}' in {} belong to rank {} of {}, and this checkpoint does not say whether it "
                "is whole. If one rank alone has saved it, and the table has no other keys: restore it on one rank, "
                "save it there anew with this sok1x (tf.train.Saver, checkpoint_dir or sok.CheckpointManager), and "
                "restore that here. If several ranks of sok1x 0.1 have saved over each other's files, it is that "
                "rank's shard, and the other rows are not in it: restore a checkpoint that all ranks have saved "
                "together.").format(len(keys), name, self._prefix, owners[0], self._ranks))
        return keys, index[:, 1]
