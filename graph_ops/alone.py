"""A lookup on one rank: nothing travels, so a batch is looked up in the table in one pass."""
from sok1x.cuda_kernels import lookup, row_numbers, unique


class Seen:
    """A batch looked up in a hash table's index.

    Args:
      keys: `Array` [K] of key type. inverse: int32 [K], filled: which distinct key each position has.
      out: float32 [K, D], filled where keys have rows; or None.

    Attributes:
      distinct: int64, the distinct keys at its front; count: how many. missing: positions whose key has no row.
      at: int32 [K], the row of each position.
    """

    def __init__(self, request, table, variables, keys, inverse, out):
        total = keys.size
        self._request = request
        self.distinct = request.temporary("int64", total)
        self.at = request.temporary("int32", total)
        self._rows = request.temporary("int32", total)
        scratch = request.temporary("uint8", unique.scratch_bytes(total))
        rows, index = variables[:2]
        self.count, self.missing = lookup.look_up(
            keys.pointer, keys.dtype, total, index.pointer, index.shape[0], rows.pointer, table.dim,
            self.distinct.pointer, inverse.pointer, scratch.pointer, self.at.pointer, self._rows.pointer,
            out.pointer if out is not None else 0)

    def write_rows(self, output):
        """Output number `output`: the distinct keys' rows, int32 [u], if none is missing."""
        rows = self._request.output(output, "int32", (self.count,))
        row_numbers.look_up(self._rows.pointer, 0, self.count, rows.pointer)
