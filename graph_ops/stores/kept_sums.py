"""Gradients of rows whose sums have been left to the optimizer's step that reads them (groups/kept_sums.h)."""
from typing import Any

from sok1x.graph_ops.bridge.errors import INTERNAL, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores.table import Table

# What steps return besides CUDA's errors, as in group_steps.h, and the status of each.
NO_MEMORY, TOO_MANY = -1, -2
STATUS = {NO_MEMORY: RESOURCE_EXHAUSTED, TOO_MANY: INVALID_ARGUMENT}
_COPIED = -3  # as in kept_sums.h


def settle(request: Any, table: Table, world: Any) -> None:
    """Makes the sums of a request's first input, if they are still to be made: before anyone else reads it.

    Raises:
      CallError: RESOURCE_EXHAUSTED, INVALID_ARGUMENT or INTERNAL, before anything is written.
    """
    code = request.library.kept_sums_settle(request.handle)
    if code == 0:
        return
    if code == _COPIED:
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: the optimizer's step got a copy of its gradient, as TensorFlow's debugger "
            "(tfdbg) makes them, before the gradient was added up; set SOK1X_FUSE=0 in the environment to look at such "
            "tensors; nothing was changed").format(table.name, world.name))
    why = {NO_MEMORY: "there is no memory", TOO_MANY: "they are more than 2**31 - 1 in all"}.get(
        code, "CUDA's error {}".format(code))
    raise CallError(STATUS.get(code, INTERNAL), (
        "embedding table '{}' on {}: the gradients of {} rows could not be added up: {}; use a smaller batch, or leave "
        "it more memory; nothing was changed").format(table.name, world.name, request.inputs[1].size, why))
