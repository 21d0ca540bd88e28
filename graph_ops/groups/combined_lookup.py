"""The grouped forms of the combined lookup and of its gradient: as the dense lookup's, where rows go by all2all."""
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.lookup import row_bytes
from sok1x.graph_ops.groups import dense_lookup, lookup_ranks


class Forward(dense_lookup.Forward):
    """Many tables' lookups. On several ranks those whose rows go by all2all."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key: the exchange may be all2all, too."""
        return None if config.exchange == "reduce_scatter" else super().fixed_key(config)

    def serves_one(self, taken, world):
        """See GroupForm.serves_one: on one rank bags are summed up when it is known whether all keys have rows."""
        if world.size == 1 and taken.config.table.hashed:
            return taken.config.training is True
        return super().serves_one(taken, world)

    def key(self, taken, world):
        """See GroupForm.key."""
        config = taken.config
        if world.size > 1 and taken.headers is None:
            by = choice.to_prepare(world, config.exchange)
        else:
            by = choice.to_run(world, config.exchange, row_bytes(config.table, config.dtype), taken.headers)
        return None if by in (None, choice.REDUCE_SCATTER) else super().key(taken, world)

    def lane(self, request, call, world):
        """See GroupForm.lane: on several ranks what goes by reduce_scatter is run by itself."""
        return None if world.size > 1 and call.config.exchange == "reduce_scatter" else super().lane(
            request, call, world)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        request, config = taken.request, taken.config
        lookup = request.state = taken.call.operation.Lookup(request, config, world)
        lookup.take_over(taken.prepared.bags)
        inverse = lookup.leave("inverse", lookup.keys.size)
        if choice.to_run(world, config.exchange, row_bytes(config.table, config.dtype),
                         taken.headers) is not choice.REDUCE_SCATTER:  # which needs no distinct keys
            lookup.state = lookup_ranks.asked_of_owners(taken, inverse)


class Backward(dense_lookup.Backward):
    """Their gradients. Those of lookups whose keys may have no row run by themselves."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key: how the lookup has gone is not in the config."""

    def key(self, taken, world):
        """See GroupForm.key."""
        if world.size > 1 and _exchanges_of(taken) != {choice.ALL2ALL.number}:
            return None
        return super().key(taken, world)


def _exchanges_of(taken):
    """The numbers (a set) of the exchanges by which a gradient's lookup has gone: on all ranks, once it is decided."""
    if taken.headers is None:
        return {int(taken.request.host_inputs[0].numpy()[0])}
    return set(taken.headers[:, 1].tolist())
