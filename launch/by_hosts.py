"""Which ranks exchange with which where exchanges go by hosts: inside a host first, then once for each pair of hosts.

A host has L ranks, the h-th of H hosts ranks h L to h L + L - 1, and a rank's local number is rank mod L. Inside its
host a rank meets all others; across hosts those of its own local number.
"""
from typing import NamedTuple, Optional, Sequence, Tuple

# With whom a rank exchanges. Kept in step with Among in graph_ops/groups/exchanges.h.
ALL, INSIDE, ACROSS = range(3)


class ByHosts(NamedTuple):
    """Attributes:
        rank: this one. local: L, ranks of a host. hosts: H.
    """

    rank: int
    local: int
    hosts: int

    @property
    def first(self) -> int:
        """The first rank of this host."""
        return self.rank - self.rank % self.local

    def ranks(self, among: int) -> range:
        """The ranks that this one exchanges with, itself among them. among: INSIDE or ACROSS."""
        if among == INSIDE:
            return range(self.first, self.first + self.local)
        return range(self.rank % self.local, self.local * self.hosts, self.local)

    def described(self) -> str:
        """For people."""
        return "by hosts: {} of {} ranks".format(self.hosts, self.local)


def find(wanted: int, firsts: Sequence[int], rank: int) -> Tuple[Optional[ByHosts], str]:
    """How a rank's exchanges go by hosts.

    Args:
        wanted: 0: not at all. 1: by the hosts that there are. L: as if L ranks that follow each other had a host.
        firsts: of each rank the first rank of its host.

    Returns:
        The ByHosts, or None; and why they cannot, where that is wanted.
    """
    size = len(firsts)
    if wanted == 0:
        return None, ""
    if wanted > 1:
        if size % wanted or size == wanted:
            return None, "{} ranks are not two or more hosts of {}".format(size, wanted)
        return ByHosts(rank, wanted, size // wanted), ""
    counts = [list(firsts).count(first) for first in sorted(set(firsts))]
    local = counts[0]
    if len(counts) == 1:
        return None, "all ranks are on one host"
    if min(counts) != max(counts):
        return None, "the hosts have {} ranks, not equally many".format(" and ".join(map(str, counts)))
    if local == 1:
        return None, "each host has one rank"
    if list(firsts) != [one - one % local for one in range(size)]:
        return None, "the ranks of a host do not follow each other (mpiexec --map-by slot has them do so)"
    return ByHosts(rank, local, size // local), ""
