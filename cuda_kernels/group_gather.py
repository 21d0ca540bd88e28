"""Rows of many tables by row number (group_gather.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_gather", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_plain_gather", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_gather_member_bytes", INT64)

# What `gather` takes of each member:
#   source       rows of dim numbers (BLOCKS)
#   source_half  1: they are float16; 0: float32
#   n            rows to copy
#   rows         pointer to int32, each one's row number; 0: row i is i
#   inverse      pointer to int32 [n], in whose order `rows` are read: row i is rows[inverse[i]]; 0: rows[i]
#   out          n rows (BLOCKS), out; a row with a negative number is left as it is
#   out_half     1: out is float16, to which float32 is rounded; 0: float32
GATHER = groups.record(("source", groups.BLOCKS), "source_half", "dim", "n", "rows", "inverse", ("out", groups.BLOCKS),
                       "out_half")


def gather(members: np.ndarray) -> None:
    """Copies rows, as `gather.gather` for each member but for negative row numbers.

    Args:
        members: GATHER [T].
    """
    group_steps.run("gather", members)
