"""The gradients of many tables' lookups on several ranks: one exchange for all; forward is in lookup_ranks.py."""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.exchanges import ties
from sok1x.graph_ops.exchanges.choice import REDUCE_SCATTER
from sok1x.graph_ops.groups import lookup_hosts, lookup_ranks
from sok1x.graph_ops.groups.lookup_run import LookupRun, again
from sok1x.launch.by_hosts import ALL, INSIDE


def prepare_backward(members: List[Any], world: Any) -> None:
    """Sets the headers of gradients that fit their lookups; the others' own `prepare` says what does not.

    A header is 1 for rows that are known, then what the lookup has saved: see exchanges/ties.py.
    """
    run = LookupRun(members)
    width = (4 if run.team.by_hosts else 2) * world.size + (4 if run.by_bag else 3)
    if run.by_bag and members[0].request.host_inputs[0].numpy()[0] == REDUCE_SCATTER.number:  # as all of them
        width = world.size + 4
    headers, fits = np.ones((len(members), width), np.int64), np.empty(len(members), np.uint8)
    headers[:, 0] = members[0].request.gpu is not None  # as devices.mark makes them
    run.call("backward_headers", width, headers, fits)
    for taken, header, fit in zip(members, headers, fits.tolist()):
        if fit:
            taken.header, taken.prepared = _shortened(header, run.by_bag, world), run
    run.prepared()


def backward(members: List[Any], world: Any) -> LookupRun:
    """The gradients of decided members. Returns its run."""
    run, size = again(members), len(members)
    headers = np.stack([taken.headers for taken in members])  # [T, N, h]
    left, said = np.empty(size, np.uint8), run.team.said(world.size)
    run.call("backward_send", world.rank, world.size, headers.shape[2], headers, not world.short_headers, left,
             *said.exchange_at)
    for taken in members:
        counted = taken.request.host_inputs[0].numpy()[int(run.by_bag):]
        lookup_hosts.count_gradient(taken, world, *counted[:2 * world.size].reshape(2, world.size))
    run.exchange(members[0].request.communicator, said, INSIDE if run.team.by_hosts else ALL)
    if run.team.by_hosts:
        lookup_hosts.sum_near(run, members, world)
    lookup_ranks.come(members, timeline.ROWS)
    run.call("backward_take")
    return run.leave(left.tolist())


def _shortened(header: np.ndarray, by_bag: int, world: Any) -> np.ndarray:
    return np.concatenate([header[:2], ties.header(world, header[2:], int(by_bag))])
