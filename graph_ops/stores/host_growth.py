"""Rows in host memory for keys that are new: given out, more of them made, and taken from keys that leave the table."""
from typing import Any, Optional

from sok1x.cuda_kernels import cache_rows, fill, hash_index, index_rows, row_numbers, row_use
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import beside, cache, growth, push_out
from sok1x.graph_ops.stores.host_column import HostColumn, Rows
from sok1x.graph_ops.stores.push_out import LeavingTable

_VACANT = "vacant"  # the column that lists free rows, the lowest last


def make_room(store: Any, state: Any, numbers: Any, new: int, homes: Any) -> Optional[LeavingTable]:
    """Has memory for the rows of `new` keys. What changes is how much there is, not what is in it.

    Args:
      store: a `CachedStore`, with its slots reached. state: its numbers. numbers: what `tiers` has.
      homes: int32, of the batch's keys that are not in the cache, which do not leave; negative ones left out. Or None.

    Returns:
      The rows that must leave the table for them, or None.

    Raises:
      CallError: RESOURCE_EXHAUSTED.
    """
    table, given, free = store.table, int(numbers[cache.GIVEN]), int(numbers[cache.FREE])
    needed = given + max(0, new - free)
    rows, forgets = min(needed, table.most_rows), bool(table.forgetting.strategy)
    if needed > rows and not forgets:
        store._make_room(given - free, new)  # which raises
    store.columns()
    if forgets:
        _vacant(store)
    store.tier.reserve(rows, given)
    slots = hash_index.capacity(rows)
    if store.own["every"].shape[0] < slots:
        _larger_index(store, slots, given)
    if needed == rows:
        return None
    return push_out.of_table(store, state, numbers, needed - rows, new, homes)


def _vacant(store: Any) -> HostColumn:
    column: HostColumn = store.tier.take(beside.apart(store.table, _VACANT), store.own["used"])
    return column


def _larger_index(store: Any, slots: int, given: int) -> None:
    reached = store._reached
    try:
        growth.larger_index(reached, "every", slots)
    except CallError as error:
        if error.code != RESOURCE_EXHAUSTED:
            raise
        left = growing.bytes_left(store.request)
        raise CallError(RESOURCE_EXHAUSTED, (
            "{} cannot get more rows: it has {}, and there is no memory on its device for an index of {} bytes; {}no "
            "row was changed. Leave it more memory, use a smaller cache, train on more ranks, or save the model now "
            "and go on elsewhere").format(
                store.label, given, 16 * slots,
                "" if left < 0 else "TensorFlow's allocator has {} bytes left; ".format(left))) from None
    store.own["every"] = reached.arrays["every"]


def vacant(store: Any, numbers: Any, leaves: Optional[LeavingTable], new: int) -> Any:
    """Free rows for so many new keys, int64, the lowest last: all that there will be if rows leave, then to be filled;
    else the last of the list."""
    free, request = int(numbers[cache.FREE]), store.request
    if leaves is not None:
        return request.temporary("int64", free + leaves.leaving.rows.size)
    last = min(new, free)
    found = request.temporary("int64", last)
    if last:
        found.write(_vacant(store).numpy(free)[free - last:])
    return found


def leave(store: Any, leaves: LeavingTable, numbers: Any, evicted: int, ahead: int, at_least: int, free: Any) -> int:
    """Has rows leave the table. Returns how many; `free` is filled, and `numbers` changed."""
    (rows, scratch, keys, values), marks, gone, crosses = leaves[:4]
    columns, n, every = store.columns(), rows.size, store.own["every"]
    given = int(numbers[cache.GIVEN])
    if values is not None:
        columns["rows"][0].read(values, Rows(None, rows), crosses)
    index_rows.take_out(every, rows, given, scratch, keys)
    cache_rows.mark_homes(rows, -1, marks)
    fill.fill_int64(gone, -1)
    columns["used"][0].write(gone, Rows(None, rows), crosses)
    numbers[cache.FREE] += n
    row_use.list_free(marks, free)
    _vacant(store).numpy(free.size)[...] = free.read()
    store.note_left(keys, evicted, ahead, at_least)
    return n


def give(store: Any, numbers: Any, plan: Any) -> None:
    """Gives rows to the new keys of a plan, whose `places` has `cache_rows.NEW` for them; `numbers` is changed."""
    new, free, given = plan.new_keys.size, plan.vacant.size, int(numbers[cache.GIVEN])
    own, (picked, places, kept) = store.own, plan.picked
    cache_rows.pick(plan.places, plan.rows, True, picked)
    row_numbers.compact(picked, kept, places)
    row_numbers.look_up(kept, None, plan.new_rows)
    row_use.give(plan.keys, plan.places, plan.vacant, given, plan.new_keys, plan.new_homes)
    index_rows.place(own["every"], plan.new_keys, plan.new_homes)
    again = min(new, free)
    numbers[cache.FREE] -= again
    numbers[cache.GIVEN] += new - again
