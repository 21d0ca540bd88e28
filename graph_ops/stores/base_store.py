"""What every kind of table offers behind `request_store`."""
import abc
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from sok1x.cuda_kernels import gather, row_init, row_numbers, stamps
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores import clock, growth, row_checks
from sok1x.graph_ops.stores.row_gradients import RowGradients
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held


class Found(NamedTuple):
    """Rows of distinct keys.

    Attributes:
      rows: int32 [u], -1 for a key without one.
      read_from: int32 [u], where to read values (differs from rows only for keys that an evaluation has not found).
      missing: how many have no row.
    """

    rows: Array
    read_from: Array
    missing: int


def label_of(table: Table, world: Any) -> str:
    """The table and the rank, as errors name them."""
    return "embedding table '{}' on {}".format(table.name, world.name)


class Store(abc.ABC):
    """A table's variables while a request has them locked, and what is done with them. One class for each kind.

    Attributes:
      request, table, world: of the operation that runs.
      rows: float32 [V, D]. index: int64 [C, 2]. count: int64 []. stamps: int64 [V]. clock: int64 []. `Array`s; None for
        what the table or the op does not have.
      slots: {name: `Array` [V, ...]} of the variables besides. own: {name: `Array`} of the table's, the above too.
      filtered: whether the lookup draws which new keys get rows (forgetting.py); None where the op is no lookup.
    """

    filtered: Optional[bool] = None

    def __init__(self, request: Any, table: Table, world: Any, held: Held, arrays: Sequence[Array]) -> None:
        self.request, self.table, self.world, self._held = request, table, world, held
        self.hold(arrays)

    def hold(self, arrays: Sequence[Array]) -> None:
        """Takes the variables' `Array`s, in the order of the op's resources, as they are from now on."""
        held = self._held
        named = dict(zip(held.names, arrays))
        there: Callable[[str], Any] = named.get  # None for what the op does not have
        self.rows: Array = there("rows")
        self.index: Array = there("index")
        self.count: Array = there("count")
        self.stamps: Array = there("stamps")
        self.clock: Array = there("clock")
        self.slots: Dict[str, Array] = dict(zip(held.slots, arrays[len(held.names):]))
        self.own: Dict[str, Array] = named

    @property
    def capacity(self) -> int:
        """V, the rows that there are now."""
        return int((self.stamps if self.rows is None else self.rows).shape[0])

    @property
    def held_names(self) -> Tuple[str, ...]:
        """What the op has of the table, as in `TableVariables`."""
        return self._held.names

    @property
    def label(self) -> str:
        """The table and the rank, as errors name them."""
        return label_of(self.table, self.world)

    # ---- keys

    @staticmethod
    @abc.abstractmethod
    def check_keys(request: Any, table: Table, world: Any, keys: Array, count: int,
                   position: Callable[[int], str]) -> None:
        """Raises where a key can have no row. It needs no variables, so that a rank knows before it asks others.

        Args:
          keys: `Array` of any key type, of which the first `count` are looked at.
          position: says where in the batch key i stands first, for the message.

        Raises:
          CallError: INVALID_ARGUMENT.
        """

    @abc.abstractmethod
    def find(self, keys: Array, count: int, rows: Array) -> Found:
        """Rows of distinct keys int64 [count] without changing anything; `rows` int32 [count] is filled."""

    @abc.abstractmethod
    def insert(self, keys: Array, count: int, rows: Array) -> Found:
        """As `find`, but a new key gets the next free row, in the order of `keys`, with its initial values.

        All ranks that take part in an exchange call it together: if one shard is full, none changes. A table that grows
        gets more rows where it needs them; `Array`s of the table's variables taken before are then no longer theirs.

        Raises:
          CallError: RESOURCE_EXHAUSTED, agreed on by all ranks, before anything is written.
        """

    def find_or_insert(self, training: bool, keys: Array, count: int, rows: Array) -> Found:
        """`insert` where a lookup trains, else `find`."""
        return (self.insert if training else self.find)(keys, count, rows)

    @abc.abstractmethod
    def look_up(self, keys: Array, at: Array, out: Optional[Array]) -> Optional[int]:
        """Looks up every position of a batch in one pass, repeated keys too, without changing anything.

        Args:
          keys: [K], of any key type. at: int32 [K], each one's row, -1 where it has none.
          out: float32 or float16 [K, D], filled where keys have rows; or None.

        Returns:
          How many of the positions have no row; None where this kind of table cannot, and nothing is filled.
        """

    def start_look_up(self, keys: Array, at: Array, counts: Any) -> bool:
        """As `look_up`, without values and without waiting: the number is the next of `counts`, of `backend.counts`.

        Returns:
          False where it would have to wait, and nothing is done.
        """
        return False

    def evaluate(self, keys: Array, at: Array, out: Array) -> bool:
        """As `look_up`, without waiting; keys without a row read their initial values.

        Returns:
          False where it would have to wait, and nothing is done.
        """
        return False

    def touched(self, rows: Array) -> None:
        """Hears of a training lookup whose keys all have rows; `insert` and `find_or_insert` see to that themselves.

        Args:
          rows: int32 [n], repeated ones too.
        """

    def about_to_change(self, rows: Optional[Array]) -> None:
        """Hears of rows int32 [n] that change in this run, from now on, and with them what optimizers keep for them.

        Args:
          rows: also repeated ones, and some that are none of the table's; None: all.

        Raises:
          CallError: RESOURCE_EXHAUSTED; nothing has changed.
        """

    def keep_from_gradient(self, rows: Array) -> None:
        """Hears of rows int32 [n] that an evaluation leaves for its gradient, and may have it drop them: -1."""

    def whole(self, replaces: bool = False) -> "Store":
        """All rows of the table in one place, up to date: another store where some are elsewhere.

        Args:
          replaces: they are about to be replaced, so that nobody asks what they have been.
        """
        return self

    def make_room(self, rows: int) -> None:
        """Has a table that grows get so many rows, at most `Table.most_rows`.

        Raises:
          CallError: RESOURCE_EXHAUSTED where there is no memory; nothing was changed.
        """
        growth.grow(self, rows)

    @abc.abstractmethod
    def used(self) -> int:
        """How many rows, from the first, belong to keys."""

    def in_use(self) -> int:
        """How many rows belong to keys."""
        return self.used()

    def rows_in_use(self) -> Optional[Tuple[Any, int, Any]]:
        """Which these are: as `growth.rows_in_use`; None: the first ones."""
        return None

    def begin_again(self) -> None:
        """All rows are about to be replaced, as if the table were new."""

    def loaded(self, count: int) -> None:
        """The first `count` rows have been filled, and have keys."""

    @abc.abstractmethod
    def write_keys(self, first: int, count: int, keys: Array) -> None:
        """The keys of rows first to first + count - 1, int64, to `keys`."""

    @abc.abstractmethod
    def write_some_keys(self, rows: Array, count: int, number: Array, keys: Array) -> None:
        """The keys of some rows, of the dtype of `keys`.

        Args:
          rows: int32 [count], ascending. number: int32 [used], the place among them that each row in use has, or -1.
        """

    # ---- values

    def gather(self, found: Found, places: Array, out: Array) -> None:
        """out [K, D], float32 or float16: the values of `found`, each position's as places int32 [K] say."""
        gather.gather_through(self.rows, found.read_from, places, out)

    def read_rows(self, rows: Array, count: int, out: Array) -> None:
        """out [count, D], of the rows' dtype: those of the first `count` of rows int32."""
        # Rows are copied by four bytes, whatever these mean.
        gather.gather(self.rows.words(), rows.front(count), out.words())

    def fill_unseen(self, keys: Array, found: Found, places: Array, out: Array) -> None:
        """Overwrites out [K, D], float32 or float16, with initial values where the key asked for has no row.

        Args:
          keys: int64 [u], distinct. found: their rows. places: int32 [K], which of them each position asks for.
        """
        if not found.missing or self.table.by_row:
            return
        asked = self.request.temporary("int64", places.size)
        rows = self.request.temporary("int32", places.size)
        row_numbers.look_up_int64(keys, places, asked)
        row_numbers.look_up(found.rows, places, rows)
        self.write_initial_rows(asked, rows, out)

    def distinct_values(self, keys: Array, found: Found) -> Any:
        """float32 [u, D]: the values of distinct keys int64 [u], also of those that have no row."""
        count = found.rows.size
        values = self.request.temporary("float32", count, self.table.dim)
        gather.gather(self.rows, found.rows, values)
        self.write_initial_rows(keys.front(count), found.rows, values)
        return values

    def write_initial_rows(self, keys: Array, only_where_negative: Optional[Array], out: Array) -> None:
        """The initial rows of keys int64 [n], out float32 or float16 [n, D]; with int32 [n], where that is negative:
        then the keys have none, and read what keys without a row read."""
        kind, a, b = self.table.distribution(self.world.size)
        forgetting = self.table.forgetting
        if only_where_negative is not None and forgetting is not None and forgetting.absent is not None:
            kind, a, b = "constant", forgetting.absent, 0.0
        row_init.initial_rows(self.world.seed_of_rows(), self.table.identity, keys, kind, a, b, only_where_negative,
                              out, self.table.initializer.pool)

    # ---- changes

    def stamp_every(self, ahead: int, at_least: int) -> None:
        """Stamps all rows, wherever they are, as `stamps.stamp_range` does some."""
        stamps.stamp_range(ahead, at_least, self.clock, self.stamps.front(self.capacity))

    def apply(self, global_step: bool, given: RowGradients, update: Callable[..., None],
              every_row: bool = False) -> None:
        """An optimizer's step: rows and slots change, and are stamped where their lookup has not done so.

        Args:
          global_step: as for `clock.stamp`. given: the gradients.
          update: gets `RowGradients`, and the `Array`s of the rows and the slots, float32 [V, D] each, and changes
            them.
          every_row: whether rows without a gradient change too.

        Raises:
          CallError: INVALID_ARGUMENT where a variable has another shape, before anything is written.
        """
        arrays = [self.rows] + list(self.slots.values())
        row_checks.check_variables(self.table, self.world, arrays, self.capacity)
        update(given, *arrays)
        if every_row:
            clock.stamp(self, global_step, None)
        elif not given.from_lookup:
            clock.stamp(self, global_step, given.rows)
