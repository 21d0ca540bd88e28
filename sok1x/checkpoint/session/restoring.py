"""All state of a training run from a checkpoint, by all ranks together, whatever number of ranks saved it."""
from typing import Any, Callable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, former_names, shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted
from sok1x.checkpoint.session import dense_saver, transfer
from sok1x.checkpoint.session.dense_saver import VariablesSaver
from sok1x.checkpoint.session.preparing import Prepared, prepare
from sok1x.checkpoint.session.ranks import Ranks, expect_seen
from sok1x.checkpoint.session.tables import TableState
from sok1x.checkpoint.session.transfer import Transfer
from sok1x.core.eagerly import eager
from sok1x.graph_ops.transfer import shard_transfer

REPLACED = ("Another job has replaced or removed the checkpoint in {} while it was being restored, so that what has "
            "been restored may be of two saves: restore it again.")


class Restored(NamedTuple):
    """What was restored: the checkpoint's global step and folder."""

    step: int
    folder: str


class Restoring:
    """Restores a graph's state; made before the graph is finalized, on all ranks.

    Args:
        directory: the checkpoint_dir.
        tables: the graph's tables.
        dense: restores all else, or None where TensorFlow's own session has done so.
        ranks: how the ranks talk, where not in the graph itself.

    Attributes:
        slots_left: optimizer slots that the last checkpoint which was looked at has, and the graph has not, by name.
    """

    def __init__(self, directory: str, tables: List[TableState], dense: Optional[VariablesSaver],
                 ranks: Optional[Ranks] = None) -> None:
        self._directory = directory
        self._ranks = Ranks("agree_on_restoring") if ranks is None else ranks
        self.slots_left: List[str] = []
        self.take(tables, dense)

    def take(self, tables: List[TableState], dense: Optional[VariablesSaver]) -> None:
        """Has these be the tables from now on, and what restores all else."""
        self._dense = dense
        self._tables = [Transfer(table, shard_transfer.load, "load_shard") for table in tables]
        self._prepared = [] if eager.is_on() else [Prepared(table) for table in tables]

    def restore(self, session: tf.Session, step: Optional[int] = None) -> Optional[Restored]:
        """Restores the last complete checkpoint, or that of a step; all ranks call it alike.

        Args:
            session: gets the values.
            step: the global step whose checkpoint is wanted, equal on all ranks; None is the last.

        Returns:
            What was restored; None, on all ranks, where there is no checkpoint.

        Raises:
            CheckpointError: on all ranks where one of them finds a file damaged, or that the model does not fit, or
                no checkpoint of that step; no variable has changed then. And where another job replaces or removes the
                checkpoint meanwhile; that may be known only when variables have changed.
        """
        with self._ranks.about_if_nothing("restore a checkpoint"):
            found = self.find(session, step)
            return None if found is None else self.restore_folder(session, found)

    def find(self, session: tf.Session, step: Optional[int] = None) -> Optional[Restored]:
        """What `restore` would restore; all ranks call it alike."""
        self._ranks.expect_same_step(session, "restore", step)
        found = self._ranks.agree(session, lambda: self._find(step))[0]
        return None if found is None else Restored(*found)

    def restore_folder(self, session: tf.Session, found: Restored) -> Restored:
        """Restores a checkpoint that is known; otherwise as `restore`."""
        sources: List[TableSource] = []
        self._restore_one(session, found.folder, _token, lambda: self._check(found.folder, sources),
                          lambda: self._load(session, dense_saver.dense_prefix(Checkpoint(found.folder)), sources))
        return found

    def _restore_one(self, session: tf.Session, where: str, token_of: Callable[[str], Optional[str]],
                     check: Callable[[], Optional[str]], load: Callable[[], None]) -> None:
        """Restores all of one save: another job may put its own in the place of this one at any time.

        Args:
            session: talks.
            where: the checkpoint's folder, or prefix.
            token_of: gives that of the save that lies there now; None where there is none any more.
            check: finds out whether this rank can load it, and gives the save's token.
            load: loads it.
        """
        tokens = self._ranks.agree(session, check)
        if len(set(tokens)) > 1:
            raise CheckpointError(REPLACED.format(where))

        def load_one() -> None:
            try:
                load()
            except Exception:  # TensorFlow's too
                if token_of(where) != tokens[0]:
                    raise CheckpointError(REPLACED.format(where)) from None
                raise
            if token_of(where) not in (tokens[0], None):  # one that is gone has been read whole
                raise CheckpointError(REPLACED.format(where))
        self._ranks.agree(session, load_one)

    def _find(self, step: Optional[int]) -> Any:
        """Rank 0 looks, for another job may be saving a newer one at this moment."""
        if self._ranks.rank:
            return None
        if step is None:
            for path in folders.passed_over(self._directory):
                tf.logging.warning("%s has no manifest.json, or is a link, and so is no complete checkpoint: it is "
                                   "passed over", path)
            return dense_saver.last_whole(self._directory)
        return step, folders.find(self._directory, step)

    def _check(self, folder: str, sources: List[TableSource]) -> str:
        """Reads all that this rank will need, and changes nothing. Gives the save's token."""
        expect_seen(folder, "found")
        checkpoint = Checkpoint(folder)
        world = launch.current()
        self.slots_left = []
        for table in self._tables:
            source = former_names.source_of(checkpoint, table.table, world.rank, world.size, wanted(table.table))
            source.check()
            sources.append(source)
            self.slots_left += sorted(part[len(shard_names.SLOT):] for part in checkpoint.table(source.saved_as).parts
                                      if part.startswith(shard_names.SLOT) and part not in source.parts)
        if self._dense is not None:
            self._dense.expect_equal_on_ranks()
            if self._ranks.rank == 0:
                self._dense.check(checkpoint)
        return checkpoint.manifest.token

    def _load(self, session: tf.Session, prefix: str, sources: List[Any]) -> None:
        self._prepare(session, sources)
        transfer.run_all(session, self._tables, sources)
        if self._dense is not None:
            self._dense.restore_dense(session, prefix)

    def _prepare(self, session: tf.Session, sources: List[Any]) -> None:
        """Before each table is loaded."""
        prepare(session, self._prepared, sources)


def _token(folder: str) -> Optional[str]:
    """Of the save that lies in a folder now; None where there is none any more."""
    try:
        return Checkpoint(folder).manifest.token
    except CheckpointError:
        return None


def wanted(table: TableState) -> Wanted:
    """What the model has of a table, for comparison with what was saved."""
    description = table.variable.table
    parts = {name: (variable.dtype.base_dtype.name, tuple(variable.shape.as_list()[1:]))
             for name, variable in table.parts.items()}
    parts[shard_names.ROWS] = (description.dtype, (description.dim,))
    return Wanted(description.dim, description.most_rows, description.hashed, description.key_dtype, parts,
                  description.placement, description.keys, description.grows, description.forgetting)
