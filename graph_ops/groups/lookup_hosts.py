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


def ask_near(run: LookupRun, members: List[Any], world: Any, near: Tuple[np.ndarray, np.ndarray], sent: np.ndarray,
             begins: np.ndarray, whole: bool) -> Optional[Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Exchanges keys inside the host, and makes them distinct.

    Args:
      near: keys that go to ranks of this host, and come from these, int64 [T, N] each. sent, begins, whole: as
        "forward_ask" takes them.

    Returns:
      (keys for their owners, int64 [T, N]; keys from all that ask, [T, N]; sent; begins) for "forward_ask"; None where
      keys have too many dimensions for a group.
    """
    said = run.team.said(world.size)
    if run.call("near_ask", world.size, *near, sent, begins, whole, *said.exchange_at) == TOO_MANY_DIMENSIONS:
        return None
    run.exchange(members[0].request.communicator, said, INSIDE)
    given, begins, sent = np.empty_like(near[0]), np.empty_like(near[0]), np.empty(len(members), np.int64)
    run.call("near_relay", given, begins, sent)
    taken_in = counts_for_this_rank(world, given, ACROSS)
    for taken, sends, receives in zip(members, given, taken_in):
        config = taken.config
        figures.asked(config.table.name, world.rank, sends, receives, row_bytes(config.table, config.dtype), keys=True)
    return given, taken_in, sent, begins


def count_gradient(taken: Any, world: Any, sends: np.ndarray, receives: np.ndarray) -> None:
    """Counts what a gradient's rows move. sends, receives: int64 [N], rows for each rank, and from it."""
    figures.asked(taken.config.table.name, world.rank, sends, receives,
                  row_bytes(taken.config.table, taken.request.inputs[0].dtype), keys=False)


def sum_near(run: LookupRun, members: List[Any], world: Any) -> None:
    """Adds up what the ranks of this host have for one key, and exchanges the sums across hosts."""
    said, ranks = run.team.said(world.size), world.size
    run.call("near_sum", *said.exchange_at)
    for taken in members:
        sends, receives = taken.request.host_inputs[0].numpy()[-1 - 2 * ranks:-1].reshape(2, ranks)
        count_gradient(taken, world, sends, receives)
    run.exchange(members[0].request.communicator, said, ACROSS)
