"""Export of tables as a TensorFlow checkpoint of dense variables, for stock `tf.nn.embedding_lookup`."""
import contextlib
import glob
import os
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError, NotFoundError
from sok1x.checkpoint.files import folders, outputs
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.table_rows import TableRows
from sok1x.checkpoint.progress import Progress, size

# A table without --rows may be this much larger than the rows that are in use, or this large.
_SPARSEST = 16
_SMALL = 1 << 30
_ENTRY = 4096  # bytes of a small file


def tensorflow(tables: List[TableRows], output: str, progress: Progress, rows: Optional[int],
               compact: bool, dense_of: Optional[Checkpoint] = None) -> List[str]:
    """Writes one variable NAME, float32 [rows, D], for each table; returns the files.

    Row i is key i, and zeros where there is no such key; with `compact`, rows are in ascending order of their keys,
    which are the variable NAME/keys, int64 [n]. One table at a time is held in memory, as whoever serves it will.

    Args:
        tables: The tables.
        output: The checkpoint's prefix.
        progress: Is called with bytes that were read.
        rows: Rows of the variable; None for the greatest key + 1.
        compact: Whether only keys that are there get a row.
        dense_of: The checkpoint whose dense variables are to be there too, under their names; None: of none.

    Raises:
        CheckpointError: A key does not fit, a file is damaged, or the system refuses.
    """
    # Before anything is written.
    if compact:
        _expect_names_of_keys(tables)
    extents = [table.count if compact else _extent(table, rows) for table in tables]
    outputs.make_folder(os.path.dirname(output))
    tf = _import_tensorflow()
    others = {} if dense_of is None else _dense_variables(tf, dense_of)
    with outputs.folder_beside(output) as folder:
        parts = [os.path.join(folder, "part-{}".format(number)) for number in range(len(tables))]
        for table, extent, part in zip(tables, extents, parts):
            _save(tf, part, _compacted(table, progress) if compact else _dense(table, extent, progress), output)
        if others:
            parts.append(os.path.join(folder, "others"))
            _save(tf, parts[-1], others, output)
        merged = os.path.join(folder, "merged")
        with _session(tf, output, _ENTRY) as session:
            session.run(tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=merged))
        return _move(merged, output)


def _expect_names_of_keys(tables: List[TableRows]) -> None:
    """Raises CheckpointError where the variable of a table's keys would have the name of another table."""
    names = {table.name for table in tables}
    for name in sorted(names):
        if name + "/keys" in names:
            raise CheckpointError("With --compact the keys of table '{0}' would be a variable '{0}/keys', as the table "
                                  "of that name: export the two one after the other, with --table.".format(name))


def _extent(table: TableRows, rows: Optional[int]) -> int:
    """Rows of the dense variable of a table, all of whose keys fit."""
    least, greatest = table.key_range() or (0, -1)
    extent = greatest + 1 if rows is None else rows
    unfit = least if least < 0 else greatest if greatest >= extent else None
    if unfit is not None:
        raise CheckpointError("Table '{}' has the key {}, and row i of {} rows holds key i: use --compact{}.".format(
            table.name, unfit, extent, "" if unfit < 0 else ", or --rows of at least {}".format(greatest + 1)))
    if rows is None and extent * 4 * table.dim > max(_SMALL, _SPARSEST * table.bytes):
        raise CheckpointError(
            "Table '{}' has {} keys, the greatest of which is {}: a row for each key up to that takes {}. Use "
            "--compact, or --rows {} if that is meant.".format(
                table.name, table.count, greatest, size(extent * 4 * table.dim), extent))
    return extent


def _zeros(shape: Tuple[int, ...], table: TableRows) -> np.ndarray:
    try:
        return np.zeros(shape, np.float32)
    except (MemoryError, ValueError):
        raise CheckpointError("There is no memory for table '{}' as float32 {}.".format(
            table.name, list(shape))) from None


def _dense(table: TableRows, extent: int, progress: Progress) -> Dict[str, np.ndarray]:
    values = _zeros((extent, table.dim), table)
    for keys, rows in _pairs(table):
        values[keys] = rows
        progress(rows.nbytes + keys.nbytes)
    return {table.name: values}


