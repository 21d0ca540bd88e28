"""Which lookups by themselves run in their grouped form where they evaluate, on several ranks.

A group looks keys up with fewer calls than the operation itself, but leaves one that meets a key without a row to the
operation, which then begins anew. What a lookup has met lately it mostly meets again.
"""
from typing import Dict

# How many of its runs a lookup then goes without trying a group again.
_RUNS = 50
_REMEMBERED = 10000

# Kernel -> how many runs it still goes without. Alike on all ranks: changed only by what all have decided to run, in
# that order.
_without: Dict[int, int] = {}


def in_a_group(kernel: int, decided: bool) -> bool:
    """Whether a lookup that evaluates by itself runs in its grouped form. decided: it is about to run, on all ranks."""
    left = _without.get(kernel, 0)
    if left and decided:
        _without[kernel] = left - 1
    return not left


def left_by_its_group(kernel: int) -> None:
    """A lookup has met a key without a row."""
    if len(_without) >= _REMEMBERED:  # of sessions long closed
        _without.clear()
    _without[kernel] = _RUNS
