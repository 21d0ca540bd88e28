"""Facts about a batch's bags (bags.cu)."""
from typing import Tuple

from .arrays import Array, need
from .backend import INT64, POINTER, counts, family, kernels

BITS = 32  # of a count that tells a bag's length and its number, as in group_members.h

declare = family(__name__)
declare("bags_of_keys", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("longest_bag", None, POINTER, INT64, POINTER, threads=lambda a: a[1])


def of_keys(offsets: Array, first: int, out: Array) -> None:
    """The bag of each key, counted from `first`.

    Args:
        offsets: int64 [n_bags + 1]: bag b has the keys from offsets[b] to offsets[b + 1].
        first: the number of bag 0.
        out: int64 [offsets[n_bags]].
    """
    need("offsets", offsets, "int64", offsets.size)
    need("out", out, "int64", out.size)
    kernels.bags_of_keys(offsets.pointer, offsets.size - 1, first, out.pointer)


def longest(offsets: Array) -> Tuple[int, int]:
    """(number of keys, bag) of the first of the longest bags; (0, 0) without keys.

    Args:
        offsets: int64 [n_bags + 1], of fewer than 2**32 bags.
    """
    need("offsets", offsets, "int64", offsets.size)  # before a place is taken
    found = counts()
    kernels.longest_bag(offsets.pointer, offsets.size - 1, found.take().pointer)
    return decode_longest(found.read()[0])


def start_longest(offsets: Array, count: Array) -> None:
    """`longest` without waiting: what `decode_longest` takes goes into count, a place from `counts().take()`."""
    need("offsets", offsets, "int64", offsets.size)
    kernels.longest_bag(offsets.pointer, offsets.size - 1, count.pointer)


def decode_longest(value: int) -> Tuple[int, int]:
    """(number of keys, bag) from a count of `start_longest`."""
    last = (1 << BITS) - 1
    keys, from_end = value >> BITS, value & last
    return (keys, last - from_end) if keys else (0, 0)
