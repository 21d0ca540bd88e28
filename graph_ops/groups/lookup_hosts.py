"""What is different of groups on several ranks whose exchanges go by hosts (exchanges/by_hosts.py).

What each rank of a host asks is exchanged inside it, made distinct there, and then asked of the owners as in any group;
and so on the way back. Launches and exchanges are as many for one member as for all. C++ does the same where it runs
groups by itself (lane_ranks_hosts.cc).
"""
from typing import Any, List, Optional, Tuple

import numpy as np

from sok1x.graph_ops.exchanges.lookup import counts_for_this_rank, row_bytes
from sok1x.graph_ops.groups.lookup_run import TOO_MANY_DIMENSIONS, LookupRun
from sok1x.graph_ops.stores import figures
from sok1x.launch.by_hosts import ACROSS, INSIDE


def ask_near(run: LookupRun, members: List[Any], world: Any, headers: np.ndarray, sent: np.ndarray, begins: np.ndarray,
             whole: bool) -> Optional[Tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Exchanges keys inside the host, and makes them distinct.

    Args:
      headers: int64 [T N, h], which end with the keys that each rank of this host has for each. sent, begins, whole: as
        "forward_ask" takes them, and leaves out what owners need.

    Returns:
      (headers int64 [T N, N], sent, begins) for "forward_ask"; None where keys have too many dimensions for a group.
    """
    size, ranks, rank, said = len(members), world.size, world.rank, run.team.said(world.size)
    counts = headers.reshape(size, ranks, -1)[:, :, -ranks:]
    given, taken = np.ascontiguousarray(counts[:, rank]), np.ascontiguousarray(counts[:, :, rank])
    if run.call("near_ask", ranks, given, taken, sent, begins, whole, *said.exchange_at) == TOO_MANY_DIMENSIONS:
        return None
    run.exchange(members[0].request.communicator, said, INSIDE)
    # What is counted of these exchanges still needs the headers' numbers, which `given` may be: new memory.
    given, begins, sent = np.empty_like(given), np.empty_like(given), np.empty(size, np.int64)
    run.call("near_relay", given, begins, sent)
    taken = counts_for_this_rank(world, given, ACROSS)
    far = np.zeros((size, ranks, ranks), np.int64)
    far[:, :, rank], far[:, rank] = taken, given
    for taken_in, sends, receives in zip(members, given, taken):
        config = taken_in.config
        figures.asked(config.table.name, rank, sends, receives, row_bytes(config.table, config.dtype), keys=True)
    return far.reshape(size * ranks, ranks), sent, begins


def sum_near(run: LookupRun, members: List[Any], world: Any) -> None:
    """Adds up what the ranks of this host have for one key, and exchanges the sums across hosts."""
    said, ranks = run.team.said(world.size), world.size
    run.call("near_sum", *said.exchange_at)
    for taken in members:
        sends, receives = taken.request.host_inputs[0].numpy()[-1 - 2 * ranks:-1].reshape(2, ranks)
        figures.asked(taken.config.table.name, world.rank, sends, receives,
                      row_bytes(taken.config.table, taken.request.inputs[0].dtype), keys=False)
    run.exchange(members[0].request.communicator, said, ACROSS)
