"""A table's variables in a graph, by name, and which of them an op has among its resources."""
import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from sok1x.graph_ops.stores import cache
from sok1x.graph_ops.stores.forgetting import VARIABLES
from sok1x.graph_ops.stores.table import Table

OWN = ("rows", "index", "count")  # what holds the table's content
STAMPS = ("stamps", "clock")  # what says when it changed: see clock.py
# What whoever changes rows needs besides them: a cache hears of it.
CHANGING = STAMPS + ("tiers",)
# All of these, and what a table has that forgets, or has a cache: what whoever inserts keys needs.
CONTENT = OWN + STAMPS + VARIABLES + cache.VARIABLES


class Held(NamedTuple):
    """The variables that an op has as its resources, in their order.

    Attributes:
      names: of the table's own variables, as in `TableVariables`. slots: names of those that follow, an optimizer's.
    """

    names: Tuple[str, ...]
    slots: Tuple[str, ...] = ()

    def pick(self, resources: Sequence[Any], *names: str) -> List[Any]:
        """Of an op's resources (handles, or what they lead to) those with these names."""
        return [resources[self.names.index(name)] for name in names]


class Resources(NamedTuple):
    """For an op that is being built: its config's `held`, and its resource inputs."""

    held: Held
    handles: List[Any]


@dataclasses.dataclass(frozen=True)
class TableVariables:
    """The handles of a table's variables, and the table.

    Attributes:
      table: the description.
      rows: float32 [V, D]. stamps: int64 [V]. clock: int64 []: see clock.py.
      index: int64 [C, 2], a key and its row in each slot. count: int64 [], rows in use. Both None for a table that is
        not `hashed`.
      forgetting: {name: handle} of what it has besides if it forgets, or has a cache: see `ForgetfulStore` and
        `CachedStore`.
    """

    table: Table
    rows: Any
    stamps: Any
    clock: Any
    index: Optional[Any] = None
    count: Optional[Any] = None
    forgetting: Dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def content(self) -> Tuple[str, ...]:
        """Names of the variables that hold the table's content, for `resources`: what is saved and replaced."""
        return OWN + (STAMPS + tuple(self.forgetting) if self.forgetting else ())

    def resources(self, *names: str, slots: Optional[Dict[str, Any]] = None) -> Resources:
        """What an op needs to work on these variables, as far as the table has them.

        Args:
          names: as in `CONTENT`. slots: {name: handle} of variables besides, with V rows.
        """
        slots = slots or {}
        handles = {name: getattr(self, name) for name in OWN + STAMPS}
        handles.update(self.forgetting)
        there = [name for name in names if handles.get(name) is not None]
        return Resources(Held(tuple(there), tuple(slots)), [handles[name] for name in there] + list(slots.values()))
