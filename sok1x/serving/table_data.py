"""A table's tensors, on their way into the files of a SavedModel's variables."""
from typing import Any, Iterable, List, Optional, Tuple

import numpy as np

from sok1x.checkpoint.errors import CheckpointError
from sok1x.serving.bundles import BundleWriter
from sok1x.serving.sources import TableFacts
from sok1x.serving.tables import Served

_MOST_HALF = 65504.0
_NARROW = 2 ** 31 - 2  # row numbers that int32 has


def write(writer: BundleWriter, served: Served, facts: TableFacts, chunks: Iterable[Tuple[np.ndarray, np.ndarray]],
          default: np.ndarray) -> None:
    """Streams a table's rows, and then its keys.

    Memory: 36 bytes a key, while they are sorted and written.

    Args:
        writer: of the bundle.
        served: how the table is served.
        facts: how many rows there are, at most.
        chunks: (keys int64 [n], rows float32 [n, D]).
        default: float32 [D], row 0 of a table of keys.

    Raises:
        CheckpointError: a row does not fit float16, or the system refuses to write.
    """
    name, first = served.tensor("rows"), 0
    if not served.hashed:
        for keys, rows in chunks:
            writer.add(name, stored(served, rows, keys), (facts.most, served.dim), first)
            first += len(rows)
        return
    shape, found = (facts.most + 1, served.dim), []
    writer.add(name, stored(served, default[np.newaxis], None), shape)
    for keys, rows in chunks:
        writer.add(name, stored(served, rows, keys), shape, first + 1)
        found.append(np.array(keys))
        first += len(keys)
    if first < facts.most:  # keys that several ranks had; a bundle must have all of a tensor
        for start in range(first, facts.most, 1 << 16):
            rest = np.zeros([min(1 << 16, facts.most - start), served.dim], served.row_dtype)
            writer.add(name, rest, shape, start + 1)
    write_index(writer, served, found)


def write_index(writer: BundleWriter, served: Served, parts: List[np.ndarray],
                numbers: Optional[np.ndarray] = None) -> None:
    """The tensors of keys in ascending order.

    Args:
        writer: of the bundle.
        served: how the table is served.
        parts: the keys, int64 [n] in all; it is emptied.
        numbers: their rows', int64 [n]; None: 1 to n.
    """
    keys = np.concatenate([np.zeros([0], np.int64)] + parts)
    del parts[:]
    if not len(keys):
        keys, numbers = np.zeros([1], np.int64), np.zeros([1], np.int64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    writer.add(served.tensor("keys"), keys)
    del keys
    if numbers is None:
        order += 1
        numbers = order
    else:
        numbers = numbers[order]
    writer.add(served.tensor("row_numbers"), numbers.astype(served.number_dtype))


def is_wide(facts: TableFacts) -> bool:
    """Whether row numbers are int64."""
    return facts.most > _NARROW


def stored(served: Served, rows: np.ndarray, keys: Any) -> np.ndarray:
    """Rows as they are stored. Raises CheckpointError where a number is too large for float16."""
    rows = np.array(rows)  # the reader's buffer is used again
    if served.storage == "float32":
        return rows
    large = np.abs(rows) > _MOST_HALF
    large &= np.isfinite(rows)
    if large.any():
        row, column = np.argwhere(large)[0]
        raise CheckpointError("Table '{}' has {!r} in column {} of {}, and float16 has numbers up to 65504: export it "
                              "with storage='float32'.".format(
                                  served.name, float(rows[row, column]), column,
                                  "its default row" if keys is None else "the row of key {}".format(keys[row])))
    with np.errstate(over="ignore"):
        return rows.astype(np.float16).view(np.int16)


def default_row(served_dim: int, label: str, value: Any) -> np.ndarray:
    """float32 [D] from a number or [D].

    Raises:
        ValueError: it is of another shape.
    """
    row = np.asarray(value, np.float32)
    if row.shape not in ((), (1,), (served_dim,)):
        raise ValueError("sok1x.serving.export_saved_model: unseen: got {} of shape {}, expected a number or "
                         "[{}]".format(label, list(row.shape), served_dim))
    return np.broadcast_to(row, [served_dim]).copy()
