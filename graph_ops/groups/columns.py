"""Facts about a group's members as columns of numbers, made once for each set of kernels that runs together."""
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

_MOST = 1000
_known: Dict[Tuple[int, ...], Dict[str, np.ndarray]] = {}


class Columns:
    """The members' facts, each int64 [T]. members: list of `together.Taken`."""

    def __init__(self, members: List[Any]) -> None:
        self._members = members
        kernels = tuple([taken.request.kernel for taken in members])
        found = _known.get(kernels)
        if found is None:
            if len(_known) >= _MOST:  # groups of sessions long closed
                _known.clear()
            found = _known[kernels] = {}
        self._found = found

    def of(self, name: str, fact: Callable[[Any], Any]) -> np.ndarray:
        """`fact(config)` of each member, not to be changed. name: tells this fact from others."""
        column = self._found.get(name)
        if column is None:
            column = self._found[name] = np.array([fact(taken.config) for taken in self._members], np.int64)
            column.setflags(write=False)
        return column

    @property
    def dims(self) -> np.ndarray:
        """D of each table."""
        return self.of("dims", lambda config: config.table.dim)

    @property
    def hashed(self) -> np.ndarray:
        """1 for a table with an index."""
        return self.of("hashed", lambda config: config.table.hashed)

    @property
    def parts(self) -> np.ndarray:
        """Over how many ranks each table's keys are dealt out; 0: over all."""
        return self.of("parts", lambda config: config.table.placement.rank is not None)

    @property
    def first(self) -> np.ndarray:
        """The first of these ranks."""
        return self.of("first", lambda config: config.table.placement.first)

    @property
    def keys(self) -> np.ndarray:
        """How many keys each table without index has on all ranks; 0: V on each that has keys."""
        return self.of("keys", lambda config: config.table.keys or 0)

    @property
    def rows(self) -> np.ndarray:
        """V of each table."""
        return self.of("rows", lambda config: config.table.rows)
