"""Adam's step for rows of a table: gradients, rows and both moments in one pass (adam.cu)."""
from typing import Sequence

from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)

_TEAM_ROWS = 2  # that a team of threads has in flight, as in adam_rows.cuh
_SCALARS = (POINTER,) * 6


def _threads(rows: int, dim: int) -> int:
    return -(-rows // _TEAM_ROWS) * row_lanes(dim)


declare("lazy_adam", None, POINTER, INT64, POINTER, INT64, *_SCALARS, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: _threads(a[3], a[1]))
declare("adam_no_positions", None, INT64, POINTER, threads=lambda a: a[0])
declare("adam_positions", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("adam", None, POINTER, INT64, POINTER, *_SCALARS, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: _threads(a[9], a[1]))


def lazy_adam(values: int, dim: int, rows: int, n: int, scalars: Sequence[int], table_rows: int, table: int, m: int,
              v: int) -> None:
    """One step for the rows that have a gradient, in the arithmetic of tf.contrib.opt.LazyAdamOptimizer.

    m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g g, row -= rate m / (sqrt(v) + epsilon), where rate is
    learning_rate sqrt(1 - beta2_power) / (1 - beta1_power).

    Args:
        values: pointer to float32 [n, dim], the gradients.
        dim: floats of a row.
        rows: pointer to int32 [n], distinct; those outside the table are left out.
        n: number of rows.
        scalars: pointers to one float32 each: learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power. With
            both powers 0 (no pointers) the learning rate is the rate.
        table_rows: rows of the table.
        table, m, v: pointers to float32 [table_rows, dim], changed: the rows, their first and second moments.
    """
    kernels.lazy_adam(values, dim, rows, n, *scalars, table_rows, table, m, v)


def adam(values: int, dim: int, rows: int, n: int, scalars: Sequence[int], table_rows: int, position: int, table: int,
         m: int, v: int) -> None:
    """One step for every row of the table, in the arithmetic of TensorFlow's Adam for sparse gradients.

    As `lazy_adam`; where a row has no gradient, its moments shrink and move it all the same.

    Args:
        values, dim, rows, n, scalars, table_rows, table, m, v: as for `lazy_adam`.
        position: pointer to int32 [table_rows], overwritten with nothing of use.
    """
    kernels.adam_no_positions(table_rows, position)
    kernels.adam_positions(rows, n, table_rows, position)
    kernels.adam(values, dim, position, *scalars, table_rows, table, m, v)
