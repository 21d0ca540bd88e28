"""The grouped forms of the combined lookup and of its gradient: as the dense lookup's, where rows go by all2all; and
where they go by reduce_scatter."""
from sok1x import launch
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.lookup import row_bytes
from sok1x.graph_ops.groups import dense_lookup, lane, lookup_ranks, lookup_ranks_sums

_BY_SUMS = ("reduce_scatter",)  # in the key of those that go by it


class Forward(dense_lookup.Forward):
    """Many tables' lookups."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key."""
        key, world = super().fixed_key(config), launch.current()
        if key is None or config.exchange != "reduce_scatter":
            return key
        return None if world is None else key + _told(config, world)  # before Init the op itself asks for it

    def serves_one(self, taken, world):
        """See GroupForm.serves_one: on one rank not where bags are summed up before it is known whether all keys have
        rows. By reduce_scatter they are, too: an evaluation of keys that have none is done again there."""
        if taken.config.table.hashed and world.size == 1:
            return taken.config.training is True
        return super().serves_one(taken, world)

    def key(self, taken, world):
        """See GroupForm.key."""
        key = super().key(taken, world)
        if key is None or world.size == 1:
            return key
        if taken.headers is None:
            return key + _told(taken.config, world)
        by = _decided(taken, world)
        if by is None:
            return None
        if taken.headers[0, 0]:
            taken.call.went(by.number)
        return key + (_BY_SUMS if by is choice.REDUCE_SCATTER else ())

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        if dense_lookup.by_itself(call.config):
            return None
        together = lookup_ranks.way(call.config) + _told(call.config, world)
        return lane.LaneOp(lane.FORWARD, together, request, call, world)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        request, config = taken.request, taken.config
        lookup = request.state = taken.call.operation.Lookup(request, config, world)
        lookup.take_over(taken.prepared.bags)
        if _told(config, world):
            return
        inverse = lookup.leave("inverse", lookup.keys.size)
        if _decided(taken, world) is not choice.REDUCE_SCATTER:  # which needs no distinct keys
            lookup.state = lookup_ranks.asked_of_owners(taken, inverse)

    def run(self, members, world):
        """See GroupForm.run."""
        if world.size > 1 and _decided(members[0], world) is choice.REDUCE_SCATTER:
            return lookup_ranks_sums.forward(members, world)
        return super().run(members, world)


class Backward(dense_lookup.Backward):
    """Their gradients. Those of lookups whose keys may have no row run by themselves."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key: how the lookup has gone is not in the config."""

    def key(self, taken, world):
        """See GroupForm.key."""
        key = super().key(taken, world)
        if key is None or world.size == 1:
            return key
        by = _exchanges_of(taken)
        if len(by) > 1:
            return None
        return key + (_BY_SUMS if by == {choice.REDUCE_SCATTER.number} else ())

    def run(self, members, world):
        """See GroupForm.run."""
        if world.size > 1 and _exchanges_of(members[0]) == {choice.REDUCE_SCATTER.number}:
            return lookup_ranks_sums.backward(members, world)
        return super().run(members, world)


def _told(config, world):
    """What is in the key of a lookup that is to go by reduce_scatter on several ranks, whatever they have."""
    return _BY_SUMS if world.size > 1 and config.exchange == "reduce_scatter" else ()


def _decided(taken, world):
    """By which exchange a lookup goes, once all ranks' headers are there; None: they leave that open."""
    config = taken.config
    return choice.to_run(world, config.exchange, row_bytes(config.table, config.dtype), taken.headers)


def _exchanges_of(taken):
    """The numbers (a set) of the exchanges by which a gradient's lookup has gone: on all ranks, once it is decided."""
    if taken.headers is None:
        return {int(taken.request.host_inputs[0].numpy()[0])}
    return set(taken.headers[:, 1].tolist())
