"""Distinct row numbers that our own ops have made in a run, by where they lie: what has been fed lies elsewhere.

They are remembered in C++ (bridge/known_distinct.h), which makes most of them.
"""
from typing import Any, Dict

from sok1x.graph_ops.stores.table import Table

_numbers: Dict[str, int] = {}  # of tables, by name


def number(table: str) -> int:
    """The number by which a table, given by its name, is known there."""
    return _numbers.setdefault(table, len(_numbers))


def note(request: Any, table: Table, rows: Any) -> None:
    """Remembers `rows`, an int32 `Array` in which this request gives distinct rows of `table`."""
    note_at(request, table.name, rows.pointer, rows.size)


def note_at(request: Any, table: str, pointer: int, size: int) -> None:
    """As `note`, for int32 [size] at `pointer` and a table's name."""
    request.library.note_distinct(number(table), request.step, pointer, size)


def noted(request: Any, table: Table, rows: Any) -> bool:
    """Whether `rows` is such an `Array`, made in the same run. Where runs of one table overlap it may say no."""
    return rows.dtype == "int32" and noted_at(request, table.name, rows.pointer, rows.size)


def noted_at(request: Any, table: str, pointer: int, size: int) -> bool:
    """As `noted`, for int32 [size] at `pointer` and a table's name."""
    return bool(request.library.noted_distinct(number(table), request.step, pointer, size))
