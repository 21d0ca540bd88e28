"""Served models brought up to date with rows that have changed since they were exported."""
import json
import os
import secrets
import shutil
from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np

from sok1x import launch
from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError, DamagedError, NotFoundError
from sok1x.checkpoint.files import folders, urls
from sok1x.graph_ops.bridge.tensorflow_versions import saved_model_pb2
from sok1x.serving import bundles, saved_models, table_data
from sok1x.serving.readers import Reader
from sok1x.serving.tables import ROOT, Served, absent_of, unmixed

__all__ = ["update_saved_model"]

_CHUNK_BYTES = 8 << 20
_FUNCTION = "sok1x.serving.update_saved_model"


def update_saved_model(model_dir: str, export_dir: str, changes: Optional[Dict[str, Tuple[Any, Any]]] = None,
                       evicted: Optional[Dict[str, Any]] = None) -> str:
    """Writes a SavedModel that `export_saved_model` has made anew, with some rows changed, added or taken out.

    The rows are those that `sok.incremental_dump` gives, or `sok.incremental_model_dump`, or `sok.export`. On several
    ranks one of them alone calls this, with the changes of all put together: nothing is sent between ranks here. Graph
    and dense variables stay as they are. It is a new folder, as TensorFlow Serving wants a model's next version to be;
    all of it is written, a stretch at a time, in memory for the changes and 44 bytes for each key of a table.

    Args:
        model_dir: the SavedModel.
        export_dir: the new one's folder, which must not be there; it appears whole.
        changes: {table: (keys, rows)}, integers [n], each once, and floats [n, D].
        evicted: {table: keys}, integers [n], that are to have no row any more: of `sok.evicted_keys`. They read what
            unseen keys read, unless the changes have them too.

    Returns:
        export_dir.

    Raises:
        ValueError: keys and rows that do not fit each other, or the table.
        sok1x.checkpoint.errors.CheckpointError: the SavedModel has no such table, or is damaged; or export_dir cannot
            be written.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import tensorflow.compat.v1 as tf
        >>> import sok1x as sok
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tf.Graph().as_default(), tf.Session() as session:
        ...         items = sok.DynamicVariable(dimension=2, name="items")
        ...         train = sok.assign(items, tf.constant([7, 9], tf.int64), tf.ones([2, 2]))
        ...         session.run(tf.global_variables_initializer())
        ...         _ = session.run(train)
        ...         _ = sok.CheckpointManager(folder + "/saved").save(session, 1)
        ...         _ = sok.serving.export_saved_model(folder + "/1", folder + "/saved", unseen=0.0)
        ...         keys, rows = np.array([9, 2 ** 40]), np.array([[1.0, 2.0], [3.0, 4.0]])  # of sok.incremental_dump
        ...     _ = sok.serving.update_saved_model(folder + "/1", folder + "/2", {"items": (keys, rows)})
        ...     with tf.Graph().as_default(), tf.Session() as session:
        ...         signature = tf.saved_model.load(session, ["serve"], folder + "/2").signature_def["items"]
        ...         session.run(signature.outputs["rows"].name,
        ...                     {signature.inputs["keys"].name: [7, 9, 2 ** 40, 8]}).tolist()
        [[1.0, 1.0], [1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
    """
    model_dir = urls.folder(_FUNCTION + ": model_dir", os.fspath(model_dir))
    final = urls.folder(_FUNCTION + ": export_dir", os.fspath(export_dir))
    served = _read_facts(model_dir)
    wanted = {name: (_keys(name, "changes", keys), np.asarray(rows)) for name, (keys, rows) in (changes or {}).items()}
    gone = {name: _keys(name, "evicted", keys) for name, keys in (evicted or {}).items()}
    for name in list(wanted) + list(gone):
        if name not in served:
            raise NotFoundError("{} has no table '{}'; it has {}.".format(
                model_dir, name, ", ".join(sorted(served)) or "none"))
        _check(served[name], wanted.get(name), gone.get(name))
    _check_new(final)
    final = os.path.abspath(final)
    partial = os.path.join(os.path.dirname(final), ".{}.{}.tmp".format(os.path.basename(final), secrets.token_hex(4)))
    try:
        try:
            shutil.copytree(model_dir, partial,
                            ignore=lambda folder, names: ["variables"] if folder == model_dir else [])
            _let_write(partial)
            os.mkdir(os.path.join(partial, "variables"))
            os.mkdir(os.path.join(partial, "parts"))
        except OSError as error:
            raise errors.of_write(error, partial) from None
        _leave_out_debug_names(os.path.join(partial, "saved_model.pb"), model_dir)
        _rewrite(os.path.join(model_dir, "variables", "variables"), partial, served, wanted, gone)
        shutil.rmtree(os.path.join(partial, "parts"))
        _check_new(final)  # another rank may have been as quick
        saved_models.publish(partial, final)
    finally:
        _let_write(partial)  # of one that has been copied in part
        shutil.rmtree(partial, ignore_errors=True)
    return export_dir


