"""How many rows a table begins with, and may get."""
from typing import NamedTuple, Optional

from sok1x.core.eagerly import eager
from sok1x.core.options.given_numbers import integer
from sok1x.graph_ops.stores.table import MOST_ROWS, Growth

INITIAL_ROWS = 8192  # where nobody says
ROWS_EXPECTED = "a positive integer up to {}, or None for a table that grows".format(MOST_ROWS)


class Capacity(NamedTuple):
    """V at the start, and how a table grows: fields of `graph_ops.stores.table.Table`."""

    rows: int
    growth: Optional[Growth]


def resolve(label: str, rows: Optional[int], use_hashtable: bool, init_capacity: Optional[int],
            max_capacity: Optional[int]) -> Capacity:
    """The capacity of a table that a user describes.

    Args:
        label: what to call it in messages.
        rows: V of a table of fixed size; None: it grows.
        use_hashtable: whether it has an index.
        init_capacity: of one that grows, V at the start; None: 8192, or `max_capacity` if that is less.
        max_capacity: of one that grows, the largest V; None: no limit.

    Returns:
        A `Capacity`.

    Raises:
        TypeError: a capacity is no integer.
        ValueError: capacities that do not fit one another, or a table without index that would grow.

    Example:
        >>> from sok1x.core.options import capacities
        >>> capacities.resolve("table", None, True, None, 100).rows
        100
    """
    if rows is not None:
        for what, value in (("init_capacity", init_capacity), ("max_capacity", max_capacity)):
            if value is not None:
                raise ValueError("{}: {}: got {} beside {} rows for good (max_vocabulary_size_per_gpu), expected it "
                                 "for a table that grows, with max_vocabulary_size_per_gpu=None".format(
                                     label, what, value, rows))
        return Capacity(rows, None)
    if not use_hashtable:
        raise ValueError("{}: got no number of rows (max_vocabulary_size_per_gpu=None) and use_hashtable=False: "
                         "without an index a key says itself which row it is, so all rows must be there from the "
                         "start".format(label))
    most = None if max_capacity is None else integer(label + ": max_capacity", max_capacity, 1, MOST_ROWS)
    limit = MOST_ROWS if most is None else most
    first = min(INITIAL_ROWS, limit) if init_capacity is None else integer(
        label + ": init_capacity", init_capacity, 1, limit)
    return Capacity(first, Growth(most, eager.container()))
