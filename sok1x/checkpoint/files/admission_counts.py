"""What decides which new keys get rows, from the shards of any number of ranks: part 'admission' of a table's files.

It is int64 [1 + words]: the tick of the last training lookup, which draws are made of, and the sketch (how many keys it
has counted since somebody looked how full it is, then its counters; see cuda_kernels/admission.cu), if the table has
one.

On as many ranks as have saved, each gets its own back. Else a rank gets one sketch for all shards in which its keys may
be. A key was counted on one rank, and has its counters in the same places on all: so the greatest of each counter is
never below what the key's own rank had there, and nearer to it than the sum, which would be another bound. Such a
sketch may be too full: whoever loads it looks (`due` keys are counted), and halves its counters then.
"""
from typing import Callable, Iterator, Sequence

import numpy as np

from sok1x.checkpoint.files.checkpoint_files import Checkpoint, rows_per_chunk
from sok1x.checkpoint.files.shard_names import ADMISSION

_DTYPES = {0: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}


def chunks(checkpoint: Checkpoint, table: str, shards: Sequence[int], due: int) -> Iterator[np.ndarray]:
    """Yields int64 [n] after int64 [n]: one part made of those of several ranks.

    Memory is two chunks of a file, whatever the number of shards.

    Args:
        checkpoint, table: where it is, and the table's name there; it has the part.
        shards: the ranks that saved what counts here, at least one.
        due: how many keys a sketch counts until somebody looks how full it is. One made of several has counted so many.

    Raises:
        DamagedError: a file is not what was saved.
    """
    bits = (checkpoint.table(table).admission or (0, 0))[1]
    with checkpoint.open(table, ADMISSION, shards[0]) as reader:
        count, step = reader.header.count, rows_per_chunk(reader)

    def read(shard: int, first: int, n: int) -> np.ndarray:
        with checkpoint.open(table, ADMISSION, shard) as reader:
            return reader.read(first, n)

    if len(shards) == 1:
        for first in range(0, count, step):
            yield read(shards[0], first, min(step, count - first))
        return
    head = 2 if bits else 1
    ticks = [int(read(shard, 0, 1)[0]) for shard in shards]
    for first in range(0, count, step):
        values = _greatest(read, shards, first, min(step, count - first), bits).view(np.int64)
        if first == 0:
            values[:head] = [max(ticks), due][:head]
        yield values


def _greatest(read: Callable[[int, int, int], np.ndarray], shards: Sequence[int], first: int, n: int,
              bits: int) -> np.ndarray:
    """Of each counter the greatest of all shards'."""
    values = read(shards[0], first, n).view(_DTYPES[bits])
    for shard in shards[1:]:
        np.maximum(values, read(shard, first, n).view(_DTYPES[bits]), out=values)
    return values
