"""Keys of 64 bits given to a table whose keys have 32: none becomes another key."""
from typing import Any, Callable

import numpy as np

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores.table import Table


def are_wider(table: Table, keys: Any) -> bool:
    """Whether keys (an `Array`) may be beyond those of the table. Where C++ asks: groups/lookup_run.cc."""
    return bool(keys.dtype == "int64" and table.key_dtype != "int64")


def check(request: Any, table: Table, world: Any, keys: Any, position: Callable[[int], str]) -> None:
    """Raises where one of a batch's keys is none of the table's type. It needs no variables, as `Store.check_keys`.

    Args:
      keys: `Array` of any key type and shape, as they were given.
      position: says where in the batch a key stands, for the message.

    Raises:
      CallError: INVALID_ARGUMENT. A GPU is waited for where keys may be too wide.
    """
    if not are_wider(table, keys):
        return
    limits = np.iinfo(table.key_dtype)
    place = row_numbers.first_out_of_range(keys, int(limits.max) + 1, int(limits.min))
    if place >= 0:
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got key {} at {}, expected keys of its key_type {}, in [{}, {}]; nothing was "
            "changed. Make the table with key_type int64, or hash ids to 32 bits").format(
                table.name, world.name, int(keys.read().reshape(-1)[place]), position(place), table.key_dtype,
                limits.min, limits.max))
