"""What all rows of optimizers' slots begin with, where that is one number that is known."""
from typing import Any, Dict, Optional

from sok1x.checkpoint.files import shard_names
from sok1x.core.eagerly import eager
from sok1x.core.tables import growing_slots, slot_beginnings
from sok1x.dump_load.transfers import TableTransfers


def of(table: TableTransfers) -> Optional[Dict[str, float]]:
    """{part: the number} of the slots that are moved with a table.

    Args:
        table: the table.

    Returns:
        None where it is not known of all of them, or where rows have slots in a cache besides.
    """
    if table.variable.table.cache is not None:
        return None
    found = {shard_names.SLOT + name: _number(table.variable.table.name, slot)
             for name, slot in table.slots.variables.items()}
    return None if None in found.values() else found  # type: ignore[return-value]


def _number(table: str, slot: Any) -> Optional[float]:
    grown = growing_slots.slot_of(slot)
    if grown is not None:
        return float(grown.value)
    if slot.initializer is None:  # an eager one
        return float(eager.begins_with(slot))
    value = slot.initial_value
    try:
        return None if value is None else slot_beginnings.number_of(table, slot.op.name, value)
    except ValueError:  # it is not one number, as of an optimizer of the user's
        return None
