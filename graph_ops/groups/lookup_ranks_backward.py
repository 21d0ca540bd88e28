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
            taken.header, taken.prepared = _told(header, run.by_bag, world), run
    run.prepared()


def backward(members: List[Any], world: Any) -> LookupRun:
    """The gradients of decided members. Returns its run."""
    run, size = again(members), len(members)
    headers = _whole_headers(members, run.by_bag, world)  # [T N, h]
    width = headers.shape[1]
    left, said = np.empty(size, np.uint8), run.team.said(world.size)
    run.call("backward_send", world.rank, world.size, width, headers, left, *said.exchange_at)
    run.exchange(members[0].request.communicator, said, INSIDE if run.team.by_hosts else ALL)
    lookup_ranks.count_exchanges(run, members, world, headers, forward=False)
    if run.team.by_hosts:
        lookup_hosts.sum_near(run, members, world)
    lookup_ranks.come(members, timeline.ROWS)
    run.call("backward_take")
    return run.leave(left.tolist())


def _told(header: np.ndarray, by_bag: int, world: Any) -> np.ndarray:
    return np.concatenate([header[:2], ties.header(world, header[2:], int(by_bag))])


def _whole_headers(members: List[Any], by_bag: int, world: Any) -> np.ndarray:
    """The headers of all ranks, int64 [T N, h]. Where they are short other ranks count what this one does.

    By hosts the counts are those inside hosts.
    """
    headers = np.stack([taken.headers for taken in members])
    if not world.short_headers:
        return headers.reshape(-1, headers.shape[2])
    ranks, rank, kept = world.size, world.rank, headers.shape[2] - 1
    whole = np.zeros(headers.shape[:2] + (kept + 2 * ranks + 1,), np.int64)
    whole[..., :kept], whole[..., -1] = headers[..., :kept], headers[..., -1]
    sent, received = whole[..., kept:kept + ranks], whole[..., kept + ranks:-1]
    for number, taken in enumerate(members):
        saved = taken.request.host_inputs[0].numpy()[int(by_bag):]
        sent[number, :, rank], received[number, :, rank] = saved[ranks:2 * ranks], saved[:ranks]
        sent[number, rank], received[number, rank] = saved[:ranks], saved[ranks:2 * ranks]
    return whole.reshape(-1, whole.shape[2])
