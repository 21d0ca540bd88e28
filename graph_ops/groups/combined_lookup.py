"""The grouped forms of the combined lookup's operations, on one rank and on several."""
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.lookup import row_bytes
from sok1x.graph_ops.groups import combined_alone, combined_ranks, dense_alone, dense_ranks
from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.stores.table import DIRECT, HASHED

# What the grouped forms know of a lookup. One that says more is run by itself, until they know that too.
_TABLE = ("name", "rows", "dim", "kind", "key_dtype", "initializer", "placement", "keys", "dtype")
_FORWARD = ("table", "held", "label", "slot_num", "max_nnz", "combiner", "exchange", "dtype", "training", "rows_known")
_BACKWARD = ("table", "label", "combiner", "rows_known")


def _known(config, fields):
    """Whether a group does all that a config says."""
    return (config._fields == fields and config.table._fields == _TABLE and config.table.kind in (HASHED, DIRECT)
            and config.combiner in ("sum", "mean"))


class Forward(GroupForm):
    """Many tables' lookups. On several ranks those whose rows go by all2all."""

    def fixed_key(self, config):
        """See GroupForm.fixed_key: where it is known whether they train, and the exchange may be all2all."""
        if config.training is None or not _known(config, _FORWARD) or config.exchange == "reduce_scatter":
            return None
        return "training", config.training

    def key(self, taken, world):
        """See GroupForm.key."""
        config = taken.config
        if not _known(config, _FORWARD):
            return None
        if world.size == 1:
            return dense_alone.key(taken)
        if taken.headers is None:
            by = choice.to_prepare(world, config.exchange)
        else:
            by = choice.to_run(world, config.exchange, row_bytes(config.table, config.dtype), taken.headers)
        return dense_ranks.forward_key(taken) if by is choice.ALL2ALL else None

    def prepare(self, members, world):
        """See GroupForm.prepare."""
        combined_ranks.prepare(members, world)

    def run(self, members, world):
        """See GroupForm.run."""
        return combined_alone.forward(members) if world.size == 1 else combined_ranks.forward(members, world)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        combined_ranks.hand_over(taken, world)


class Backward(GroupForm):
    """Their gradients. Those of lookups whose keys may have no row run by themselves."""

    def key(self, taken, world):
        """See GroupForm.key."""
        config = taken.config
        if not _known(config, _BACKWARD):
            return None
        if world.size == 1:
            return True if config.rows_known else None
        by = combined_ranks.exchange_numbers(taken)
        known = config.rows_known if taken.headers is None else taken.headers[:, 0].all()
        return True if known and by == {choice.ALL2ALL.number} else None

    def prepare(self, members, world):
        """See GroupForm.prepare."""
        combined_ranks.prepare_backward(members)

    def hand_over(self, taken, world):
        """See GroupForm.hand_over."""
        taken.call.operation.prepare(taken.request, taken.config, world)

    def run(self, members, world):
        """See GroupForm.run."""
        return combined_alone.backward(members) if world.size == 1 else combined_ranks.backward(members, world)
