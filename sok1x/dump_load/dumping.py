"""`sok.dump`: tables of all ranks to SOK 2.x's files."""
import os
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, shard_names
from sok1x.checkpoint.files.shard_names import KEYS, ROWS
from sok1x.checkpoint.session import restored_sessions, transfer
from sok1x.checkpoint.session.ranks import expect_seen
from sok1x.checkpoint.session.tables import let_leave
from sok1x.dump_load import call as calls
from sok1x.dump_load import folder as dump_folder
from sok1x.dump_load import layout
from sok1x.dump_load.call import Call
from sok1x.dump_load.shard_sink import PartFile, ShardSink, create
from sok1x.dump_load.transfers import TableTransfers
from sok1x.graph_ops.stores import cache
from sok1x.graph_ops.stores.forgetting import FREE


def dump(path: str, sok_vars: Any, optimizer: Any = None, session: Optional[tf.Session] = None) -> None:
    """Writes tables of all ranks to a folder, in the files of SOK 2.x, all ranks together.

    The folder appears when all files are complete and on the disk; a dump that was there before is replaced then, and
    stays as it is if this one fails. Files in the folder that no dump has written are kept. It works at once, also in
    a finalized graph: call it between two steps, on all ranks alike.

    For each table T (the variable's name, with `_` for every punctuation character) there are the files `T-key` and
    `T-weight`, with an optimizer `T-<Optimizer>-<slot>` for each of its slots, and for all tables `meta_info`. Rows are
    in one order in all files of a table: those of rank 0, then those of rank 1, and so on. The keys of a variable are
    its row numbers, those of a layer's table are the keys that it has met. Slots have the names that tf.keras gives
    them (see sok1x/dump_load/slot_names.py).

    What counts an optimizer's steps (`iter`, `beta1_power`) has no place in SOK's files: save it with the dense
    variables, by a tf.train.Saver of `OptimizerWrapper.variables()` that are scalars.

    No rank needs more memory than some tens of megabytes.

    Args:
        path: the folder, on a file system that all ranks share; a file:// URL is its path.
        sok_vars: a table of sok1x, or a list of them: `sok.Variable`s, layers, and their `embedding_variable`s.
        optimizer: an `OptimizerWrapper` or an optimizer, whose slots are written too.
        session: a `tf.Session`, a MonitoredTrainingSession, or a hook's `run_context.session`; by default the default
            session, else the one that `sok.InitHook` has seen last.

    Raises:
        TypeError: what is given is no path, no variable of sok1x, or no optimizer.
        ValueError: a URL of another file system; no variables, one twice, variables of two graphs, or two whose files
            would have one name; or a slot that has other than D values for each row.
        RuntimeError: no session was found; or the graph is finalized and has no ops for the slots of an optimizer that
            is not wrapped.
        sok1x.checkpoint.CheckpointError: on all ranks where one of them cannot write.

    Example:
        >>> import os, tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
        ...     step = optimizer.apply_gradients([(tf.ones_like(items), items)])
        ...     session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     sok.dump(os.path.join(folder, "weights"), [items], optimizer)
        ...     sorted(os.listdir(os.path.join(folder, "weights")))
        ['items_0-Adagrad-accumulator', 'items_0-key', 'items_0-weight', 'meta_info']
    """
    call = calls.checked("sok1x.dump", path, sok_vars, optimizer, session)
    with call.talk.about(call.what):
        _Dumping(call).run()


