"""The grouped forms of the dense lookup's operations, on one rank and on several."""
from sok1x.graph_ops.groups import dense_alone, dense_ranks
from sok1x.graph_ops.groups.form import GroupForm


class Forward(GroupForm):
    """Many tables' lookups."""

    def key(self, taken, world):
        if world.size == 1:
            return dense_alone.key(taken)
        return dense_ranks.forward_key(taken)

    def prepare(self, members, world):
        dense_ranks.prepare(members, world)

    def run(self, members, world):
        return dense_alone.forward(members) if world.size == 1 else dense_ranks.forward(members, world)
