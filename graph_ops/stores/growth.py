"""More rows for a table that grows: every variable of V rows gets a larger buffer, one after the other.

One after the other, so that old and new memory of one variable alone is there at a time: with V doubled and n variables
of equal size the peak is (n + 1/2) / n of what the table has afterwards; of rows without slots, 3/2. (A smaller factor
than 2 would make that more, not less.) On a host what is left is looked at first (host_left.py). If memory ends
half-way, what has grown is cut back to its rows in place, which needs no memory, and a smaller growth is tried. Rows
never move, so row numbers that a step has in hand stay right.

The optimizer's slots are found by name (known_slots.py); one that has not been initialized yet begins with as many rows
as the table has by then.
"""
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import arrays, dense, fill, gather, hash_index, host_memory, index_rows, row_numbers, stamps
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, Array
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import beside, host_left, known_slots
from sok1x.graph_ops.stores.table import Table

_FACTORS = (2, 1.5, 1.25, 1.125)  # tried in turn where memory is scarce


def capacity_after(rows: int, needed: int, most: Optional[int], factor: float = 2) -> int:
    """V after a growth from `rows` to at least `needed`.

    With a limit it is one of most, most / 2, most / 4, …, so that the last growth, too, doubles V.
    """
    least = max(needed, int(rows * factor))
    if most is None:
        return least if factor < 2 else max(rows, 1) << (-(-needed // max(rows, 1)) - 1).bit_length()
    if least >= most:
        return most
    if factor < 2:
        return least
    after = most
    while -(-after // 2) >= least:
        after = -(-after // 2)
    return after


def grow(store: Any, needed: int) -> bool:
    """Gives a store's table room for `needed` rows, at most `Table.most_rows`. The store is locked for writing.

    On a GPU all of it is enqueued, and nothing waited for.

    Returns:
      Whether the variables were unlocked for a moment: what is known of their content must be looked at again then.

    Raises:
      CallError: RESOURCE_EXHAUSTED where there is no memory; the table has what it had.
    """
    request, table = store.request, store.table
    slots, parallel = known_slots.of(request, table), beside.parallel(table)
    names = beside.places(table)
    names.update((slot, (slot.container, slot.name)) for slot in slots)
    reached = growing.Reached(request, table.name, names)
    try:
        _expect_own(store, reached)
        values = {what: value for what, value in [*parallel.items(), *[(slot, slot.value) for slot in slots]]
                  if what in reached.arrays}
        before = reached.arrays[""].shape[0]
        start = _start(reached, table) if table.by_row else None
        limit = None if table.growth.most is None else table.most_rows
        tried = sorted({min(capacity_after(before, needed, limit, factor), table.most_rows) for factor in _FACTORS},
                       reverse=True)
        for after in tried:
            if request.gpu is None and not host_left.allows(
                    _more_bytes(reached, values, before, after), host_left.kept_for_saving(table, after), store.world,
                    after == tried[-1]):
                continue
            try:
                _grow_to(request, reached, values, start, before, after)
                return bool(reached.unlocked)
            except CallError as error:
                if error.code != RESOURCE_EXHAUSTED:
                    raise
        raise CallError(RESOURCE_EXHAUSTED, _no_memory(store, reached, values, before, needed, tried))
    finally:
        store.hold(reached.end())


def _expect_own(store: Any, reached: Any) -> None:
    """Raises where what was found by the table's names is not what the op has of the table."""
    table, held = store.table, ["", *store.held_names]
    foreign = [what for what in beside.places(table) if what in held and not reached.is_own(what)]
    if "" in foreign:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{}' cannot get more rows in this session: another table has its name here, as where "
            "a SavedModel is loaded in the process that has saved it. Use the model itself: a SavedModel that is "
            "loaded has the rows that it was saved with, wherever").format(table.name))
    if foreign:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{0}' cannot get more rows: what its graph calls '{1}' is not the table's, but was there "
            "before it; nothing was changed. Give '{0}', or the other, another name, where the graph is built").format(
                table.name, beside.name_of(table, foreign[0])))


def _more_bytes(reached: Any, values: Dict[Any, float], before: int, after: int) -> int:
    """That so many rows take besides; the index is made anew, beside the one that there is."""
    more = (after - before) * sum(reached.arrays[what].row_bytes for what in values)
    if beside.INDEX in reached.arrays and hash_index.capacity(after) > reached.arrays[beside.INDEX].shape[0]:
        more += hash_index.capacity(after) * reached.arrays[beside.INDEX].row_bytes
    return int(more)


def expect_start(store: Any) -> None:
    """Raises where a table has the variable `beside.START`, and `begin_again` would fail for want of it."""
    reached = growing.Reached(store.request, store.table.name, {
        beside.START: beside.place_of(store.table, beside.START)})
    try:
        _expect_rows(_start(reached, store.table))
    finally:
        store.hold(reached.end())


def begin_again(store: Any, first: int) -> None:
    """Gives a table's rows from `first` on what they begin with: of a table with the variable `beside.START`."""
    reached = growing.Reached(store.request, store.table.name, {
        what: beside.place_of(store.table, what) for what in ("", beside.START)})
    try:
        write_repeated(store.request, _start(reached, store.table), first, reached.arrays[""])
    finally:
        store.hold(reached.end())


