"""Sums over ranks of what each has combined for the bags of all: the exchange of reduce_scatter.

Communicators reduce in float32. Where sums travel as float16 they go to the rank that has the bags by All2All, as many
bytes as in a Reduce-Scatter, and are added up there in float32.
"""
import numpy as np

from sok1x.cuda_kernels import combine, parts

ALL2ALL, REDUCE_SCATTER = 0, 1  # the exchanges of a combined lookup, as its route names them


def reduce_scatter(request, world, partial, counts, offsets, out):
    """Adds up the ranks' partial sums; each rank gets those of its bags.

    Args:
      partial: [sum(counts), D], float32 or float16, the bags of rank 0 first.
      counts: int64 [N], bags of each rank.
      offsets: int64 [counts[rank] + 1], where this rank's bags begin among its keys: the sums are divided by the
        number of keys; or None.
      out: [..., D], of `partial`'s dtype, filled: counts[rank] rows.
    """
    dim, mine = partial.shape[1], int(counts[world.rank])
    if partial.dtype == "float32":
        request.communicator.reduce_scatter(partial.pointer, out.pointer, counts, dim)
        if offsets is not None:
            combine.divide(out.pointer, dim, offsets.pointer, mine, out.pointer)
        return
    received = request.temporary(partial.dtype, world.size * mine, dim)
    request.communicator.all_to_all(partial.pointer, counts, received.pointer, np.full(world.size, mine, np.int64),
                                    dim * 2)
    parts.sum_parts(received.pointer, world.size, mine, dim, 0 if offsets is None else offsets.pointer, out.pointer)
