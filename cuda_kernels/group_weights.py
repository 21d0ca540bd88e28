"""Gradients of what the rows of many tables' bags are multiplied with (group_weights.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_weights", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_weights_member_bytes", INT64)

# What `weights` takes of each member:
#   gradient       pointer to n_bags rows of dim numbers, the gradient of what `combine` gives
#   gradient_half  1: they are float16; 0: float32
#   rows           pointer to n rows of dim numbers, one for each key
#   rows_half      1: they are float16; 0: float32
#   offsets        pointer to int64 [n_bags + 1], ascending from 0 to n
#   mean           1: bags are divided by the sums of their weights; 2: by the roots of the sums of their squares; 4
#                  more, 5 or 6: where a divisor is zero, so is out
#   order          pointer to int32 [n], which of `weights`, and of `out`, each key has; 0: the same
#   weights        pointer to float32 [n]
#   out            pointer to float32 [n], out
WEIGHTS = groups.record("gradient", "gradient_half", "rows", "rows_half", "dim", "offsets", "n_bags", "n", "mean",
                        "order", "weights", "out")


def weights(members: np.ndarray) -> None:
    """The gradients of `combine`'s weights.

    Args:
        members: WEIGHTS [T].
    """
    group_steps.run("weights", members)