def _let_write(copy: str) -> None:
    """Lets this process write to a copy's folders, which has the modes of a model that may be protected."""
    for folder, _, _ in os.walk(copy):
        folders.let_write(folder)


def _check_new(export_dir: str) -> None:
    """Raises WriteError where the new folder is there."""
    if os.path.lexists(export_dir):
        world = launch.current()
        raise errors.WriteError("Cannot write {}: it is there already; write to a new folder, as one with the next "
                                "number.{}".format(export_dir, "" if world is None or world.size == 1 else
                                                   " On several ranks one of them alone calls this, with the changes "
                                                   "of all."))


def _read_facts(model_dir: str) -> Dict[str, Served]:
    path = os.path.join(model_dir, saved_models.TABLES_FILE)
    try:
        with open(path) as file:
            found = json.load(file)
        if found["format"] != 1:
            raise ValueError("its format is {!r}, and 1 is expected".format(found["format"]))
        return {name: Served(name, int(one["dim"]), bool(one["hashed"]), str(one["storage"]), None, str(one["index"]),
                             bool(one["wide"]), absent_of(one["absent"])) for name, one in found["tables"].items()}
    except FileNotFoundError:
        raise NotFoundError("{} is not there: {} is no SavedModel that sok1x.serving has exported.".format(
            path, model_dir)) from None
    except OSError as error:
        raise DamagedError("Cannot read {}: {}.".format(path, error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError("{} is damaged: {}.".format(path, error)) from None


def _keys(name: str, what: str, given: Any) -> np.ndarray:
    """Keys of a table, int64 [n]: NumPy compares those of another type with the model's as float64."""
    keys, label = np.asarray(given), "{}: table '{}': {}".format(_FUNCTION, name, what)
    if keys.ndim != 1 or (keys.size and not np.issubdtype(keys.dtype, np.integer)):
        raise ValueError("{}: got keys of dtype {} and shape {}, expected integers [n]".format(
            label, keys.dtype, list(keys.shape)))
    if keys.size and int(keys.max()) > np.iinfo(np.int64).max:
        raise ValueError("{}: got key {}, expected keys below 2^63".format(label, keys.max()))
    return keys.astype(np.int64)


def _check(served: Served, changes: Any, gone: Any) -> None:
    label = "{}: table '{}'".format(_FUNCTION, served.name)
    if gone is not None and not served.hashed:
        raise ValueError("{}: evicted: got keys of a table in which every key has a row".format(label))
    if changes is None:
        return
    keys, rows = changes
    if rows.shape != (len(keys), served.dim):
        raise ValueError("{}: changes: got rows of shape {} for {} keys, expected [{}, {}]".format(
            label, list(rows.shape), len(keys), len(keys), served.dim))
    ordered = np.sort(keys)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise ValueError("{}: changes: got key {} more than once, expected each key once".format(label, twice[0]))
    reserved = [int(unmixed(np.int64(one))) for one in served.absent] if served.find_by == "table" else []
    if served.hashed and reserved and np.isin(keys, reserved).any():
        raise ValueError("{}: changes: got a key that the model's hash table reserves ({}): export the model anew from "
                         "a checkpoint that has it".format(label, ", ".join(map(str, reserved))))


def _leave_out_debug_names(path: str, model_dir: str) -> None:
    """Of a model that an earlier sok1x has written, at `path` a copy: see `saved_models.leave_out_debug_names`."""
    if not os.path.isfile(path):
        return
    model = saved_model_pb2.SavedModel()
    try:
        with open(path, "rb") as file:
            model.ParseFromString(file.read())
    except Exception as error:  # protobuf's own, too
        raise DamagedError("Cannot read {}: {}.".format(os.path.join(model_dir, os.path.basename(path)),
                                                        error)) from None
    before = model.ByteSize()
    saved_models.leave_out_debug_names(model)
    if model.ByteSize() != before:
        try:
            os.remove(path)  # which may be read-only, as what it is a copy of
            with open(path, "xb") as file:
                file.write(model.SerializeToString())
        except OSError as error:
            raise errors.of_write(error, path) from None


def _rewrite(prefix: str, partial: str, served: Dict[str, Served], wanted: Dict[str, Any],
             gone: Dict[str, np.ndarray]) -> None:
    """Writes all of the bundle's tensors anew."""
    reader = Reader(prefix)
    writer = bundles.BundleWriter(os.path.join(partial, "parts"), os.path.join(partial, "variables", "variables"))
    for name in sorted(reader.shapes):
        if not name.startswith(ROOT + "/"):
            writer.add(name, reader.get_tensor(name))
    for name, one in served.items():
        old = _OldTable(reader, one)
        keys, rows = wanted.get(name, (np.zeros([0], np.int64), np.zeros([0, one.dim], np.float32)))
        if one.hashed:
            _rewrite_hashed(writer, one, old, keys, rows, gone.get(name))
            continue
        if len(keys) and (keys.min() < 0 or keys.max() >= old.rows):
            raise ValueError("{}: table '{}': changes: got key {}, expected keys in [0, {})".format(
                _FUNCTION, name, keys.min() if keys.min() < 0 else keys.max(), old.rows))
        _write_rows(writer, one, old, old.rows, keys, keys, rows)
    writer.finish()


class _OldTable:
    """A table in the bundle as it is.

    Attributes:
        rows: how many it has.
    """

    def __init__(self, reader: Reader, served: Served) -> None:
        self._served, self._reader = served, reader
        shape = reader.shapes.get(served.tensor("rows"))
        if shape is None or shape[1:] != [served.dim]:
            raise DamagedError("{} has rows of table '{}' of shape {}, and [n, {}] is expected.".format(
                reader.prefix, served.name, shape, served.dim))
        self.rows = shape[0]

    def index(self) -> Tuple[np.ndarray, np.ndarray]:
        """Keys and row numbers, those that have one."""
        keys, numbers = (self._reader.get_tensor(self._served.tensor(part)) for part in ("keys", "row_numbers"))
        there = numbers > 0
        return keys[there], numbers[there].astype(np.int64)

    def chunks(self) -> Iterator[Tuple[int, np.ndarray]]:
        """(first row, rows) as they are stored."""
        dtype = np.dtype(self._served.row_dtype)
        step = max(1, _CHUNK_BYTES // (dtype.itemsize * self._served.dim))
        for first in range(0, self.rows, step):
            yield first, bundles.read_slice(self._reader.prefix, self._served.tensor("rows"),
                                            (self.rows, self._served.dim), first, min(step, self.rows - first), dtype)


def _rewrite_hashed(writer: bundles.BundleWriter, served: Served, old: _OldTable, changed: np.ndarray,
                    rows: np.ndarray, gone: Optional[np.ndarray]) -> None:
    keys, numbers = old.index()
    if gone is not None and len(gone):
        stay = ~np.isin(keys, np.setdiff1d(gone, changed))
        keys, numbers = keys[stay], numbers[stay]
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], numbers[order]
    places = np.searchsorted(keys, changed)
    known = np.zeros([len(changed)], bool)
    if len(keys):
        known = keys[np.minimum(places, len(keys) - 1)] == changed
    at = np.zeros([len(changed)], np.int64)
    at[known] = numbers[places[known]]
    new = int((~known).sum())
    free = np.setdiff1d(np.arange(1, old.rows, dtype=np.int64), numbers, assume_unique=True)[:new]
    more = new - len(free)
    if not served.wide and old.rows + more > 2 ** 31 - 1:
        raise CheckpointError("Table '{}' has row numbers of 32 bits, and {} rows are too many for these: export the "
                              "model anew from a checkpoint.".format(served.name, old.rows + more))
    at[~known] = np.concatenate([free, old.rows + np.arange(more)])
    _write_rows(writer, served, old, old.rows + more, at, changed, rows)
    table_data.write_index(writer, served, [keys, changed[~known]], np.concatenate([numbers, at[~known]]))


def _write_rows(writer: bundles.BundleWriter, served: Served, old: _OldTable, total: int, at: np.ndarray,
                keys: np.ndarray, rows: np.ndarray) -> None:
    """All rows, those `at` some places new, of these keys."""
    order = np.argsort(at, kind="stable")
    at, rows = at[order], table_data.stored(served, rows.astype(np.float32), keys)[order]
    shape, name = (total, served.dim), served.tensor("rows")
    for first, chunk in old.chunks():
        begin, end = np.searchsorted(at, [first, first + len(chunk)])
        chunk[at[begin:end] - first] = rows[begin:end]
        writer.add(name, chunk, shape, first)
    begin = int(np.searchsorted(at, old.rows))
    if total > old.rows:
        writer.add(name, rows[begin:], shape, old.rows)
