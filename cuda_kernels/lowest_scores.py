"""The rows with the lowest scores (lowest_scores.cu)."""
from typing import Callable, NamedTuple, Tuple

import numpy as np

from . import fill, scan
from .backend import INT32, INT64, POINTER, counts, family, kernels

BITS = 11  # of a digit, as in lowest_scores.cu
DIGITS_BYTES = 8 << BITS
MOST = (1 << 62) - 1  # the highest score

declare = family(__name__)
_THREADS = 1 << 17  # each looks at many rows before it adds what it has counted to what others have
declare("score_range", None, POINTER, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: min(a[2], _THREADS))
declare("count_digits", None, POINTER, POINTER, INT64, INT64, INT64, INT64, INT64, INT32, POINTER,
        threads=lambda a: min(a[2], _THREADS))
declare("list_lowest", None, POINTER, POINTER, INT64, INT64, INT64, INT64, INT64, POINTER, POINTER,
        threads=lambda a: scan.threads(a[2]), block=scan.BLOCK, exact=True)


class Candidates(NamedTuple):
    """Rows that may leave: those in use that nobody has asked for since some tick.

    Attributes:
        scores: pointer to int64 [n], from 0 to MOST.
        used: pointer to int64 [n], the tick at which each row was last asked for; negative for a free row.
        n: number of rows to look at.
        oldest: rows with this tick or a later one stay.
        most: rows with a higher score stay.
    """

    scores: int
    used: int
    n: int
    oldest: int
    most: int = MOST


def count(candidates: Candidates) -> Tuple[int, int, int]:
    """(how many rows may leave, their lowest score, their highest), in one pass; waits for a GPU."""
    if not candidates.n:
        return 0, 0, 0
    found = counts()
    first = found.take()
    found.take(), found.take()
    kernels.score_range(*candidates, first)
    there, highest, from_most = found.read()
    return there, MOST - from_most, highest


def threshold(candidates: Candidates, lowest: int, highest: int, wanted: int, digits: int,
              read: Callable[[], np.ndarray]) -> Tuple[int, int]:
    """Which rows the `wanted` lowest are: those with a score below the first number, and of those with it the second.

    Args:
        candidates: the rows that may leave; there are more than `wanted` of them, which is above 0.
        lowest: their lowest score. highest: their highest.
        wanted: how many.
        digits: pointer to DIGITS_BYTES bytes of scratch memory.
        read: gives what lies at `digits`, int64, as a NumPy array, when all that has been launched is done.
    """
    prefix = 0
    for digit in reversed(range(max(1, -(-int(highest - lowest).bit_length() // BITS)))):
        fill.fill_int64(digits, 1 << BITS, 0)
        kernels.count_digits(*candidates, lowest, prefix, BITS * digit, digits)
        upto = np.cumsum(read())
        chosen = int(np.searchsorted(upto, wanted))
        wanted -= int(upto[chosen - 1]) if chosen else 0
        prefix = prefix << BITS | chosen
    return lowest + prefix, wanted


def list_lowest(candidates: Candidates, below: int, ties: int, rows: int) -> None:
    """Lists rows that may leave, ascending.

    Args:
        candidates: the rows that may leave.
        below: rows with a lower score are listed.
        ties: of those with this score so many, from the first row on.
        rows: pointer to int32, out: room for all that are listed.
    """
    if candidates.n:
        kernels.list_lowest(*candidates, below, ties, rows, scan.state(candidates.n))
