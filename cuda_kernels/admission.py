"""Which new keys are given rows (admission.cu)."""
from .arrays import Array, need
from .backend import DOUBLE, INT32, INT64, POINTER, UINT64, counts, family, kernels

ROWS = 4  # of a sketch, as in admission.cu
BITS = (8, 16, 32)  # of a counter
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
    return words_of(width, counter_bits(least))


def words_of(width: int, bits: int) -> int:
    """int64 words of a sketch with `width` counters of so many bits in each row: how many it has counted, and these."""
    return 1 + ROWS * width * bits // 64


def halved_at(width: int, least: int) -> int:
    """How many keys are counted before all counters are halved: see `refuse_rare`."""
    return width * max(1, least // 8)


def refuse_rare(sketch: Array, width: int, keys: Array, least: int, rows: Array) -> int:
    """Counts keys that have no row, and refuses those that have not yet been counted `least` times.

    When as many have been counted as a row of the sketch has counters, all counters are halved first, so that the
    sketch does not fill. Until then a key that has not been counted yet has a count above 0 with a probability of at
    most (1 - exp(-1)) ** 4, 16 %, and of 2.4 % at half that many.

    With `least` from 16 on that is when `least // 8` times as many have been counted. Else keys that come again and
    again, but not often, would be halved away before they get there; and counts are then too high by an eighth of
    `least` in the mean, at most.

    Args:
        sketch: int64 [sketch_words(width, least)], zeros at first, changed.
        width: counters in each row of the sketch.
        keys: int64 [n], distinct.
        least: from 1 to MOST_COUNT.
        rows: int32 [n], -1 for a key without a row: -2 then, if it is refused.

    Returns:
        How many are refused.
    """
    n, words = keys.size, sketch_words(width, least)
    need("sketch", sketch, "int64", words)
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    if not n:
        return 0
    bits, limit = counter_bits(least), halved_at(width, least)
    kernels.halve_counts(sketch.pointer, words - 1, bits, limit)
    kernels.begin_again(sketch.pointer, limit)
    kernels.count_keys(sketch.pointer, width, bits, keys.pointer, rows.pointer, n)
    refused = counts()
    kernels.refuse_rare(sketch.pointer, width, bits, keys.pointer, n, least, rows.pointer, refused.take().pointer)
    return refused.read()[0]


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

