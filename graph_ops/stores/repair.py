"""A table that a fault has met while it gave keys rows: made whole again, without the keys that were new.

Rooms, memory and agreement of ranks come before anything changes; what can fail after that is the machine. Even so no
row may be lost, and the job be able to save: so the index gets the keys that it had, but for those that had left, and
what lists free rows is made anew. On one rank the lookup fails; of several the others have gone on, so that it ends as
if the new keys were refused, and the table's next lookup of new keys fails, on all ranks alike, with the message of the
fault.
"""
from typing import Any, Dict, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import fill, hash_index, index_rows
from sok1x.graph_ops.bridge import contexts
from sok1x.graph_ops.bridge.errors import CallError, status_of
from sok1x.graph_ops.stores import known_slots
from sok1x.graph_ops.stores.forgetting import EVICTED, FREE, KNOWN, unknown_after

_faults: Dict[Tuple[int, str], CallError] = {}  # (session, table's name) -> what its next lookup says


def without(store: Any, given: int, new_rows: Optional[np.ndarray] = None) -> None:
    """Takes keys whose insertion has failed out of a store's index.

    Args:
      given: rows that had been given out before.
      new_rows: int32 [n], those of them that new keys may have got.
    """
    index = store.index.read()
    new = [] if new_rows is None else new_rows
    there = index[(index[:, 1] >= 0) & (index[:, 1] < given) & ~np.isin(index[:, 1], new)]
    there = there[there[:, 1].argsort()]
    request, n = store.request, len(there)
    keys, rows = request.temporary("int64", n), request.temporary("int32", n)
    keys.write(there[:, 0])
    rows.write(there[:, 1].astype(np.int32))
    hash_index.clear(store.index)
    index_rows.place(store.index, keys, rows)
    fill.fill_int64(store.count, given)
    if store.own.get("used") is not None:
        _list_free(store, given, there[:, 1])


def _list_free(store: Any, given: int, in_use: np.ndarray) -> None:
    """Has all rows below `given` but those in use be free."""
    own = store.own
    used, free, counters = own["used"].read(), own["free"].read(), own["counters"].read()
    gone = np.setdiff1d(np.arange(given), in_use)
    used[gone] = -1
    free[:len(gone)] = gone[::-1]
    counters[EVICTED] += max(0, len(gone) - counters[FREE])
    # Which keys have left is not known.
    counters[FREE], counters[KNOWN] = len(gone), unknown_after(int(counters[KNOWN]), int(store.clock.read()))
    for array, values in ((own["used"], used), (own["free"], free), (own["counters"], counters)):
        array.write(values)


def note(store: Any, error: Exception) -> None:
    """Keeps a fault for the table's next lookup; on one rank it is raised at once."""
    code, message = status_of(error)
    failed = CallError(code, "{}: while keys got rows: {}. The new keys of that lookup have none; all other rows are "
                             "as they were, and can be saved".format(store.label, message))
    if store.world.communicator.size == 1:
        raise failed from error
    _faults[store.request.session, store.table.name] = failed
    known_slots.leave_to_python(store.request.session, store.table.name, True)


def end_session(session: int) -> None:
    """Forgets the faults of a session that is over."""
    for key in [key for key in _faults if key[0] == session]:
        del _faults[key]


contexts.on_end.append(end_session)


def raise_noted(store: Any) -> None:
    """Raises what `note` has kept, once."""
    failed = _faults.pop((store.request.session, store.table.name), None)
    if failed is not None:
        known_slots.leave_to_python(store.request.session, store.table.name, False)
        raise failed
