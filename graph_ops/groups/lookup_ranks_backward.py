"""The gradients of many tables' lookups on several ranks: one exchange for all; forward is in lookup_ranks.py."""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.groups import lookup_ranks
from sok1x.graph_ops.groups.lookup_run import LookupRun, again


def prepare_backward(members: List[Any], world: Any) -> None:
    """Sets the headers of gradients that fit their lookups; the others' own `prepare` says what does not.

    A header is 1 for rows that are known, then what the lookup has saved: see exchanges/ties.py.
    """
    run = LookupRun(members)
    width = 2 * world.size + (4 if run.by_bag else 3)
    headers, fits = np.ones((len(members), width), np.int64), np.empty(len(members), np.uint8)
    headers[:, 0] = members[0].request.gpu is not None  # as devices.mark makes them
    run.call("backward_headers", width, headers, fits)
    for taken, header, fit in zip(members, headers, fits.tolist()):
        if fit:
            taken.header, taken.prepared = header, run
    run.prepared()


def backward(members: List[Any], world: Any) -> LookupRun:
    """The gradients of decided members. Returns its run."""
    run, size = again(members), len(members)
    headers, width = np.concatenate([taken.headers for taken in members]), members[0].headers.shape[1]  # [T N, h]
    left, said = np.empty(size, np.uint8), run.team.said(world.size)
    run.call("backward_send", world.rank, world.size, width, headers, left, *said.exchange_at)
    run.exchange(members[0].request.communicator, said)
    lookup_ranks.count_exchanges(run, members, world, forward=False)
    lookup_ranks.come(members, timeline.ROWS)
    run.call("backward_take")
    return run.leave(left.tolist())
