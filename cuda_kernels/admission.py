"""Which new keys are given rows (admission.cu)."""
from .backend import DOUBLE, INT32, INT64, POINTER, UINT64, counts, family, kernels

ROWS = 4  # of a sketch, as in admission.cu
MOST_COUNT = 2 ** 31 - 1  # that can be asked for

declare = family(__name__)
declare("count_keys", None, POINTER, INT64, INT32, POINTER, POINTER, INT64, threads=lambda a: a[5])
declare("refuse_rare", None, POINTER, INT64, INT32, POINTER, INT64, INT32, POINTER, POINTER, threads=lambda a: a[4])
declare("halve_counts", None, POINTER, INT64, INT32, INT64, threads=lambda a: a[1])
declare("begin_again", None, POINTER, INT64, threads=lambda a: 1, block=32)
declare("refuse_drawn", None, UINT64, UINT64, POINTER, INT64, POINTER, DOUBLE, POINTER, POINTER,
        threads=lambda a: a[3])
declare("forget_refused", None, POINTER, INT64, threads=lambda a: a[1])

_WORD = (1 << 64) - 1


def counter_bits(least: int) -> int:
    """Of a counter that can show so much: 8, 16 or 32."""
    return 8 if least < 2 ** 8 else 16 if least < 2 ** 16 else 32


def sketch_words(width: int, least: int) -> int:
    """int64 words of a sketch with `width` counters in each row, a power of two from 8 on; least: as `refuse_rare`."""
    return 1 + ROWS * width * counter_bits(least) // 64


def refuse_rare(sketch: int, width: int, keys: int, n: int, least: int, rows: int) -> int:
    """Counts keys that have no row, and refuses those that have not yet been counted `least` times.

    When as many have been counted as a row of the sketch has counters, all counters are halved first, so that the
    sketch does not fill. Until then a key that has not been counted yet has a count above 0 with a probability of at
    most (1 - exp(-1)) ** 4, 16 %, and of 2.4 % at half that many.

    With `least` from 16 on that is when `least // 8` times as many have been counted. Else keys that come again and
    again, but not often, would be halved away before they get there; and counts are then too high by an eighth of
    `least` in the mean, at most.

    Args:
        sketch: pointer to int64 [sketch_words(width, least)], zeros at first, changed.
        width: counters in each row of the sketch.
        keys: pointer to int64 [n], distinct.
        n: number of keys.
        least: from 1 to MOST_COUNT.
        rows: pointer to int32 [n], -1 for a key without a row: -2 then, if it is refused.

    Returns:
        How many are refused.
    """
    if not n:
        return 0
    bits, limit = counter_bits(least), width * max(1, least // 8)
    kernels.halve_counts(sketch, sketch_words(width, least) - 1, bits, limit)
    kernels.begin_again(sketch, limit)
    kernels.count_keys(sketch, width, bits, keys, rows, n)
    refused = counts()
    kernels.refuse_rare(sketch, width, bits, keys, n, least, rows, refused.take())
    return refused.read()[0]


def refuse_drawn(seed: int, table_id: int, keys: int, n: int, tick: int, ratio: float, rows: int) -> int:
    """Refuses keys that have no row, each with probability 1 - ratio.

    Args:
        seed: of the job, taken modulo 2**64.
        table_id: the table's identity, taken modulo 2**64.
        keys: pointer to int64 [n].
        n: number of keys.
        tick: pointer to an int64, the number of the draw.
        ratio: from 0 to 1.
        rows: as for `refuse_rare`.

    Returns:
        How many are refused.
    """
    if not n:
        return 0
    refused = counts()
    kernels.refuse_drawn(seed & _WORD, table_id & _WORD, keys, n, tick, ratio, rows, refused.take())
    return refused.read()[0]


def forget_refused(rows: int, n: int) -> None:
    """rows, a pointer to int32 [n]: -1 instead of -2."""
    kernels.forget_refused(rows, n)

