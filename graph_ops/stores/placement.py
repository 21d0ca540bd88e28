"""Which rank has which keys of a table: the one place that says so."""
from typing import Any, NamedTuple, Optional


class Placement(NamedTuple):
    """Where a table's keys are.

    Keys are dealt out over `parts` ranks, `first` being the first of them: key k belongs to rank first + k % parts, and
    in a table without index it is row k // parts there. Kernels that ask for a number of ranks are given `parts`.

    Attributes:
      rank: None: all ranks have keys, key k belongs to rank k % N. R: rank R has all of them.
    """

    rank: Optional[int] = None

    @property
    def first(self) -> int:
        """The first rank that has keys."""
        return self.rank or 0

    def parts(self, ranks: int) -> int:
        """How many ranks have keys."""
        return ranks if self.rank is None else 1

    def by_hosts(self, world: Any) -> Any:
        """How keys, rows and gradients go by hosts, a launch.by_hosts.ByHosts; None where they do not.

        Keys of one rank's table do not: each of them has one owner to go to, whatever its host.
        """
        return None if world is None or self.rank is not None else world.by_hosts

    def has_keys(self, rank: int) -> bool:
        """Whether keys may belong to a rank."""
        return self.rank is None or self.rank == rank

    def owners(self, keys: Any, ranks: int) -> Any:
        """The rank of each key; keys: int or NumPy int64."""
        return self.first + keys % self.parts(ranks)

    def rows(self, keys: Any, ranks: int) -> Any:
        """Without an index: the row of each key, on its owner."""
        return keys // self.parts(ranks)

    def keys(self, rows: Any, rank: int, ranks: int) -> Any:
        """Without an index: the key of each row of a rank that has keys."""
        return rows * self.parts(ranks) + rank - self.first

    def rows_of(self, keys: int, rank: int, ranks: int) -> int:
        """Without an index: how many of the keys 0 to keys - 1 a rank has."""
        parts = self.parts(ranks)
        return max(0, -(-(keys - (rank - self.first)) // parts)) if self.has_keys(rank) else 0

    def label(self) -> str:
        """In a few words, for people."""
        return "by key" if self.rank is None else "all rows on rank {}".format(self.rank)


BY_KEY = Placement()
