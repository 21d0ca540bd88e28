"""Distinct keys: each one once, in order of first appearance."""
from typing import Any, Tuple

from sok1x.cuda_kernels import unique
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError

MOST_KEYS = 2**31 - 1  # of a batch on one rank: places in it are int32


def check_size(request: Any, keys: int) -> None:
    """Refuses a batch of too many keys.

    Raises:
      CallError: INVALID_ARGUMENT.
    """
    if keys > MOST_KEYS:
        raise CallError(INVALID_ARGUMENT, (
            "op '{}': got {} keys or rows at once on one rank, expected up to 2**31 - 1; use a smaller batch").format(
                request.name, keys))


def make_distinct(request: Any, keys: Any, inverse: Any) -> Tuple[Any, int]:
    """Numbers a batch's distinct keys in order of first appearance.

    Args:
      keys: `Array` of any key type, any shape. inverse: int32, filled: which distinct key each position has.

    Returns:
      (the distinct keys, int64 [u]; u).

    Raises:
      CallError: INVALID_ARGUMENT where they are too many.
    """
    check_size(request, keys.size)
    values = request.temporary("int64", keys.size)
    scratch = request.temporary("uint8", unique.scratch_bytes(keys.size))
    count = unique.unique(keys, values, inverse, scratch)
    return values.front(count), count
