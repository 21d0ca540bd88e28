"""The one door to a table's variables. What kinds of tables differ in lies behind it."""
import contextlib
from typing import Any, Callable, Dict, Iterator, Type

from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.cached_store import CachedStore
from sok1x.graph_ops.stores.direct_store import DirectStore
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore
from sok1x.graph_ops.stores.hashed_store import HashedStore
from sok1x.graph_ops.stores.table import DIRECT, HASHED, Table

KINDS: Dict[str, Type[Store]] = {HASHED: HashedStore, DIRECT: DirectStore}


def _kind(table: Table) -> Type[Store]:
    if table.cache is not None:
        return CachedStore
    if table.forgetting is not None:
        return ForgetfulStore
    return KINDS[table.kind]


@contextlib.contextmanager
def request_store(request: Any, config: Any, world: Any, exclusive: bool) -> Iterator[Store]:
    """The variables of a request's table, locked: shared for reading, `exclusive` for writing in place.

    Args:
      config: the operation's, with `table`, and `held`: which variables it has.

    Raises:
      CallError: FAILED_PRECONDITION where a variable has not been initialized.
    """
    with request.variables(config.table.name, exclusive=exclusive) as arrays:
        store = _kind(config.table)(request, config.table, world, config.held, arrays)
        store.filtered = getattr(config, "filtered", None)
        yield store


def check_keys(request: Any, table: Table, world: Any, keys: Any, count: int, position: Callable[[int], str]) -> None:
    """See `Store.check_keys`."""
    KINDS[table.kind].check_keys(request, table, world, keys, count, position)
