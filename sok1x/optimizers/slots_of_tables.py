"""Slots of tables, made by optimizers that must know how many rows a variable has."""
from typing import Any

from sok1x.core.tables import growing_shape


class SlotsOfTables:
    """Mixed into an optimizer's class, before it."""

    def _create_slots(self, var_list: Any) -> Any:
        """As the optimizer's own; but a table that grows says that it has one row, and its slots grow with it."""
        with growing_shape.shapes_known():
            return super()._create_slots(var_list)  # type: ignore[misc]