def _compacted(table: TableRows, progress: Progress) -> Dict[str, np.ndarray]:
    keys = np.sort(np.concatenate([np.empty(0, np.int64)] + list(table.keys())))
    values = _zeros((len(keys), table.dim), table)
    for some, rows in _pairs(table):
        values[np.searchsorted(keys, some)] = rows
        progress(rows.nbytes + some.nbytes)
    return {table.name: values, table.name + "/keys": keys}


def _pairs(table: TableRows) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """(keys, rows) in chunks of the rows."""
    keys, left = table.keys(), np.empty(0, np.int64)
    for rows in table.values():
        while len(left) < len(rows):
            left = np.concatenate([left, next(keys)])
        yield left[:len(rows)], rows
        left = left[len(rows):]


def _dense_variables(tf: Any, checkpoint: Checkpoint) -> Dict[str, np.ndarray]:
    """All but what tables have beside their rows. Raises CheckpointError where a file is damaged, or is not there."""
    from sok1x.checkpoint.session import dense_saver  # imports TensorFlow
    for name in checkpoint.manifest.other_files():
        checkpoint.check_other(name)
    prefix = dense_saver.dense_prefix(checkpoint)
    if not os.path.isfile(prefix + ".index"):
        raise NotFoundError("There are no dense variables in {}: leave out --dense.".format(checkpoint.folder))
    reader = tf.train.NewCheckpointReader(prefix)
    beside = {table + end for table in checkpoint.manifest.tables for end in ("", "/keys", "/steps")}
    return {name: _array(reader.get_tensor(name)) for name in sorted(reader.get_variable_to_shape_map())
            if name not in beside}


def _array(value: Any) -> np.ndarray:
    """What a reader gives: an array, or a scalar, which a string is as bytes. NumPy's own strings end before zeros."""
    return np.asarray(value, object if isinstance(value, bytes) else None)


def _import_tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow.compat.v1 as tf
    return tf


@contextlib.contextmanager
def _session(tf: Any, output: str, wanted: int) -> Iterator[Any]:
    """A session in a graph of its own, on the CPU alone: its memory is what is written, and a GPU may be in use.

    wanted: about how many bytes it writes.
    """
    from sok1x.checkpoint import tensorflow_errors  # imports TensorFlow
    from sok1x.core.tables import own_sessions
    with tf.Graph().as_default(), tf.Session(config=own_sessions.config()) as session:
        with tensorflow_errors.refusals(output, wanted):
            yield session


def _save(tf: Any, prefix: str, variables: Dict[str, np.ndarray], output: str) -> None:
    with _session(tf, output, sum(value.nbytes for value in variables.values())) as session:
        # Fed, as constants of a graph may have 2 GB at most.
        fed = {tf.placeholder(value.dtype, value.shape): value for value in variables.values()}
        session.run(tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(variables), shape_and_slices=[""] * len(fed),
                                      tensors=list(fed)), fed)


def _move(merged: str, output: str) -> List[str]:
    """Gives the files their names, the index last: without it there is no checkpoint.

    Those of an earlier export are put beside `merged` before, its index first, and back where that fails.
    """
    paths: List[str] = []
    away: List[Tuple[str, str]] = []  # (file of the earlier export, where it is meanwhile)
    made = sorted(glob.glob(glob.escape(merged) + ".data-*")) + [merged + ".index"]
    for path in made:
        folders.fsync_file(path)
    try:
        for path in [output + ".index"] + sorted(glob.glob(glob.escape(output) + ".data-*-of-*")):
            if os.path.isfile(path):
                away.append((path, os.path.join(os.path.dirname(merged), "earlier-{}".format(len(away)))))
                _rename(*away[-1])
        for path in made:
            paths.append(output + path[len(merged):])
            _rename(path, paths[-1])
    except BaseException:  # Ctrl-C, too
        with contextlib.suppress(OSError):
            for path in paths[:-1]:
                os.unlink(path)
            for path, meanwhile in reversed(away):
                if os.path.lexists(meanwhile):
                    os.rename(meanwhile, path)
        raise
    return paths


def _rename(path: str, target: str) -> None:
    try:
        os.replace(path, target)
    except OSError as error:
        raise errors.of_write(error, target) from None