class _Dumping:
    def __init__(self, call: Call) -> None:
        self._call, self._world = call, launch.current()
        self._folder: Optional[dump_folder.Writing] = None  # on rank 0
        self._path = ""

    def run(self) -> None:
        try:
            told = self._call.agree(self._begin)
            self._path = told[0][0]
            counts = [found for _, found, _ in told]
            self._call.agree(lambda: self._create([described for _, _, described in told], counts))
            self._call.agree(lambda: self._write(counts))
            self._call.agree(lambda: self._publish(counts))
        except BaseException:
            if self._folder is not None:
                self._folder.remove()
            raise

    def _begin(self) -> Any:
        """The folder to write to, from rank 0; rows of each table, and what each is, from every rank."""
        restored_sessions.complete(self._call.session, None)
        let_leave(self._call.session, [table.variable for table in self._call.tables])
        counts = _rows_in_use(self._call.tables, self._call.session)
        dump_folder.expect_elsewhere(self._call.path)
        described = [list(self._info(table, 0)) + sorted(table.slots.variables) for table in self._call.tables]
        path = None
        if self._world.rank == 0:
            self._folder = dump_folder.Writing(dump_folder.real(self._call.path))
            path = self._folder.path
        return path, counts, described

    def _create(self, described: List[Any], counts: List[List[int]]) -> None:
        for rank, one in enumerate(described):
            if one != described[0]:
                raise CheckpointError("{} dumps {}, and rank 0 dumps {}: all ranks must build the same "
                                      "model.".format(launch.starting(rank), one, described[0]))
        if self._folder is not None:
            for table, of_ranks in zip(self._call.tables, zip(*counts)):
                create(self._files(table), sum(of_ranks))

    def _write(self, counts: List[List[int]]) -> None:
        expect_seen(self._path, "just made")
        rank = self._world.rank
        sinks = [ShardSink(self._files(table), table.variable.table.name, sum(of_ranks[:rank]), of_ranks[rank],
                           sum(of_ranks)) for table, of_ranks in zip(self._call.tables, zip(*counts))]
        try:
            transfer.run_all(self._call.session, [table.save for table in self._call.tables], sinks)
        finally:
            for sink in sinks:
                sink.abort()

    def _publish(self, counts: List[List[int]]) -> None:
        if self._folder is None:
            return
        path = os.path.join(self._path, layout.META_INFO)
        data = layout.encode_meta([self._info(table, sum(of_ranks))
                                   for table, of_ranks in zip(self._call.tables, zip(*counts))])
        try:
            with open(path, "xb") as file:
                file.write(data)
        except OSError as error:
            raise errors.of_write(error, path, len(data)) from None
        folders.fsync_file(path)
        self._folder.publish()
        self._folder = None

    def _info(self, table: TableTransfers, rows: int) -> layout.TableInfo:
        description = table.variable.table
        return layout.TableInfo(calls.stems(table.variable)[0], key_dtype(table), description.dtype, description.dim,
                                rows, table.slots.optimizer)

    def _files(self, table: TableTransfers) -> List[PartFile]:
        """Of a table."""
        stem, description = calls.stems(table.variable)[0], table.variable.table
        keys = layout.Head(stem, layout.KEY, "", key_dtype(table))
        rows = layout.Head(stem, layout.WEIGHT, "", description.dtype)
        files = [PartFile(KEYS, self._in_folder(keys), keys, layout.little(keys.dtype).itemsize),
                 PartFile(ROWS, self._in_folder(rows), rows, layout.little(rows.dtype).itemsize * description.dim)]
        for slot, variable in table.slots.variables.items():
            head = layout.Head(stem, layout.SLOT, slot, variable.dtype.base_dtype.name)
            files.append(PartFile(shard_names.SLOT + slot, self._in_folder(head, table.slots.optimizer), head,
                                  layout.little(head.dtype).itemsize * description.dim))
        return files

    def _in_folder(self, head: layout.Head, optimizer: str = "") -> str:
        return os.path.join(self._path, layout.file_name(head.table, head.kind, optimizer, head.slot))


def key_dtype(table: TableTransfers) -> str:
    """Of a table's keys in files: those of a localized variable's rows are uint64, keys of an index what they are."""
    description = table.variable.table
    return description.key_dtype if description.hashed or description.placement.rank is None else "uint64"


def _rows_in_use(given: List[TableTransfers], session: tf.Session) -> List[int]:
    """Of each table, rows of this rank that are in use; those of all tables are read together."""
    hashed = [table.variable for table in given if table.variable.table.hashed]
    read = iter(session.run([variable.forgetting["tiers"] if variable.table.cache is not None else variable.index[-1]
                             for variable in hashed]))
    left = iter(session.run([variable.forgetting["counters"] for variable in hashed
                             if variable.table.cache is None and variable.forgetting]))
    counts = []
    for variable in (table.variable for table in given):
        if not variable.table.hashed:
            counts.append(int(variable.table.rows))
        elif variable.table.cache is not None:
            numbers = next(read)
            counts.append(int(numbers[cache.GIVEN] - numbers[cache.FREE]))
        else:
            counts.append(int(next(read)) - (int(next(left)[FREE]) if variable.forgetting else 0))
    return counts
