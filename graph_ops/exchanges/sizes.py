"""How many bytes a step of bags moves by one exchange, and how many by the other.

all2all moves each distinct key (8 bytes) and its row and gradient (row_bytes each); reduce_scatter moves each key with
its bag (16 bytes) and, N times as far, the bags' sums and gradients. C++ counts the same (groups/choice.h).
"""

NO_CHOICE = 2  # the wish of a rank whose lookup may choose, but is part of an evaluation there: all go by all2all


def surplus(row_bytes: int, ranks: int, bags: int, keys: int, distinct: int) -> int:
    """How many bytes more all2all moves than reduce_scatter, forward and backward together.

    Args:
      row_bytes: bytes of a row as it travels. ranks: N. bags, keys, distinct: of one rank, whose share this then is; or
        of all together: what ranks have, each by itself, adds up to that.
    """
    return distinct * (8 + 2 * row_bytes) - keys * 16 - ranks * bags * 2 * row_bytes


def wish(wanted: str, training: bool, row_bytes: int, ranks: int, bags: int, keys: int, distinct: int) -> int:
    """What a rank tells the others in place of its sizes: 1 where its share of a step that trains is less by
    reduce_scatter, else 0; 0 as well where the exchange is given; `NO_CHOICE` where `wanted` is 'settled' (choice.py).
    """
    if wanted == "settled":
        return NO_CHOICE
    return int(wanted == "auto" and training and surplus(row_bytes, ranks, bags, keys, distinct) > 0)
