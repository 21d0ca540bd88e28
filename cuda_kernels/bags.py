"""Facts about a batch's bags (bags.cu)."""
import ctypes

from .host import INT64, POINTER, declare, kernels

declare("bags_of_keys", None, POINTER, INT64, INT64, POINTER)
declare("longest_bag", INT64, POINTER, INT64, POINTER)


def of_keys(offsets, n_bags, first, out):
    """The bag of each key, counted from `first`.

    Args:
        offsets: pointer to int64 [n_bags + 1]: bag b has the keys from offsets[b] to offsets[b + 1].
        n_bags: number of bags.
        first: the number of bag 0.
        out: pointer to int64 [offsets[n_bags]].
    """
    kernels.bags_of_keys(offsets, n_bags, first, out)


def longest(offsets, n_bags):
    """(number of keys, bag) of the first of the longest bags; (0, 0) without keys.

    Args:
        offsets: pointer to int64 [n_bags + 1].
        n_bags: number of bags.
    """
    bag = ctypes.c_int64()
    return kernels.longest_bag(offsets, n_bags, ctypes.addressof(bag)), bag.value
