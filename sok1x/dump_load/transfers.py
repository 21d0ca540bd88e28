"""The ops that move a table's shard, made once: a table's own with the table, those of its slots with their optimizer's
first step, or later where the graph may still grow."""
import contextlib
from typing import Any, Dict, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.files import shard_names
from sok1x.checkpoint.session.tables import TableState
from sok1x.checkpoint.session.transfer import Transfer
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.dump_load import slot_names
from sok1x.dump_load.slot_names import Slots
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.transfer import shard_transfer

SAVE, LOAD = "dump_shard", "load_dumped_shard"  # the ops' names, in the scope of the table's
_KEPT_BY = "_sok1x_dump_transfers"


def slots_of(variable: EmbeddingVariable, optimizer: Any) -> Slots:
    """What an optimizer, or an `OptimizerWrapper`, keeps for a table."""
    return slot_names.of(getattr(optimizer, "_own", optimizer), variable)


class TableTransfers(NamedTuple):
    """What moves a table's shard.

    Attributes:
        variable: the table. slots: those that are moved too, none without an optimizer.
        save, load: this rank's shard, with the parts "slot:NAME" for each of them.
    """

    variable: EmbeddingVariable
    slots: Slots
    save: Transfer
    load: Transfer


def of(variable: EmbeddingVariable, optimizer: Any = None) -> TableTransfers:
    """The transfers of a table and of what an optimizer keeps for it.

    Args:
        variable: the table.
        optimizer: with `get_slot_names` and `get_slot`, or an `OptimizerWrapper`; None: the rows alone.

    Raises:
        RuntimeError: they are not made yet, and the graph is finalized.
    """
    slots = Slots() if optimizer is None else slots_of(variable, optimizer)
    kept: Dict[Any, Any] = variable.__dict__.setdefault(_KEPT_BY, {})
    key: Tuple[Any, ...] = tuple((slot, made.op.name) for slot, made in slots.variables.items())
    if key not in kept:
        if variable.graph.finalized:
            raise RuntimeError(
                "sok1x.dump and sok1x.load: the graph is finalized, and has no ops for the slots of optimizer {} for "
                "table '{}'; give them the sok1x.OptimizerWrapper whose apply_gradients has trained it, or call one of "
                "them once before the graph is finalized".format(slots.optimizer, variable.table.name))
        if eager.is_on():
            for other in [other for other in kept if other]:
                del kept[other]  # optimizers come and go there, and this would keep their slots
        kept[key] = _make(variable, slots)
    save, load = kept[key]
    return TableTransfers(variable, slots, save, load)


def make_anew(variable: EmbeddingVariable) -> None:
    """Forgets the transfers of a table whose description has changed, and makes its own again."""
    variable.__dict__.pop(_KEPT_BY, None)
    of(variable)


def _make(variable: EmbeddingVariable, slots: Slots) -> Tuple[Transfer, Transfer]:
    state = TableState(variable, {shard_names.SLOT + slot: made for slot, made in slots.variables.items()})
    with contextlib.ExitStack() as stack:
        # Of an eager table's graph there is no way out.
        for place in [eager.room(variable)] if eager.is_on() else [variable.graph.as_default(), tf.init_scope()]:
            stack.enter_context(place)
        for place in (tf.control_dependencies(None), tf.device(None), tf_ops.name_scope(variable.table.name + "/")):
            stack.enter_context(place)
        made = (Transfer(state, shard_transfer.save, SAVE),
                Transfer(state, shard_transfer.load, LOAD))
    return made
