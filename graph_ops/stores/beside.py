"""What a table that grows has beside its rows, and the names by which that is found.

An op has its variables for good when it is built; growth finds the others by name. What is looked for is what the
table's description says that it has, and no more: whatever else is called NAME/… belongs to others, as to a table that
is called so, or to a user's scope NAME. In a graph a variable's name is its op's, NAME/stamps of a table NAME; a table
whose variable would get another is refused (core/tables/table_root.py). An eager one has a name of ours, with a
character that no table's name has: there another table may be called NAME/stamps.
"""
from typing import Any, Dict, Tuple

from sok1x.graph_ops.bridge.growing import EAGER
from sok1x.graph_ops.stores.table import Table

INDEX = "index"
START = "start"  # float32 [n, D]: where it is there, row k begins with its row k % n
EVERY = "every"  # the index of all keys of a table with a cache: cache.py
# What new rows have in variables with V rows, by their names beside the rows' ("" for these).
_PARALLEL: Dict[str, float] = {"": 0, "stamps": 0, "used": 0, "free": 0, "frequency": 0}
_OF_FORGETTING = ("used", "free", "frequency")
_APART = "\\"


def name_of(table: Table, beside: str) -> str:
    """The name of a table's variable, for messages; beside: its name beside the rows', '' for the rows."""
    return "{}/{}".format(table.name, beside) if beside else table.name


def place_of(table: Table, beside: str) -> Tuple[str, str]:
    """(the container of a table's variable, its name there)."""
    container = "" if table.growth is None else table.growth.container
    if container == EAGER and beside:
        return container, table.name + _APART + beside
    return container, name_of(table, beside)


def column_of(table: Table, name: str) -> str:
    """The name of a column of the table's rows in host memory, for `rows` or what lies beside them: its variable's, as
    of an optimizer's slot. What saves and loads a table holds both as slots (cached_store.py: held_columns)."""
    return place_of(table, "" if name == "rows" else name)[1]


def apart(table: Table, name: str) -> str:
    """The name of a column that no variable has: no optimizer's slot is called so."""
    return table.name + _APART + name


def shown(column: str) -> str:
    """A column's name, for messages."""
    return column.replace(_APART, "/")


def parallel(table: Table) -> Dict[str, float]:
    """What new rows have in the table's variables with V rows."""
    return {beside: value for beside, value in _PARALLEL.items() if beside not in _OF_FORGETTING or (
        table.forgetting is not None and table.forgetting.shape_of(beside, None) is not None)}


def places(table: Table) -> Dict[Any, Tuple[str, str]]:
    """{name beside the rows': `place_of`} of all that growth looks for."""
    others = [INDEX] * table.hashed + [START] * table.by_row + [EVERY] * (table.cache is not None)
    return {beside: place_of(table, beside) for beside in (*parallel(table), *others)}
