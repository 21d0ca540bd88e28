"""The requester's side: a batch's distinct keys, and whom they are asked of."""
import dataclasses
from typing import Any, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import partition
from sok1x.graph_ops.exchanges.lookup import Lookup
from sok1x.graph_ops.stores import key_types
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.store import check_keys


@dataclasses.dataclass(frozen=True)
class Asked:
    """A batch's distinct keys.

    Attributes:
      keys: int64 [U]. count: U.
      inverse: int32 [K], which of them each position asks for.
    """

    keys: Any
    count: int
    inverse: Any


@dataclasses.dataclass(frozen=True)
class AskedOfOwners(Asked):
    """The same in the order in which they are sent: by owner, or, where they go by hosts, by who is to ask the owner.

    Attributes:
      send_counts: int64 [N], keys that go to each rank.
    """

    send_counts: np.ndarray


def ask(lookup: Lookup, inverse: Any) -> Asked:
    """A batch's distinct keys, in order of first appearance.

    Args:
      inverse: int32 [K], filled.

    Raises:
      CallError: INVALID_ARGUMENT where a key can have no row.
    """
    keys, count = make_distinct(lookup.request, lookup.keys, inverse)
    check_keys(lookup.request, lookup.table, lookup.world, keys, count,
               lambda key: lookup.place_of(int(np.flatnonzero(inverse.read() == key)[0])))
    key_types.check(lookup.request, lookup.table, lookup.world, lookup.keys, lookup.place_of)
    return Asked(keys, count, inverse)


def ask_owners(lookup: Lookup, inverse: Any) -> AskedOfOwners:
    """As `ask`, brought into the order in which they are sent."""
    asked, hosts = ask(lookup, inverse), lookup.by_hosts
    position, keys = lookup.request.temporary("int32", asked.count), lookup.request.temporary("int64", asked.count)
    # N is a multiple of a host's ranks, so that a key's owner has the local number that the key has here.
    to = None if hosts is None else (hosts.local, hosts.first)
    counts = by_owner(lookup, asked.keys, asked.count, keys, position, to)
    partition.remap(inverse, position)
    return AskedOfOwners(keys, asked.count, inverse, counts)


def by_owner(lookup: Lookup, keys: Any, count: int, grouped: Any, position: Any,
             to: Optional[Tuple[int, int]] = None) -> np.ndarray:
    """Keys int64 [count] in the order of their owners, in `grouped`; position int32 [count]: where each one went.

    Args:
      to: (parts, first): by ranks first + key mod parts instead.

    Returns:
      int64 [N], keys of each.
    """
    request, ranks, placement = lookup.request, lookup.world.size, lookup.table.placement
    parts, first = to or (placement.parts(ranks), placement.first)
    counts = request.temporary("int64", parts)
    partition.partition(keys.front(count), counts, grouped.front(count), position.front(count))
    of_all = np.zeros(ranks, np.int64)
    of_all[first:first + parts] = counts.read()
    return of_all
