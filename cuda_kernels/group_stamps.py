"""Rows of many tables narrowed to 32 bits and stamped (group_stamps.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_move_clocks", None, POINTER, INT64, threads=lambda a: a[1])
declare("group_stamp_rows", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_stamp_member_bytes", INT64)

# What `stamp` takes of each member:
#   values      pointer to int64 [n], row numbers; 0: `rows` are given
#   rows        pointer to int32 [n]; with `values` out: the same numbers
#   stamps      pointer to int64 [table_rows], changed; 0: nothing is stamped, and what follows is not read
#   table_rows  rows of the table; those outside it are left out
#   clock       pointer to an int64, changed: the last step at which the table changed
#   ahead       steps by which the clock moves on
#   at_least    the least step that it shows afterwards
STAMP = groups.record("values", "rows", "n", "stamps", "table_rows", "clock", "ahead", "at_least")


def stamp(members: np.ndarray) -> None:
    """Moves clocks, max(*clock + ahead, at_least), and stamps rows with their step, as `stamps.advance` and
    `stamps.stamp_rows` for each member; before that narrows rows as `row_numbers.narrow`.

    Args:
        members: STAMP [T]. Those of one table share its clock; at most one of them moves it ahead, and `at_least` is
            the same for all.
    """
    group_steps.run("stamp", members)
