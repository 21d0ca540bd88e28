"""The rows with the lowest scores (lowest_scores.cu)."""
from typing import NamedTuple, Tuple

import numpy as np

from . import fill, scan
from .arrays import Array, need
from .backend import INT32, INT64, POINTER, counts, family, kernels

BITS = 11  # of a digit, as in lowest_scores.cu
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
        scores: int64 [n], from 0 to MOST.
        used: int64 [n], the tick at which each row was last asked for; negative for a free row.
        oldest: rows with this tick or a later one stay.
        most: rows with a higher score stay.
    """

    scores: Array
    used: Array
    oldest: int
    most: int = MOST

    def given(self) -> Tuple[int, int, int, int, int]:
        """What a kernel takes of them.

        Raises:
            TypeError, ValueError: scores and ticks are of other dtypes, or not of the same rows.
        """
        n = self.used.size
        need("scores", self.scores, "int64", n)
        need("used", self.used, "int64", n)
        return self.scores.pointer, self.used.pointer, n, self.oldest, self.most


def count(candidates: Candidates) -> Tuple[int, int, int]:
    """(how many rows may leave, their lowest score, their highest), in one pass; waits for a GPU."""
    given = candidates.given()
    if not candidates.used.size:
        return 0, 0, 0
    found = counts()
    first = found.take()
    found.take(), found.take()
    kernels.score_range(*given, first.pointer)
    there, highest, from_most = found.read()
    return there, MOST - from_most, highest


def threshold(candidates: Candidates, lowest: int, highest: int, wanted: int, digits: Array) -> Tuple[int, int]:
    """Which rows the `wanted` lowest are: those with a score below the first number, and of those with it the second.

    Args:
        candidates: the rows that may leave; there are more than `wanted` of them, which is above 0.
        lowest: their lowest score. highest: their highest.
        wanted: how many.
        digits: int64 [1 << BITS], scratch memory.
    """
    given, prefix = candidates.given(), 0
    need("digits", digits, "int64", 1 << BITS)
    for digit in reversed(range(max(1, -(-int(highest - lowest).bit_length() // BITS)))):
        fill.fill_int64(digits, 0)
        kernels.count_digits(*given, lowest, prefix, BITS * digit, digits.pointer)
        upto = np.cumsum(digits.read())
        chosen = int(np.searchsorted(upto, wanted))
        wanted -= int(upto[chosen - 1]) if chosen else 0
        prefix = prefix << BITS | chosen
    return lowest + prefix, wanted


def list_lowest(candidates: Candidates, below: int, ties: int, rows: Array) -> None:
    """Lists rows that may leave, ascending.

    Args:
        candidates: the rows that may leave.
        below: rows with a lower score are listed.
        ties: of those with this score so many, from the first row on.
        rows: int32 [*], out: room for all that are listed.
    """
    given, n = candidates.given(), candidates.used.size
    need("rows", rows, "int32", rows.size)
    if n:
        kernels.list_lowest(*given, below, ties, rows.pointer, scan.state(n))
