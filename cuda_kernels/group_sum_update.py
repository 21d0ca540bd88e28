"""Optimizers' steps on rows of many tables whose gradients are still to be summed (group_sum_update.cu)."""
import numpy as np

from . import group_steps
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_sum_update_place", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_update_long", None, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: 32 * a[1])
for _name in ("descend", "plain_descend", "lazy_adam", "plain_lazy_adam"):
    # Kernels that are not plain have up to 160 registers: of smaller blocks a multiprocessor takes more threads.
    declare("group_{}_sums".format(_name), None, POINTER, POINTER, POINTER, INT64, INT64, POINTER, POINTER,
            threads=lambda a: 32 * a[4], block=256 if _name.startswith("plain") else 128)
declare("group_sum_descend", None, POINTER, POINTER, INT64)
declare("group_sum_lazy_adam", None, POINTER, POINTER, INT64)


def descend(sums: np.ndarray, updates: np.ndarray) -> None:
    """Sums of `sums` and, with them for gradients, the step of `updates`.

    As `group_sum.segment_sum` and then `group_update.descend`, of which on a GPU only the order in which terms are
    added up may differ; but in one pass, and what is where sums would go is nonsense afterwards.

    Args:
        sums: SUM [T], whose sums lie in one block, without halves.
        updates: UPDATE [T]: num_segments rows of each, whose `values` are those sums.

    Raises:
        ValueError: there are too many rows or segments for int32 numbers.
    """
    group_steps.run("sum_descend", sums, updates.ctypes.data)


def lazy_adam(sums: np.ndarray, updates: np.ndarray) -> None:
    """As `descend`, with the step of `group_update.lazy_adam`."""
    group_steps.run("sum_lazy_adam", sums, updates.ctypes.data)
