"""Optimizers' steps on rows of many tables at once (group_update.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_descend", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_lazy_adam", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_update_member_bytes", INT64)

# What the steps take of each member:
#   values      pointer to float32 [n, dim], the gradients
#   dim         floats of a row
#   rows        pointer to int32 [n], distinct; those outside the table are left out
#   n           rows with a gradient
#   scalar0...  pointers to one float32 each: the rate; or as for `adam.lazy_adam`
#   table_rows  rows of the table
#   table, slot0, slot1  pointers to float32 [table_rows, dim], changed; of the slots those that the step has
UPDATE = groups.record("values", "dim", "rows", "n", *["scalar{}".format(i) for i in range(6)], "table_rows", "table",
                       "slot0", "slot1")


def descend(members: np.ndarray) -> None:
    """As `update.descend` for each member. members: UPDATE [T]."""
    group_steps.run("descend", members)


def lazy_adam(members: np.ndarray) -> None:
    """As `adam.lazy_adam` for each member. members: UPDATE [T]."""
    group_steps.run("lazy_adam", members)
