"""Floats of all ranks added up in the order of the ranks: the same bits on whichever rank it is done."""
import numpy as np

# Floats added at a time: parts of that size stay in a CPU's cache.
_BLOCK = 1 << 14


def add_up(parts, total):
    """Adds up the ranks' parts.

    Args:
        parts: Of each rank in turn, two ranks at least, a float32 array [n].
        total: float32 [n], filled.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, len(total), _BLOCK):
            block = total[begin:begin + _BLOCK]
            np.add(parts[0][begin:begin + _BLOCK], parts[1][begin:begin + _BLOCK], out=block)
            for part in parts[2:]:
                block += part[begin:begin + _BLOCK]
