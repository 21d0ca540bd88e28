"""What is counted of a table's lookups and exchanges in this process, for summaries. C++ counts too (groups/lane_op.h).

Numbers count up, over all sessions, from when the table's first op has been run; nobody sets them back. Who wants to
know what a step has brought looks twice.
"""
import contextlib
import ctypes
import functools
from typing import Any, Callable, Dict, Iterator

import numpy as np

# Places. Of batches whose distinct keys have been counted, which on one rank training's are alone: how many keys, and
# how many of them were distinct. Bytes of keys, rows and gradients that went to other ranks, and that came from them.
# How long lookups and gradients have waited until all ranks were there, in microseconds; those of many tables at the
# same time each count all of it. Lookups and gradients that other ranks were asked for.
KEYS, DISTINCT, SENT, RECEIVED, WAITED, EXCHANGES = range(6)
NAMES = ("keys", "distinct", "sent", "received", "waited", "exchanges")
_counted: Dict[str, Any] = {}
_aside: Dict[str, np.ndarray] = {}  # what of it is none of training's


def of(table: str) -> Any:
    """int64 [6]: of all tables of that name."""
    return _counted.setdefault(table, (ctypes.c_int64 * len(NAMES))())


def read(table: str) -> np.ndarray:
    """float64 [6]: what has been counted of all tables of that name, but for what is left aside."""
    return np.array(of(table), np.float64) - _aside.get(table, 0.0)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """What is counted inside is left aside at its end: an evaluation's tables have the names of those that train."""
    before = {table: read(table) for table in list(_counted)}
    try:
        yield
    finally:
        for table in list(_counted):
            _aside[table] = _aside.get(table, 0.0) + read(table) - before.get(table, 0.0)


def batch(table: str, keys: int, distinct: int) -> None:
    """A batch has so many keys."""
    counted = of(table)
    counted[KEYS] += keys
    counted[DISTINCT] += distinct


def asked(table: str, rank: int, sends: Any, receives: Any, row_bytes: int, keys: bool) -> None:
    """Rows, or their gradients, have gone between this rank and others, each by its number in `sends` or `receives`.

    Args:
      sends: int64 [N], keys that this rank asks each for. receives: that each asks this one for.
      row_bytes: of a row as it travels.
      keys: a lookup, in which keys go that way and rows come back; else gradients go where the keys went.
    """
    out, back = (int(sum(counts) - counts[rank]) for counts in (sends, receives))
    moved(table, 8 * out + row_bytes * back if keys else row_bytes * out,
          8 * back + row_bytes * out if keys else row_bytes * back)


def moved(table: str, sent: int, received: int) -> None:
    """So many bytes have gone to other ranks, and come from them."""
    counted = of(table)
    counted[SENT] += sent
    counted[RECEIVED] += received


def waits_of(config: Any) -> Callable[[float], None]:
    """What is to be told how many seconds an op, given its config, has waited for other ranks."""
    return functools.partial(_waited, of(config.table.name))


def _waited(counted: Any, seconds: float) -> None:
    counted[WAITED] += int(seconds * 1e6)
    counted[EXCHANGES] += 1
