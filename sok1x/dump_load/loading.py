"""`sok.load`: tables of all ranks from SOK 2.x's files."""
import contextlib
import os
import zlib
from typing import Any, Callable, Collection, Dict, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import open_file, shard_names
from sok1x.checkpoint.session import rows_anew, slots_anew, tables, transfer
from sok1x.checkpoint.session.ranks import expect_seen
from sok1x.dump_load import call as calls
from sok1x.dump_load import folder as dump_folder
from sok1x.dump_load import layout, slot_numbers
from sok1x.dump_load.call import Call
from sok1x.dump_load.shard_source import ShardSource
from sok1x.dump_load.table_files import TableFiles, Wanted
from sok1x.dump_load.transfers import TableTransfers
from sok1x.graph_ops.stores import clock


def load(path: str, sok_vars: Any, optimizer: Any = None, session: Optional[tf.Session] = None) -> None:
    """Loads tables of all ranks from the files of SOK 2.x, all ranks together.

    The files are those of `sok.dump`, or SOK's own, from any number of ranks; a variable may be distributed where it
    was localized, and the reverse. A `sok.Variable` must have as many rows as were dumped. A layer's hash table has
    exactly the files' keys afterwards, and keys to come begin anew, with their slots; if no optimizer is given, all of
    its slots do, for they would belong to other keys. Otherwise what is not loaded stays as it is. All rows count as
    changed for `sok.incremental_dump`.

    Before anything changes all ranks look at all heads and lengths, and at all keys, which a rank that has many of its
    own reads up to 18 times, with a byte of memory for each of these. Where an initializer object has made the first
    rows of a table that has more keys now, it makes them again, of one such table at a time: these take host memory
    meanwhile. It works at once, also in a finalized graph: call it between two steps, on all ranks alike, after the
    variables' initializers have run.

    Args:
        path: the folder, which all ranks see; a file:// URL is its path.
        sok_vars: a table of sok1x, or a list of them, as for `sok.dump`; other tables in the folder are passed over.
        optimizer: an `OptimizerWrapper` or an optimizer, whose slots are loaded too.
        session: as for `sok.dump`.

    Raises:
        TypeError: what is given is no path, no variable of sok1x, or no optimizer.
        ValueError: as for `sok.dump`.
        RuntimeError: as for `sok.dump`.
        sok1x.checkpoint.CheckpointError: on all ranks where one of them finds no dump, no such table or slot, a damaged
            file, or a table that is not the model's; nothing has changed then. A disk or memory may fail later, while
            tables are replaced: each has been loaded then, or is empty, or has what it had; but where it had more keys,
            the slots of one with a cache, or whose optimizer begins with other than one number, may have begun anew.

    Example:
        >>> import os, tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     session.run(tf.global_variables_initializer())
        ...     sok.dump(os.path.join(folder, "weights"), items)
        ...     _ = session.run(items.assign([[0.0, 0.0], [0.0, 0.0]]))
        ...     sok.load(os.path.join(folder, "weights"), items)
        ...     session.run(items).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    call = calls.checked("sok1x.load", path, sok_vars, optimizer, session)
    with call.talk.about(call.what):
        _Loading(call).run()


class _Loading:
    def __init__(self, call: Call) -> None:
        self._call, self._world = call, launch.current()
        self._folder, self._seen = "", None  # type: str, Any

    def run(self) -> None:
        sources: List[ShardSource] = []
        self._folder = self._call.agree(self._find)[0]
        self._seen = dump_folder.identity(self._folder)
        self._expect_same(self._call.agree(lambda: self._of_one(lambda: self._check(sources))))
        self._call.agree(lambda: self._of_one(lambda: self._load(sources)))

    def _of_one(self, read: Callable[[], Any]) -> Any:
        """What it gives, of one dump: another job may put its own in the place of this one at any time."""
        try:
            found = read()
        except CheckpointError:
            self._expect_unchanged()
            raise
        self._expect_unchanged()
        return found

    def _expect_unchanged(self) -> None:
        if self._seen != dump_folder.identity(self._folder):
            raise CheckpointError("Another dump has taken the place of the one in {} while it was being loaded, so "
                                  "what has been loaded may be of both: load it again.".format(self._folder)) from None

    def _find(self) -> Optional[str]:
        return dump_folder.find(self._call.path) if self._world.rank == 0 else None

    def _check(self, sources: List[ShardSource]) -> int:
        """Looks at all that this rank will need, and changes nothing. Gives what tells one dump from another."""
        expect_seen(self._folder, "found")
        path = os.path.join(self._folder, layout.META_INFO)
        data = open_file.read_bounded(path, "the list of a dump's tables", layout.most_meta_bytes())
        found = layout.decode_meta(data, path)
        others = calls.stems_of_all(self._call.tables[0].variable.graph)
        for table in self._call.tables:
            wanted = _wanted(table, others)
            files = TableFiles(self._folder, found, wanted)
            row_bytes = {part: layout.little(dtype).itemsize * wanted.dim for part, (_, dtype) in wanted.parts.items()}
            sources.append(ShardSource(files, table.variable.table, self._world, row_bytes))
        return zlib.crc32(data)

    def _expect_same(self, seen: List[int]) -> None:
        if len(set(seen)) > 1:
            raise CheckpointError("The ranks see different dumps in {}: sok1x.load needs a folder that all ranks "
                                  "share, under the same path.".format(self._folder))

    def _load(self, sources: List[ShardSource]) -> None:
        session = self._call.session
        hashed = [(table, source) for table, source in zip(self._call.tables, sources) if table.variable.table.hashed]
        used = session.run([table.variable.index[-1] for table, _ in hashed])
        anew = []
        for (table, source), count in zip(hashed, used):
            # Rows that are in use now and will not be then would leave their slots to keys to come, some themselves.
            if count > source.total and rows_anew.are_kept(table.variable.table):
                # Those behind have been no key's. A copy, so that not all that the table has begun with is kept.
                source.fresh_rows = rows_anew.first_rows(session, table.variable)[source.total:count].copy()
            if count > source.total and table.slots.variables:
                numbers = slot_numbers.of(table)
                if numbers is not None:
                    source.fresh = numbers  # they begin anew as the table is replaced, not before
                else:
                    anew.append(slots_anew.Anew(table.variable, table.slots.variables.values(),
                                                _most_rows(table, source, count)))
        slots_anew.begin_all(session, anew)
        try:
            transfer.run_all(session, [table.load for table in self._call.tables], sources)
        except BaseException:
            with contextlib.suppress(tf.errors.OpError):  # what has failed first is told
                self._note_loaded(hashed, used, failed=True)
            raise
        self._note_loaded(hashed, used)

    def _note_loaded(self, hashed: List[Any], used: Any, failed: bool = False) -> None:
        """What follows a load, of tables that have been loaded: where one has failed, which is empty then, some."""
        session = self._call.session
        step = clock.step_outside(session.graph, session)
        loaded = [table.variable.loaded for table in self._call.tables]
        session.run([marked for _, marked in loaded], {at_least: step for at_least, _ in loaded})
        states = _states(self._call.tables)
        now = session.run([table.variable.index[-1] for table, _ in hashed]) if failed else used
        anew = []
        for (table, source), before, count in zip(hashed, used, now):
            if failed and not source.begun:
                continue  # it has what it had, but for slots that had to begin anew before
            most = _most_rows(table, source, before)
            anew.append(slots_anew.Anew(table.variable, _other_slots(table, states), most))
            if failed and count != source.total:
                if rows_anew.are_kept(table.variable.table):
                    rows_anew.begin(session, table.variable)
                anew.append(slots_anew.Anew(table.variable, table.slots.variables.values(), most))
        slots_anew.begin_all(session, anew)


def _most_rows(table: TableTransfers, source: ShardSource, used: int) -> int:
    """About how many rows the table's variables have, where it grows."""
    return max(int(used), source.total, int(table.variable.table.rows))


def _wanted(table: TableTransfers, others: Collection[str]) -> Wanted:
    """others: what files of all tables are called after, each table's own first choice."""
    variable = table.variable
    first, *more = calls.stems(variable)
    parts = {shard_names.ROWS: ("", variable.table.dtype)}
    parts.update((shard_names.SLOT + slot, (slot, made.dtype.base_dtype.name))
                 for slot, made in table.slots.variables.items())
    return Wanted(variable.table.name, [first] + [one for one in more if one not in others], variable.table.dim, parts,
                  (table.slots.optimizer,) + tuple(table.slots.known))


def _states(given: List[TableTransfers]) -> Dict[int, tables.TableState]:
    """What the graph has of each table, by its variable's `id`."""
    return {id(state.variable): state for state in tables.tables_of(given[0].variable.graph)}


def _other_slots(table: TableTransfers, states: Dict[int, tables.TableState]) -> List[Any]:
    """A table's slots that are not loaded."""
    loaded = {made.op.name for made in table.slots.variables.values()}
    state = states.get(id(table.variable))
    return [] if state is None else list(state.slots_besides(loaded))
