"""By way of which ranks messages go to rank 0 and back.

In a small job each rank talks with rank 0. In a large one that would be rank 0's whole time, so ranks form a tree: each
hears a few ranks below it and passes on what they say, in few messages; the word goes down the same way. Ranks of a
host are together in it as far as they can be.

That a rank passes messages on only between its exchanges stops nobody. An exchange that is under way needs nothing but
that all ranks hear of it, and whoever has begun it has passed the word on before. So it ends on all ranks, if the one
before it has; then messages go on. Nobody waits for what it sends towards rank 0.
"""
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple


class Tree(NamedTuple):
    """A rank's place.

    Attributes:
        rank: This rank.
        parent: The next rank on the way to rank 0; None on rank 0.
        children: The ranks that send to this one, in order.
        hops: For each of the N ranks, the child by way of which it is heard here; itself for this rank; -1 for ranks
            that are not heard by way of this one.
        parents: The parent of each of the N ranks, -1 for rank 0.
    """
    rank: int
    parent: Optional[int]
    children: Tuple[int, ...]
    hops: Tuple[int, ...]
    parents: Tuple[int, ...]

    @property
    def relays(self):
        """Whether this rank passes messages on."""
        return self.parent is not None and bool(self.children)

    def is_leaf(self, rank):
        """Whether no rank is heard by way of `rank`."""
        return rank not in self.parents

    def way(self, rank):
        """The ranks by way of which `rank` is heard on rank 0, from the nearest on: [] where they talk directly."""
        way, at = [], self.parents[rank]
        while at > 0:
            way.append(at)
            at = self.parents[at]
        return way


def of(rank: int, parents: Sequence[int]) -> Tree:
    """The place of a rank in the tree with these parents [N], -1 for rank 0."""
    hops: List[int] = []
    for one in range(len(parents)):
        before, at = one, one
        while at not in (rank, -1):
            before, at = at, parents[at]
        hops.append(-1 if at == -1 else before)
    children = sorted(set(hops) - {rank, -1})
    return Tree(rank, None if rank == 0 else parents[rank], tuple(children), tuple(hops), tuple(parents))


def flat(size: int) -> List[int]:
    """The parents of N ranks that all talk with rank 0."""
    return [-1] + [0] * (size - 1)


def deep(hosts: Sequence[str], width: int) -> List[int]:
    """The parents of N ranks of which each has `width` children at most.

    Args:
        hosts: Each rank's host.
        width: A number, 1 or more.
    """
    first: Dict[str, int] = {}
    for rank, host in enumerate(hosts):
        first.setdefault(host, rank)
    parents = [-1] * len(hosts)
    pieces = [sorted(range(len(hosts)), key=lambda rank: (first[hosts[rank]], rank))]
    while pieces:
        head, *others = pieces.pop()
        for piece in _cut(others, hosts, width):
            parents[piece[0]] = head
            pieces.append(piece)
    return parents


def _cut(ranks, hosts, width):
    """Ranks as `width` pieces of about one length, cut between two hosts where that is near."""
    count = min(width, len(ranks))
    if not count:
        return []
    between = [at for at in range(1, len(ranks)) if hosts[ranks[at - 1]] != hosts[ranks[at]]]
    cuts = [0]
    for piece in range(1, count):
        even = piece * len(ranks) / count
        near = [at for at in between if abs(at - even) <= 0.4 * len(ranks) / count and at > cuts[-1]]
        cuts.append(min(near, key=lambda at, even=even: abs(at - even)) if near else max(cuts[-1] + 1, round(even)))
    return [ranks[begin:end] for begin, end in zip(cuts, cuts[1:] + [len(ranks)]) if begin < end]
