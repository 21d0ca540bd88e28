"""Which new keys are given rows (admission.cu)."""
from typing import List, Optional, Tuple

import numpy as np

from . import fill
from .arrays import Array, allocated, need, of_numpy
from .backend import DOUBLE, INT32, INT64, POINTER, UINT64, counts, family, kernels

ROWS = 4  # of a sketch, as in admission.cu
RUN = 64  # neighbouring keys, as in admission.cu
BITS = (8, 16, 32)  # of a counter
MOST_COUNT = 2 ** 31 - 1  # that can be asked for

declare = family(__name__)
declare("count_lacking", None, POINTER, INT64, POINTER, threads=lambda a: -(-a[1] // RUN))
declare("count_keys", None, POINTER, INT64, INT32, POINTER, POINTER, INT64, threads=lambda a: a[5])
declare("refuse_rare", None, POINTER, INT64, INT32, POINTER, INT64, INT32, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: a[4])
# Each thread adds up some words: of a larger sketch all would wait for each other at the sum.
declare("look_at_counts", None, POINTER, INT64, INT32, POINTER, POINTER, threads=lambda a: min(a[1], 1 << 14))
declare("halve_counts", None, POINTER, INT64, INT32, threads=lambda a: a[1])
declare("refuse_drawn", None, UINT64, UINT64, POINTER, INT64, POINTER, DOUBLE, POINTER, POINTER,
        threads=lambda a: a[3])
declare("forget_refused", None, POINTER, INT64, threads=lambda a: a[1])

_WORD = (1 << 64) - 1
_PIECE = 1024  # keys that may be counted at once, at least


def counter_bits(least: int) -> int:
    """Of a counter that can show so much: 8, 16 or 32."""
    return 8 if least < 2 ** 8 else 16 if least < 2 ** 16 else 32


def sketch_words(width: int, least: int) -> int:
    """int64 words of a sketch with `width` counters in each row, a power of two from 8 on; least: as `refuse_rare`."""
    return words_of(width, counter_bits(least))


def words_of(width: int, bits: int) -> int:
    """int64 words of a sketch with `width` counters of so many bits in each row: how many it has counted, and these."""
    return 1 + ROWS * width * bits // 64


def looked_at(width: int) -> int:
    """How many keys are counted before somebody looks how full the sketch is: see `refuse_rare`."""
    return max(1, width // 16)


def is_full(occupied: int, total: int, width: int, least: int) -> bool:
    """Whether all counters are to be halved: see `refuse_rare`.

    Args:
        occupied: how many of all four rows' counters are not 0.
        total: what they show together.
        width, least: as for `refuse_rare`.
    """
    most = 41 if width >= 1 << 14 else 43
    return 64 * occupied >= most * ROWS * width and total >= ROWS * width * (least // 8 * 2)


def refuse_rare(sketch: Array, width: int, keys: Array, least: int, rows: Array, lacking: Optional[int] = None) -> int:
    """Counts keys that have no row, and refuses those that have not yet been counted `least` times.

    So that the sketch does not fill, all counters are halved where 64 % of them are not 0 (67 %, where a row has fewer
    than 16,384) and, with `least` from 8 on, all show `least // 8 * 2` in the mean. Whether that is so is seen whenever
    a sixteenth as many keys have been counted as a row has counters, or 1,024; an eighth as many may have been by then.
    As many different keys as a row has counters occupy 1 - exp(-1) of them, 63 % (hardly ever 64 %; with 256 counters
    in a row hardly ever 67 %): these are not halved, however often the keys come, and each is admitted the `least`-th
    time it comes, or earlier. Where more come, those that have been admitted included, one is admitted that goes on to
    come `least` times while about `max(1, least // 8)` times as many different keys are counted as a row has counters.

    With `least` below 8 a key that has not been counted yet has a count above 0 with a probability of at most 23 %, and
    of 2.4 % while half as many keys have been counted as a row has counters. (Of fewer than 16,384 counters in a row it
    is 26 %, and more if more than a sixteenth as many new keys come at once.) With more, counts may be too high by a
    quarter of `least` in the mean, at most.

    Args:
        sketch: int64 [sketch_words(width, least)], zeros at first, changed.
        width: counters in each row of the sketch.
        keys: int64 [n], distinct.
        least: from 1 to MOST_COUNT.
        rows: int32 [n], -1 for a key without a row: -2 then, if it is refused.
        lacking: how many have none; None: any number.

    Returns:
        How many are refused.
    """
    n = keys.size
    need("sketch", sketch, "int64", sketch_words(width, least))
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    if not n:
        return 0
    # Not all at once, or they would be taken for each other before anybody looks.
    most = max(_PIECE, looked_at(width))
    if (n if lacking is None else lacking) <= most:
        return _refuse_some(sketch, width, keys, least, rows)
    return sum(_refuse_some(sketch, width, keys.some(first, count), least, rows.some(first, count))
               for first, count in _pieces(rows, most))


def _pieces(rows: Array, most: int) -> List[Tuple[int, int]]:
    """(first, how many) of neighbouring keys of which at most so many have no row, whose places are -1."""
    n, runs = rows.size, -(-rows.size // RUN)
    lacking = of_numpy(np.empty(runs, np.int32)) if rows.gpu is None else allocated(rows.gpu, "int32", runs)
    kernels.count_lacking(rows.pointer, n, lacking.pointer)
    upto, pieces, run = np.cumsum(lacking.read(), dtype=np.int64), [], 0
    while run < runs:
        end = int(np.searchsorted(upto, (upto[run - 1] if run else 0) + most, side="right"))
        pieces.append((run * RUN, min(n, end * RUN) - run * RUN))
        run = end
    return pieces


def _refuse_some(sketch: Array, width: int, keys: Array, least: int, rows: Array) -> int:
    n, bits, found = keys.size, counter_bits(least), counts()
    refused, due = found.take(), found.take()
    kernels.count_keys(sketch.pointer, width, bits, keys.pointer, rows.pointer, n)
    kernels.refuse_rare(sketch.pointer, width, bits, keys.pointer, n, least, looked_at(width), rows.pointer,
                        refused.pointer, due.pointer)
    number, is_due = found.read()
    if is_due:
        _halve_if_full(sketch, width, least)
    return number


def halve_if_due(sketch: Array, width: int, least: int) -> None:
    """Halves counters that are too full, if so many keys have been counted that `refuse_rare` would look.

    It counts keys before it looks: of what is too full from the start it would take too many for others.

    Args:
        sketch, width, least: as for `refuse_rare`.
    """
    need("sketch", sketch, "int64", sketch_words(width, least))
    if sketch.front(1).read()[0] >= looked_at(width):
        _halve_if_full(sketch, width, least)


def _halve_if_full(sketch: Array, width: int, least: int) -> None:
    while is_full(*_look_at(sketch, least), width, least):
        kernels.halve_counts(sketch.pointer, sketch.size - 1, counter_bits(least))
    fill.fill_int64(sketch.front(1), 0)


def _look_at(sketch: Array, least: int) -> Tuple[int, int]:
    """How many counters are not 0, and what all show together; waits for a GPU."""
    found = counts()
    occupied, total = found.take(), found.take()
    kernels.look_at_counts(sketch.pointer, sketch.size - 1, counter_bits(least), occupied.pointer, total.pointer)
    seen = found.read()
    return seen[0], seen[1]


def refuse_drawn(seed: int, table_id: int, keys: Array, tick: Array, ratio: float, rows: Array) -> int:
    """Refuses keys that have no row, each with probability 1 - ratio.

    Args:
        seed: of the job, taken modulo 2**64.
        table_id: the table's identity, taken modulo 2**64.
        keys: int64 [n].
        tick: int64 [], the number of the draw.
        ratio: from 0 to 1.
        rows: as for `refuse_rare`.

    Returns:
        How many are refused.
    """
    n = keys.size
    need("keys", keys, "int64", n)
    need("tick", tick, "int64", 1)
    need("rows", rows, "int32", n)
    if not n:
        return 0
    refused = counts()
    kernels.refuse_drawn(seed & _WORD, table_id & _WORD, keys.pointer, n, tick.pointer, ratio, rows.pointer,
                         refused.take().pointer)
    return refused.read()[0]


def forget_refused(rows: Array) -> None:
    """rows int32 [n]: -1 instead of -2."""
    need("rows", rows, "int32", rows.size)
    kernels.forget_refused(rows.pointer, rows.size)

