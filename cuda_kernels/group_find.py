"""Keys of many tables looked up together (group_find.cu)."""
from typing import Optional

import numpy as np

from . import group_steps, groups
from .arrays import Array, need
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_find", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_find_and_start", None, POINTER, POINTER, POINTER, POINTER, INT64, INT64, INT64, POINTER,
        threads=lambda a: 32 * (a[5] + a[6]))
declare("group_look_up", None, POINTER, POINTER, INT64, INT64, POINTER)
declare("group_look_up_bags", None, POINTER, POINTER, POINTER, INT64, INT64, POINTER)
declare("group_look_up_one_each", None, POINTER, POINTER, POINTER, INT64, INT64, POINTER, POINTER)
declare("group_find_member_bytes", INT64)

# What `find` and `look_up` take of each member:
#   keys      n keys of key_type (BLOCKS), a number of backend.KEY_TYPES
#   index     pointer to the hash index and its capacity, see `hash_index.find`; 0: a table without index, whose row of
#             key k is k // ranks; with 0 ranks it is 0, for who asks only whether keys are in range
#   least, limit  without index: keys outside [least, limit) have no row; limit 0: there are none such
#   rows      pointer to int32 [n], out: the row of each key, -1 for one that has none
# and `look_up` alone:
#   table     pointer to float32 [*, dim]
#   out       n rows (BLOCKS), out: the values of the keys that have rows; those of others are left as they are
#   out_half  1: out is float16, to which values are rounded; 0: float32
#   again     1: where a row is not -1 the host leaves it, and out, as they are; of members with an index
FIND = groups.record(("keys", groups.BLOCKS), "key_type", "n", "index", "capacity", "ranks", "least", "limit", "rows",
                     "table", "dim", ("out", groups.BLOCKS), "out_half", "again")


def find(members: np.ndarray, missing: Array) -> None:
    """Rows of keys, as `hash_index.find` and `row_numbers.direct` for each member.

    Args:
        members: FIND [T].
        missing: int64 [T], out: the number of each member's keys that have no row.
    """
    need("missing", missing, "int64", len(members))
    group_steps.run("find", members, missing.pointer)


def look_up(members: np.ndarray, missing: Array) -> None:
    """As `find`, and copies the rows' values, as `lookup.look_up` for each member."""
    need("missing", missing, "int64", len(members))
    group_steps.run("look_up", members, missing.pointer, 0, 0, 0)


def look_up_bags(members: np.ndarray, bags: np.ndarray, counts: Array, starts: Optional[np.ndarray] = None) -> None:
    """As `find`, and sums each bag's rows up, as `group_combine.combine`.

    Args:
        members: FIND [T], keys side by side; out is not looked at.
        bags: group_combine.COMBINE [T], of the tables of `members`, by the rows that are found, side by side as well.
        counts: int64 [4, T]: three rows that stay as they are (of group_bags.offsets), and `missing`, out.
        starts: group_bags.BAGS [T]: finds where bags begin first, as `group_bags.offsets`, and three rows of counts are
            out as well; but on a GPU `longest` is most + 1 where it is more than `most`.
    """
    need("counts", counts, "int64", 4 * len(members))
    group_steps.run("look_up_bags", members, bags.ctypes.data, counts.pointer, 0,
                    0 if starts is None else starts.ctypes.data)


def look_up_one_each(members: np.ndarray, bags: np.ndarray, counts: Array) -> None:
    """As `look_up_bags` on the host, of batches that have one key in each bag, in order, as far as their sizes say.

    Args:
        members: FIND [T], keys side by side; so is out, float32, in which keys without a row give zeros.
        bags: group_bags.BAGS [T], each with n_bags = n of `members`, or 0: nothing is done; offsets are not looked at.
        counts: int64 [2, T], out: 1 for a member that has other bags, whose rows and out are not to be used; `missing`.
    """
    need("counts", counts, "int64", 2 * len(members))
    group_steps.run("look_up_one_each", members, bags.ctypes.data, counts.pointer)
