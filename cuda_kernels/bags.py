"""Facts about a batch's bags (bags.cu)."""
from typing import Tuple

from .backend import INT64, POINTER, counts, family, kernels

BITS = 32  # of a count that tells a bag's length and its number, as in group_members.h

declare = family(__name__)
declare("bags_of_keys", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("longest_bag", None, POINTER, INT64, POINTER, threads=lambda a: a[1])


def of_keys(offsets: int, n_bags: int, first: int, out: int) -> None:
    """The bag of each key, counted from `first`.

    Args:
        offsets: pointer to int64 [n_bags + 1]: bag b has the keys from offsets[b] to offsets[b + 1].
        n_bags: number of bags.
        first: the number of bag 0.
        out: pointer to int64 [offsets[n_bags]].
    """
    kernels.bags_of_keys(offsets, n_bags, first, out)


def longest(offsets: int, n_bags: int) -> Tuple[int, int]:
    """(number of keys, bag) of the first of the longest bags; (0, 0) without keys.

    Args:
        offsets: pointer to int64 [n_bags + 1].
        n_bags: number of bags, below 2**32.
    """
    found = counts()
    start_longest(offsets, n_bags, found.take())
    return decode_longest(found.read()[0])


def start_longest(offsets: int, n_bags: int, count: int) -> None:
    """`longest` without waiting: what `decode_longest` takes goes into *count, a pointer from `counts().take()`."""
    kernels.longest_bag(offsets, n_bags, count)


def decode_longest(value: int) -> Tuple[int, int]:
    """(number of keys, bag) from a count of `start_longest`."""
    last = (1 << BITS) - 1
    keys, from_end = value >> BITS, value & last
    return (keys, last - from_end) if keys else (0, 0)
