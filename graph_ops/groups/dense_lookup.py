"""The grouped forms of the dense lookup and of its gradient, on one rank and on several."""
from sok1x.graph_ops.groups import lane, lookup_alone, lookup_ranks, lookup_ranks_backward
from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.stores.store import request_store


class Forward(GroupForm):
    """Many tables' lookups."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key: where it is known whether they train."""
        if config.training is None or by_itself(config):
            return None
        return ("training", config.training) + lookup_ranks.way(config)

    def serves_one(self, taken, world):
        """See GroupForm.serves_one: an evaluation, too, unless it may have to be done again: what keys without a row
        read may lie in the variable."""
        return taken.config.training is True or not (taken.config.table.hashed and taken.config.table.by_row)

    def key(self, taken, world):
        """See GroupForm.key."""
        if by_itself(taken.config):
            return None
        if world.size == 1:
            return lookup_alone.key(taken)
        return lookup_ranks.forward_key(taken)

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        if by_itself(call.config):
            return None
        return lane.LaneOp(lane.FORWARD, lookup_ranks.way(call.config), request, call, world)

    def prepare(self, members, world):
        """See GroupForm.prepare."""
        lookup_ranks.prepare(members, world)

    def run(self, members, world):
        """See GroupForm.run."""
        return lookup_alone.forward(members) if world.size == 1 else lookup_ranks.forward(members, world)

    def give_room(self, taken, world):
        """See GroupForm.give_room."""
        request = taken.request
        request.begin()
        with request_store(request, taken.config, world, exclusive=True) as store:
            return store.give_room(request.needs_rows)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        lookup = taken.request.state = taken.call.operation.Lookup(taken.request, taken.config, world)
        lookup.start()
        lookup.state = lookup_ranks.asked_of_owners(taken, lookup.leave("inverse", lookup.keys.size))


class Backward(GroupForm):
    """Their gradients. Those of lookups whose keys may have no row run by themselves."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key."""
        return ("known",) + lookup_ranks.way(config) if config.rows_known else None

    def serves_one(self, taken, world):
        """See GroupForm.serves_one."""
        return True

    def key(self, taken, world):
        """See GroupForm.key."""
        known = taken.config.rows_known if taken.headers is None else taken.headers[:, 0].all()
        return ("known",) + lookup_ranks.way(taken.config) if known else None

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        if not call.config.rows_known:
            return None
        return lane.LaneOp(lane.BACKWARD, lookup_ranks.way(call.config), request, call, world)

    def prepare(self, members, world):
        """See GroupForm.prepare."""
        lookup_ranks_backward.prepare_backward(members, world)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        taken.call.operation.prepare(taken.request, taken.config, world)

    def run(self, members, world):
        """See GroupForm.run."""
        return lookup_alone.backward(members) if world.size == 1 else lookup_ranks_backward.backward(members, world)


def by_itself(config):
    """Whether lookups are for Python: those of tables with a cache."""
    return config.table.cache is not None
