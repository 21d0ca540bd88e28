"""Distinct row numbers that our own ops have made in a run, by where they lie: what has been fed lies elsewhere."""
from typing import Any, Dict, Set, Tuple

from sok1x.graph_ops.stores.table import Table

# table's name -> (the run that has made its last ones, {(address, length) of each})
_made: Dict[str, Tuple[int, Set[Tuple[int, int]]]] = {}
_NONE: Tuple[int, Set[Tuple[int, int]]] = (-1, set())  # no run has this number


def note(request: Any, table: Table, rows: Any) -> None:
    """Remembers `rows`, an int32 `Array` in which this request gives distinct rows of `table`."""
    note_at(request, table.name, rows.pointer, rows.size)


def note_at(request: Any, table: str, pointer: int, size: int) -> None:
    """As `note`, for int32 [size] at `pointer` and a table's name."""
    run, made = _made.get(table, _NONE)
    if run != request.step:
        made = set()
        _made[table] = request.step, made
    made.add((pointer, size))


def noted(request: Any, table: Table, rows: Any) -> bool:
    """Whether `rows` is such an `Array`, made in the same run. Where runs of one table overlap it may say no."""
    return rows.dtype == "int32" and noted_at(request, table.name, rows.pointer, rows.size)


def noted_at(request: Any, table: str, pointer: int, size: int) -> bool:
    """As `noted`, for int32 [size] at `pointer` and a table's name."""
    run, made = _made.get(table, _NONE)
    return run == request.step and (pointer, size) in made
