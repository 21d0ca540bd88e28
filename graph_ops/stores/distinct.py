"""Distinct keys: each one once, in order of first appearance."""
from typing import Any, Tuple

from sok1x.cuda_kernels import unique


def make_distinct(request: Any, keys: Any, inverse: Any) -> Tuple[Any, int]:
    """Numbers a batch's distinct keys in order of first appearance.

    Args:
      keys: `Array` of any key type, any shape. inverse: int32, filled: which distinct key each position has.

    Returns:
      (the distinct keys, int64 [u]; u).
    """
    values = request.temporary("int64", keys.size)
    scratch = request.temporary("uint8", unique.scratch_bytes(keys.size))
    count = unique.unique(keys, values, inverse, scratch)
    return values.front(count), count
