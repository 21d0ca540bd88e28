"""Which tables' lookups the grouped forms know: on several ranks those whose keys are dealt out evenly."""
from typing import Any

from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.stores.placement import BY_KEY


class DealtEvenly(GroupForm):
    """A grouped form of lookups that takes key k to be row k // N of rank k % N, and every rank to have V rows.

    Lookups of other tables (all rows on one rank, or rows that are no multiple of N) run by themselves on several
    ranks; on one rank there is no difference.

    Args:
      form: the grouped form.
    """

    def __init__(self, form: GroupForm) -> None:
        self._form = form

    def fixed_key(self, config: Any) -> Any:
        """See `GroupForm.fixed_key`: of tables that every number of ranks deals out evenly."""
        table = config.table
        return self._form.fixed_key(config) if table.placement == BY_KEY and table.keys is None else None

    def serves_one(self, config: Any) -> bool:
        """See `GroupForm.serves_one`."""
        return bool(self._form.serves_one(config))

    def key(self, taken: Any, world: Any) -> Any:
        """See `GroupForm.key`."""
        if world.size > 1 and not taken.config.table.dealt_evenly(world.size):
            return None
        return self._form.key(taken, world)

    def prepare(self, members: Any, world: Any) -> None:
        """See `GroupForm.prepare`."""
        self._form.prepare(members, world)

    def run(self, members: Any, world: Any) -> Any:
        """See `GroupForm.run`."""
        return self._form.run(members, world)

    def hand_over(self, taken: Any, world: Any) -> None:
        """See `GroupForm.hand_over`."""
        self._form.hand_over(taken, world)
