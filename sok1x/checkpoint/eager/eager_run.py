"""What is saved of an eager program: its tables, as they are now, and a tf.train.Checkpoint of the rest."""
import gc
from typing import Any, Dict, Iterable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.eager import graph_rest, object_rest
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.savers import input_positions
from sok1x.checkpoint.session import dense_saver, rows_anew, slots_anew
from sok1x.checkpoint.session.restoring import Restored, Restoring
from sok1x.checkpoint.session.saving import Saving
from sok1x.checkpoint.session.tables import TableState, tables_of
from sok1x.checkpoint.session.talk import talk
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.tables import shard_variable
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable, objects_of

_STEPS, _REST = "sok1x_steps", "rest"


class EagerRun:
    """Saves and restores an eager program's state; made on all ranks when the tables are there.

    Args:
        directory: the checkpoint_dir.
        keep: how many checkpoints stay; None or 0: all.
        rest: a `tf.train.Checkpoint` of all but tables, or None.
    """

    def __init__(self, directory: str, keep: Optional[int], rest: Any) -> None:
        gc.collect()  # so that tables that nothing refers to are left out, on all ranks alike
        self._directory = directory
        self._dense: Any = _Dense(rest, [table.variable for table in tables_of(eager.graph())])
        self._saving = Saving(directory, [], self._dense, keep, talk())

    def save(self, step: int) -> str:
        """See `CheckpointManager.save`."""
        eager.refuse_in_function("sok1x.CheckpointManager.save")
        with talk().about("save {} of step {}".format(self._directory, step)):
            self._saving.take(self._tables())
            return self._saving.save(eager.session(), step)

    def restore(self, step: Optional[int]) -> Optional[Restored]:
        """See `CheckpointManager.restore`."""
        eager.refuse_in_function("sok1x.CheckpointManager.restore")
        with talk().about("restore {}".format(self._directory)):
            return _EagerRestoring(self._directory, self._tables(), self._dense, talk()).restore(eager.session(), step)

    def _tables(self) -> List[TableState]:
        """With the slots that optimizers have made by now, and with the tables that a model in `rest` has."""
        variables = self._dense.tables()
        return [table for table in tables_of(eager.graph()) if any(table.variable is one for one in variables)]


class _EagerRestoring(Restoring):
    """`Restoring` of variables that have values already."""

    def _check(self, folder: str, sources: List[Any]) -> str:
        token = super()._check(folder, sources)
        checkpoint = Checkpoint(folder)
        others = set(checkpoint.manifest.tables) - {source.saved_as for source in sources}
        if others and self._ranks.rank == 0:
            tf.logging.warning(
                "%s has tables that the program has not: '%s'. They are not restored, and one that a layer makes at "
                "its first call begins anew: call it, or build it, then restore.", folder, "', '".join(sorted(others)))
        for transfer, source in zip(self._tables, sources):
            saved = checkpoint.table(source.saved_as).parts
            lost = sorted(part for part in saved if part.startswith(shard_names.SLOT) and part not in source.parts)
            if lost:
                raise MismatchError((
                    "{} has the slots {} of table '{}', and the program does not: an optimizer makes them when it is "
                    "built. Build it before (optimizer.build(variables), or take a step), and it must be of the class "
                    "that has trained").format(folder, ", ".join(part[len(shard_names.SLOT):] for part in lost),
                                               transfer.table.name))
        return token

    def _load(self, session: Any, prefix: str, sources: List[Any]) -> None:
        for transfer, source in zip(self._tables, sources):
            _begin_again(transfer.table, source)
        super()._load(session, prefix, sources)

    def _prepare(self, session: Any, sources: List[Any]) -> None:
        """Nothing: see `_load`."""


def _begin_again(table: TableState, source: Any) -> None:
    """Rows that are in use now and will not be then leave nothing behind."""
    variable = table.variable
    used = rows_anew.used(variable)
    if used is None or int(tf.convert_to_tensor(used)) <= (source.total or 0):
        return
    if rows_anew.are_kept(variable.table) and not source.has_unused:
        rows_anew.begin(None, variable)
    for name, part in table.parts.items():
        if name.startswith(shard_names.SLOT):
            slots_anew.begin(None, variable, [part])
        else:
            ResourceVariable.assign(part, tf.zeros_like(part))


class _Dense:
    """A `tf.train.Checkpoint` as `Saving` and `Restoring` want it: of tables it has the steps that they count."""

    def __init__(self, rest: Any, variables: List[Any]) -> None:
        self._rest = rest
        self._variables: Dict[str, Any] = {}
        with tf.init_scope():
            parts: Dict[str, Any] = {_STEPS: {}}
            if rest is not None:
                parts[_REST] = rest
            self._whole = tf.compat.v2.train.Checkpoint(**parts)
        self._take(variables)

    def tables(self) -> List[Any]:
        """Those that there were, and what `rest` has got since: layers make theirs when they are called."""
        self._take(one for one in objects_of(self._rest) if isinstance(one, EmbeddingVariable))
        return list(self._variables.values())

    def _take(self, variables: Iterable[Any]) -> None:
        steps = getattr(self._whole, _STEPS)
        for variable in variables:
            name = variable.table.name
            if name not in self._variables:
                self._variables[name] = variable
                with tf.init_scope():
                    steps[_key(name)] = tf.Variable(0, dtype=tf.int64, trainable=False)

    bytes = 0  # of what it writes: unknown before

    def expect_equal_on_ranks(self) -> None:
        """Raises CheckpointError where something differs from rank to rank by its nature."""
        input_positions.refuse(input_positions.of_checkpoint(self._rest))

    def check(self, checkpoint: Checkpoint) -> None:
        """Raises CheckpointError where one of TensorFlow's files is not what was saved, or does not fit."""
        for name in checkpoint.manifest.other_files():
            checkpoint.check_other(name)
        prefix = dense_saver.dense_prefix(checkpoint)
        if graph_rest.is_by_name(prefix):
            self._of_graph(prefix).check()
        else:
            object_rest.check(prefix, self._whole)

    def check_prefix(self, prefix: str, where: str) -> None:
        """As `check`; there is no more to know."""

    def save(self, session: Any, prefix: str, write_state: bool = False) -> None:
        """Writes TensorFlow's files; rank 0 calls it."""
        for name, variable in self._variables.items():
            getattr(self._whole, _STEPS)[_key(name)].assign(variable.steps.read_value())
        with shard_variable.left_out():
            self._whole.write(prefix)

    def restore_dense(self, session: Any, prefix: str) -> None:
        """Reads them; all ranks call it. What has been made later gets its value when it is made."""
        if graph_rest.is_by_name(prefix):
            self._of_graph(prefix).restore()
            return
        with shard_variable.left_out():
            status = self._whole.read(prefix).expect_partial()
        for name, variable in self._variables.items():
            variable.steps.assign(getattr(self._whole, _STEPS)[_key(name)].read_value())
        steps = [variable.steps for variable in self._variables.values()]
        object_rest.warn_of_lacking(prefix, status, graph_rest.dense_of(objects_of(self._rest), steps))

    def _of_graph(self, prefix: str) -> Any:
        return graph_rest.GraphRest(prefix, self._rest, self._variables.values())


def _key(name: str) -> str:
    """A table's, in a `tf.train.Checkpoint`; no name has a '|'."""
    return name.replace("/", "|")
