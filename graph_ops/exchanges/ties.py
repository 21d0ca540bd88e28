"""What ties a gradient to its lookup: the numbers that a lookup saves for its gradient, in host memory.

An op can be in flight several times: in loops, on several threads. So a lookup saves, behind the counts of what it
exchanged, the number of the decision that had all ranks run it. Its gradient is announced with this number, and meets
on the other ranks the gradients of the very same lookup.

With short headers (launch/world.py) ranks compare this number, but not their counts: these are what the lookup has
saved, unless somebody feeds a gradient what it would never get; then the exchange fails, and with it the job.
"""
import numpy as np

from sok1x.graph_ops.bridge.errors import INTERNAL, CallError


def save(request, index, numbers):
    """Fills host output `index` with numbers (a list of arrays) and this lookup's own number."""
    values = np.concatenate(numbers + [[request.exchange]]).astype(np.int64)
    request.host_output(index, "int64", values.shape).numpy()[:] = values


def header(world, numbers, kept):
    """What a gradient tells the other ranks of what its lookup has saved, int64 [h].

    Args:
      numbers: all of it. kept: how many of them come before the counts.
    """
    if not world.short_headers:
        return numbers
    return np.concatenate([numbers[:kept], numbers[-1:]])


def check_counts(name, headers, ranks):
    """Raises, on all ranks alike, unless each rank has counted from each other what that one has counted for it.

    Args:
      name: the op's. headers: int64 [N, h], of each rank [..., counts sent [N], counts received [N], number]; or short
        ones, which have the numbers alone.
    """
    if headers.shape[1] <= 2 * ranks:
        if headers[:, -1].min() != headers[:, -1].max():
            _refuse(name, headers)
        return
    sent, received, numbers = headers[:, -1 - 2 * ranks:-1 - ranks], headers[:, -1 - ranks:-1], headers[:, -1]
    if (sent != received.T).any() or numbers.min() != numbers.max():
        _refuse(name, headers)


def check_equal(name, headers):
    """Raises, on all ranks alike, unless all ranks have saved the same."""
    if (headers != headers[0]).any():
        _refuse(name, headers)


def _refuse(name, headers):
    raise CallError(INTERNAL, (
        "op '{}': the ranks' gradients do not belong to one lookup: got the counts {} on the ranks in turn; nothing "
        "was exchanged").format(name, headers.tolist()), agreed=True)
