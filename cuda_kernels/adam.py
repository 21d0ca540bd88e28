"""Adam's step for rows of a table: gradients, rows and both moments in one pass (adam.cu)."""
from typing import List, Sequence

from .arrays import Array, need, need_rows, width
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


def lazy_adam(values: Array, rows: Array, scalars: Sequence[Array], table: Array, m: Array, v: Array) -> None:
    """One step for the rows that have a gradient, in the arithmetic of tf.contrib.opt.LazyAdamOptimizer.

    m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g g, row -= rate m / (sqrt(v) + epsilon), where rate is
    learning_rate sqrt(1 - beta2_power) / (1 - beta1_power).

    Args:
        values: float32 [n, dim], the gradients.
        rows: int32 [n], distinct; those outside the table are left out.
        scalars: one float32 each: learning_rate, beta1, beta2, epsilon, beta1_power, beta2_power. Without both powers,
            four of them, the learning rate is the rate.
        table, m, v: float32 [V, dim], changed: the rows, their first and second moments.
    """
    dim = _check(values, rows, table, m, v)
    kernels.lazy_adam(values.pointer, dim, rows.pointer, rows.size, *_pointers(scalars), table.shape[0], table.pointer,
                      m.pointer, v.pointer)


def adam(values: Array, rows: Array, scalars: Sequence[Array], position: Array, table: Array, m: Array,
         v: Array) -> None:
    """One step for every row of the table, in the arithmetic of TensorFlow's Adam for sparse gradients.

    As `lazy_adam`; where a row has no gradient, its moments shrink and move it all the same.

    Args:
        values, rows, scalars, table, m, v: as for `lazy_adam`.
        position: int32 [V], overwritten with nothing of use.
    """
    dim, table_rows = _check(values, rows, table, m, v), table.shape[0]
    need("position", position, "int32", table_rows)
    kernels.adam_no_positions(table_rows, position.pointer)
    kernels.adam_positions(rows.pointer, rows.size, table_rows, position.pointer)
    kernels.adam(values.pointer, dim, position.pointer, *_pointers(scalars), table_rows, table.pointer, m.pointer,
                 v.pointer)


def _check(values: Array, rows: Array, table: Array, m: Array, v: Array) -> int:
    """Returns the numbers of a row."""
    dim, table_rows = width(table), table.shape[0]
    need("rows", rows, "int32", rows.size)
    need_rows("values", values, "float32", rows.size, dim)
    need_rows("table", table, "float32", table_rows, dim)
    need_rows("m", m, "float32", table_rows, dim)
    need_rows("v", v, "float32", table_rows, dim)
    return dim


def _pointers(scalars: Sequence[Array]) -> List[int]:
    """Six of them."""
    if len(scalars) not in (4, 6):
        raise ValueError("scalars: got {}, expected 4 or 6".format(len(scalars)))
    for scalar in scalars:
        need("scalars", scalar, "float32", 1)
    return [scalar.pointer for scalar in scalars] + [0] * (6 - len(scalars))
