"""All rows of a table with a cache, in host memory that grows.

Rows, and the optimizers' slots that are known when the memory is made, lie side by side there: of each key one record.
A GPU that reads or writes a row there has its address translated, which is what limits how many it moves: so one
translation serves all that an optimizer needs. Slots that come later, and the numbers that are read of all rows at once
(stamps, scores), have columns of their own.
"""
import os
from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import tiers
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import beside, host_left
from sok1x.graph_ops.stores.base_store import label_of
from sok1x.graph_ops.stores.host_column import HostColumn

_GROWS_BY = 4   # a column grows by at least one part in so many
_NO_LIMIT = 2 ** 62
_BESIDE = "/host_rows"  # the tier's name, behind that of the rows. Kept in step with bridge_named.cc
_RECORDS = "/records"   # the column that has them: no variable's name
_WIDE, _ALIGNED = 64, 16  # bytes: in records with fields from there on, fields begin where a GPU reads them at once
_warned: Dict[str, bool] = {}


class HostTier:
    """A table's columns, for the time of a request. It does not know the store that has it: each would keep the other
    until Python collects garbage, after each step.
    """

    def __init__(self, request: Any, table: Any, world: Any) -> None:
        self._request, self._table, self._world = request, table, world
        self._tier = tiers.Tier(request, table.growth.container, table.name + _BESIDE)
        self.columns: Dict[str, HostColumn] = {}

    def take(self, name: str, array: Any, value: float = 0, shares: bool = False) -> HostColumn:
        """The column of a variable, an `Array` [C, ...] of 4 or 8 bytes a number; it may have no memory yet.

        Args:
          value: what new rows begin with. shares: whether it may lie in the records.
        """
        if name not in self.columns:
            column = self.columns[name] = HostColumn(self._request, name, array, value, shares)
            column.place(self._tier.column(name, column.row_bytes))
        return self.columns[name]

    def fields(self) -> int:
        """How many variables have values in the records."""
        return self._tier.fields()

    def reserve(self, rows: int, given: int) -> None:
        """Has memory for so many rows in all columns that have been taken; it may be more.

        Args:
          given: rows that have been given out: those that a column lacks begin with its value.

        Raises:
          CallError: RESOURCE_EXHAUSTED; no row has changed.
        """
        lacking = [column for column in self.columns.values() if column.rows < rows]
        if not lacking:
            return
        self._make_records()
        most = self._table.most_rows
        generous = min(most, max(rows, rows + rows // _GROWS_BY))
        kept = host_left.kept_for_saving(self._table, given)
        for wanted in (generous, rows):
            more = self._more_bytes(lacking, wanted)
            try:
                if not host_left.allows(more, kept, self._world, wanted == rows):
                    raise OSError(host_left.said(kept, self._world))
                for column in lacking:
                    self._grow(column, wanted, given)
                return
            except OSError as error:
                said = error
        raise CallError(RESOURCE_EXHAUSTED, (
            "{} cannot keep more rows in host memory: it has {} and needs {}, of {} bytes each in {} variables ({}), "
            "{} bytes more than the {} that it has there: {}; no row was changed. Leave it more memory, set "
            "max_capacity, train on more ranks, or save the model now and go on elsewhere").format(
                label_of(self._table, self._world), given, rows,
                sum(column.row_bytes for column in self.columns.values()), len(self.columns),
                ", ".join(map(beside.shown, sorted(self.columns))), more, self.bytes(), said.strerror or said))

    def _make_records(self) -> None:
        """Where rows have no memory yet they share it with the slots that have none."""
        shared = [column for column in self.columns.values() if column.shares]
        if len(shared) < 2 or any(column.in_record or column.memory for column in shared):
            return
        rows = self._table.name  # first, then slots by name: the same on all ranks, and whoever is the first
        shared.sort(key=lambda column: (column.name != rows, column.name))
        items = [ITEM_BYTES[column.dtype] for column in shared]
        if max(column.row_bytes for column in shared) >= _WIDE:
            items = [_ALIGNED] * len(shared)
        offsets, end = [], 0
        for column, item in zip(shared, items):
            offsets.append(-(-end // item) * item)
            end = offsets[-1] + column.row_bytes
        stride = -(-end // max(items)) * max(items)
        for column, offset in zip(shared, offsets):
            self._tier.field(column.name, _RECORDS, offset, column.row_bytes, stride)
            column.place(self._tier.column(column.name, column.row_bytes))

    def _more_bytes(self, lacking: List[HostColumn], rows: int) -> int:
        """That columns need for so many rows, beside what they have; the records counted once."""
        more = sum(max(0, rows - column.rows) * column.row_bytes for column in lacking if not column.in_record)
        strides = [column.stride for column in lacking if column.in_record]
        if strides:
            more += max(0, rows * strides[0] - self._tier.column(_RECORDS, 0).bytes)
        return more

    def _grow(self, column: HostColumn, rows: int, given: int) -> None:
        before, limit = column.rows, self._table.cache.pinned
        pin = 0
        if self._request.gpu is not None:
            pin = _NO_LIMIT if limit is None else limit - self._tier.pinned()
        most = min(self._table.most_rows * column.stride, _physical())
        made = self._tier.grow(column.name, rows * column.stride, max(most, rows * column.stride), pin)
        column.place(made)
        if self._request.gpu is not None and not column.reachable:
            self._warn(made.pin_error)
        # A record may have had others' values there. No GPU is at work with it: the table's numbers have been read.
        if before < given and (column.value or column.in_record):
            column.numpy(given)[before:] = column.value

    def _warn(self, error: int) -> None:
        """Once for each table."""
        name, limit = self._table.name, self._table.cache.pinned
        if not _warned.setdefault(name, False):
            _warned[name] = True
            why = "CUDA's error {}".format(error) if error else "max_pinned_memory is {} bytes".format(limit)
            tf.logging.warning("%s: host memory for its rows could not be pinned (%s): its rows move through copies, "
                               "which is slower", label_of(self._table, self._world), why)

    def bytes(self) -> int:
        """Of all columns, also those that have not been taken."""
        return self._tier.bytes()


def forget_slot(request: Any, table: Any, name: str) -> None:
    """A slot, by its variable's name, begins anew."""
    tiers.Tier(request, table.growth.container, table.name + _BESIDE).drop(name)


def _physical() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