def _grow_to(request: Any, reached: Any, values: Dict[Any, float], start: Optional[Array], before: int,
             after: int) -> None:
    """Grows everything from `before` rows to `after`, or nothing."""
    _grow_index(reached, after)
    rows = {what: reached.arrays[what].shape[0] for what in values}
    try:
        for what, value in values.items():
            _resize(reached, what, min(before, reached.arrays[what].shape[0]), after, value)
            if not what and start is not None:
                write_repeated(request, start, before, reached.arrays[what])
    except BaseException:
        grown = [what for what in values if reached.arrays[what].shape[0] != rows[what]]
        for what in grown:
            reached.cut(what, before)
        for what in reversed(grown):
            try:
                _resize(reached, what, before, before, 0)
            except CallError:
                break  # it keeps the larger buffer until it grows again
        raise


def _start(reached: Any, table: Table) -> Array:
    """The variable `beside.START` of a table whose rows begin with it."""
    if beside.START not in reached.arrays:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{0}' has nothing that new rows begin with: '{1}' has no value, which the initializer of "
            "'{0}' gives it; run that, or tf.global_variables_initializer(), before the table is restored or used"
        ).format(table.name, beside.name_of(table, beside.START)))
    return reached.arrays[beside.START]


def _resize(reached: Any, what: Any, keep: int, count: int, value: float) -> None:
    """Memory of `count` rows for a variable: the first `keep` are those that it has, the rest gets a value."""
    old, new = reached.arrays[what], reached.larger(what, count)
    item, row_bytes = ITEM_BYTES[old.dtype], old.row_bytes
    if new.pointer != old.pointer:
        host_memory.advise_large_pages(new)
        dense.copy(old.front(keep), new.front(keep))
    reached.take(what, new)
    first, end = keep * row_bytes // item, new.size
    if not np.array(value, old.dtype).view("int{}".format(8 * item)):
        end = min(end, max(first, reached.clean // item))
    write_value(new, first, end, value)


def write_value(array: Array, first: int, end: int, value: float) -> None:
    """Writes a number to the elements first to end - 1 of an `Array` of a dtype of 4 or 8 bytes."""
    item = ITEM_BYTES[array.dtype]
    word = int(np.array(value, array.dtype).view("int{}".format(8 * item)))
    write = {4: fill.fill_int32, 8: fill.fill_int64}[item]
    write(arrays.array(array.pointer + first * item, "int{}".format(8 * item), (end - first,), array.gpu), word)


def write_repeated(request: Any, start: Array, first: int, rows: Array) -> None:
    """Writes the rows from `first` on, of an `Array` [V, D]: row k becomes row k % n of start [n, D]."""
    count = rows.shape[0] - first
    _expect_rows(start)
    places = request.temporary("int32", count)
    places.write((np.arange(first, first + count) % start.shape[0]).astype(np.int32))
    gather.gather(start, places, rows.some(first, count))


def _expect_rows(start: Array) -> None:
    if not start.shape[0]:  # a tensor whose n nobody knew when the graph was built
        raise CallError(INVALID_ARGUMENT, (
            "a table that grows has an initializer of shape [0, {}], expected [n, {}] with a row or more, with which "
            "its rows begin").format(start.shape[1], start.shape[1]))


def _grow_index(reached: Any, rows: int) -> None:
    """An index with slots for so many rows.

    Keys enter it in the order of their rows, as they once did: so it is the one that a larger table would have.
    """
    slots = hash_index.capacity(rows)
    if beside.INDEX in reached.arrays and reached.arrays[beside.INDEX].shape[0] < slots:
        larger_index(reached, beside.INDEX, slots)


def larger_index(reached: Any, what: str, slots: int) -> None:
    """Gives an index, one of the variables that have been reached, so many slots.

    Raises:
      CallError: there is no memory; nothing has changed.
    """
    old, new = reached.arrays[what], reached.larger(what, slots, in_place=False)
    host_memory.advise_large_pages(new)
    hash_index.clear(new)
    index_rows.move(old, new)
    reached.take(what, new)


def rows_in_use(request: Any, ticks: Array, given: int) -> Tuple[Array, int, Array]:
    """Which of the rows that have been given out belong to keys: all, but where a table forgets.

    Args:
      ticks: int64 [V], below 0 for a row that is free: `ForgetfulStore`'s `used`; of another table the stamps do.
      given: how many have been given out.

    Returns:
      int32 [given], whose front is the rows, ascending; how many they are; int32 [given], where each row is among them,
      -1 for one that is free.
    """
    found, rows, places = (request.temporary("int32", given) for _ in range(3))
    stamps.changed_rows(ticks, -1, found)
    return rows, row_numbers.compact(found, rows, places), places


def _no_memory(store: Any, reached: Any, values: Dict[Any, float], before: int, needed: int,
               tried: List[int]) -> str:
    row_bytes = sum(reached.arrays[what].row_bytes for what in values)
    left, kept = growing.bytes_left(store.request), host_left.kept_for_saving(store.table, tried[-1])
    there = "" if left < 0 else "TensorFlow's allocator has {} bytes left; ".format(left)
    if store.request.gpu is None:
        there += "{} bytes more are needed, and {}; ".format(
            _more_bytes(reached, values, before, tried[-1]), host_left.said(kept, store.world))
    return ("{} cannot get more rows: it has {} and needs {}, and there is no memory for {}, of {} bytes each in {} "
            "variables ({}); {}nothing was changed. Leave it more memory, train on more ranks, or save the model now "
            "and go on elsewhere").format(
                store.label, before, needed, " or ".join(map(str, tried)), row_bytes, len(values),
                ", ".join(beside.name_of(store.table, what) if isinstance(what, str) else what.name for what in values),
                there)
