"""Initial values of many tables' rows, for keys that have none (group_initial.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_initial", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_initial_member_bytes", INT64)

# What `initial` takes of each member:
#   keys      n keys of key_type (BLOCKS), a number of backend.KEY_TYPES
#   rows      pointer to int32 [n]: only where one is negative a row is written
#   out       n rows (BLOCKS) of dim numbers, out
#   out_half  1: they are float16, to which values are rounded; 0: float32
#   seed, identity, kind, a, b  as for `row_init.initial_rows`, whose KINDS has the numbers of kinds
INITIAL = groups.record(("keys", groups.BLOCKS), "key_type", "n", "rows", ("out", groups.BLOCKS), "out_half", "dim",
                        "seed", "identity", "kind", ("a", np.float64), ("b", np.float64))


def initial(members: np.ndarray) -> None:
    """As `row_init.initial_rows` for each member. members: INITIAL [T]."""
    group_steps.run("initial", members)
