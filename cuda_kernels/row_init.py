"""Initial values of rows, by a counter-based generator (row_init.cu, row_init.cuh)."""
from typing import Optional

from .arrays import Array, need, need_rows, pointer, width
from .backend import FLOAT, INT32, INT64, POINTER, UINT64, family, kernels, row_lanes

declare = family(__name__)
for _name in ("initial_rows", "initial_rows_half"):
    declare(_name, None, UINT64, UINT64, POINTER, INT64, INT64, INT32, FLOAT, FLOAT, POINTER, POINTER,
            threads=lambda a: a[3] * row_lanes(a[4]))
declare("initial_rows_of_shard", None, UINT64, UINT64, INT64, INT64, INT64, INT64, INT32, FLOAT, FLOAT, POINTER,
        threads=lambda a: a[4] * row_lanes(a[5]))

_WORD = (1 << 64) - 1
# As in row_init.cuh.
KINDS = {"zeros": 0, "constant": 1, "uniform": 2, "normal": 3, "truncated_normal": 4}
MOST_POOL = 2 ** 28 - 1


def number_of(kind: str, pool: int = 0) -> int:
    """What kernels are told of what is drawn: a distribution's number in row_init.cuh, in three bits, and above them
    the pool, from 0 to MOST_POOL."""
    try:
        return KINDS[kind] + 8 * pool
    except KeyError:
        raise ValueError("Unknown kind of initial rows {!r}; known are {}.".format(kind, ", ".join(sorted(KINDS))))


def initial_rows(seed: int, table_id: int, keys: Array, kind: str, a: float, b: float,
                 only_where_negative: Optional[Array], out: Array, pool: int = 0) -> None:
    """Fills rows with values that depend on (seed, table_id, key, column) only.

    Args:
        seed: int, taken modulo 2**64.
        table_id: int, taken modulo 2**64.
        keys: int64 [n].
        kind: 'zeros'; 'constant' (a); 'uniform' in [a, b); 'normal' with mean a and standard deviation b;
            'truncated_normal', the same with deviates beyond two standard deviations drawn again.
        a: see kind.
        b: see kind.
        only_where_negative: int32 [n]: only rows with a negative one are written; None: all are.
        out: float32 or float16 [n, dim]; to float16 the values are rounded.
        pool: a key has the row of key modulo `pool`; 0: one of its own.

    Raises:
        ValueError: unknown kind.
    """
    n, dim, half = keys.size, width(out), out.dtype == "float16"
    need("keys", keys, "int64", n)
    if only_where_negative is not None:
        need("only_where_negative", only_where_negative, "int32", n)
    need_rows("out", out, "float16" if half else "float32", n, dim)
    kernel = kernels.initial_rows_half if half else kernels.initial_rows
    kernel(seed & _WORD, table_id & _WORD, keys.pointer, n, dim, number_of(kind, pool), a, b,
           pointer(only_where_negative), out.pointer)


def initial_rows_of_shard(seed: int, table_id: int, rank: int, ranks: int, kind: str, a: float, b: float,
                          out: Array) -> None:
    """Fills the shard of a table without index: row i is the row of key i * ranks + rank.

    Args:
        seed: int, taken modulo 2**64.
        table_id: int, taken modulo 2**64.
        rank: this rank.
        ranks: number of ranks (N).
        kind: as for `initial_rows`.
        a: see kind.
        b: see kind.
        out: float32 [V, D], the shard's rows.

    Raises:
        ValueError: unknown kind.
    """
    n_rows, dim = out.shape[0], width(out)
    need_rows("out", out, "float32", n_rows, dim)
    kernels.initial_rows_of_shard(seed & _WORD, table_id & _WORD, rank, ranks, n_rows, dim, number_of(kind), a, b,
                                  out.pointer)
