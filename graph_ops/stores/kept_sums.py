"""Gradients of rows whose sums have been left to the optimizer's step that reads them (groups/kept_sums.h)."""
from typing import Any

from sok1x.graph_ops.bridge.errors import INTERNAL, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores.table import Table

_NO_MEMORY = -1  # as in group_steps.h


def settle(request: Any, table: Table, world: Any) -> None:
    """Makes the sums of a request's first input, if they are still to be made: before anyone else reads it.

    Raises:
      CallError: RESOURCE_EXHAUSTED or INTERNAL, before anything is written.
    """
    code = request.library.kept_sums_settle(request.handle)
    if code == 0:
        return
    why = "there is no memory" if code == _NO_MEMORY else "CUDA's error {}".format(code)
    raise CallError(RESOURCE_EXHAUSTED if code == _NO_MEMORY else INTERNAL, (
        "embedding table '{}' on {}: the gradients of {} rows could not be added up: {}; use a smaller batch, or leave "
        "it more memory; nothing was changed").format(table.name, world.name, request.inputs[1].size, why))
