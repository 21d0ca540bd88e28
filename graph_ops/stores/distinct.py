"""Distinct keys: each one once, in order of first appearance."""
from typing import Any, Tuple

from sok1x.cuda_kernels import unique


def make_distinct(request: Any, keys: Any, inverse: Any) -> Tuple[Any, int]:
    """Numbers a batch's distinct keys in order of first appearance.

    Args:
      keys: `Array` of any key type, any shape. inverse: int32, filled: which distinct key each position has.

    Returns:
      (the distinct keys, int64, at the front of an `Array`; how many).
    """
    values = request.temporary("int64", keys.size)
    scratch = request.temporary("uint8", unique.scratch_bytes(keys.size))
    return values, unique.unique(keys.pointer, keys.dtype, keys.size, values.pointer, inverse.pointer,
                                 scratch.pointer)
