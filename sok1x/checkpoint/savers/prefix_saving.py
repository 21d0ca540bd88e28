"""A whole checkpoint saved to, and restored from, the prefix that a `tf.train.Saver` is given."""
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint import tensorflow_errors
from sok1x.checkpoint.files import folder_lock, folders, links, prefixes, publishing, retiring
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.savers import one_rank
from sok1x.checkpoint.savers.one_rank import OneRankSource
from sok1x.checkpoint.session.restoring import Restored, Restoring, wanted
from sok1x.checkpoint.session.saving import Saving


class PrefixSaving(Saving):
    """As `Saving`, to a prefix; which checkpoints stay is the Saver's to say.

    Args:
        tables, dense, ranks: as for `Saving`.
    """

    _fewer = "keep fewer checkpoints (max_to_keep)"

    def __init__(self, tables: Any, dense: Any, ranks: Any) -> None:
        super().__init__("", tables, dense, None, ranks)
        self._prefix, self._options = "", {}  # type: str, Dict[str, Any]
        self._record: Callable[[], None] = lambda: None
        self._all_of_it = False

    def save_to(self, session: tf.Session, prefix: str, step: int, options: Dict[str, Any],
                record: Callable[[], None], all_of_it: bool) -> None:
        """Saves; all ranks call it alike.

        Args:
            session: has the variables.
            prefix: where to, an absolute path.
            step: for the manifest.
            options: of TensorFlow's Saver, for what is in no shard.
            record: is called on rank 0 when the checkpoint is there: TensorFlow's state file, and what is not kept.
            all_of_it: whether the graph has nothing else to save; only then a checkpoint around is replaced.

        Raises:
            CheckpointError: on all ranks where one of them fails; checkpoints saved before are as they were.
        """
        # A signal's handler may save while another save is at work, which goes on where it was.
        before = self._directory, self._prefix, self._options, self._record, self._all_of_it
        self._directory, self._prefix, self._options, self._record = os.path.dirname(prefix), prefix, options, record
        self._all_of_it = all_of_it
        try:
            self.save(session, step)
        finally:
            self._directory, self._prefix, self._options, self._record, self._all_of_it = before
            self.close()

    def _open(self) -> None:
        if self._ranks.rank == 0:
            publishing.expect_free(self._prefix)
            self._lock = folder_lock.of_process(self._directory)
            with self._held().renaming:
                retiring.remove_leftovers(self._held())
                prefixes.remove_leftovers(self._prefix)

    def _begin(self, step: int) -> Any:
        self._expect_equal_on_ranks()
        self._open()
        if self._ranks.rank:
            return None
        return self._make_temporary(self._prefix)

    def _publish(self, session: tf.Session, folder: str, token: str, step: int, outcomes: List[Any]) -> Optional[str]:
        if self._ranks.rank:
            return None
        files = self._complete(session, folder, token, step, outcomes, **self._options)
        links.write_state(folder, os.path.basename(folders.tensorflow_prefix(folder, step)))
        with self._held().renaming:
            if prefixes.around(self._prefix) is None:
                publishing.publish_as(folder, self._prefix,
                                      lambda: links.link_files(self._prefix, step, files, self._prefix))
            else:  # TensorFlow's files in the folder around are that one's own
                publishing.publish_as(folder, self._prefix)
                if self._all_of_it:
                    prefixes.replace_around(self._prefix)
        with tensorflow_errors.refusals(os.path.join(self._directory, "checkpoint"), 0):
            self._record()
        return self._prefix


class Place(NamedTuple):
    """What a prefix leads to: a whole checkpoint's folder and token, or a checkpoint of TensorFlow's alone and its mark
    (one_rank.py); `error` where there is none of these."""

    prefix: str
    folder: Optional[str]
    token: Optional[str]
    mark: Any
    error: Optional[str]


def place_of(prefix: str) -> Place:
    """Looks; raises nothing, for the other ranks must hear of it."""
    try:
        folder = prefixes.folder_of(prefix)
        if folder is not None:
            return Place(prefix, folder, Checkpoint(folder).manifest.token, None, None)
        if not tf.train.checkpoint_exists(prefix):
            return Place(prefix, None, None, None, "The passed save_path is not a valid checkpoint: " + prefix)
        return Place(prefix, None, None, one_rank.mark_in(tf.train.NewCheckpointReader(prefix)), None)
    except Exception as error:  # whatever it is, the other ranks must hear of it
        return Place(prefix, None, None, None, str(getattr(error, "message", error)))


class PrefixRestoring(Restoring):
    """As `Restoring`, of checkpoints that are known by their prefix.

    Args:
        tables, dense, ranks: as for `Restoring`.
    """

    def __init__(self, tables: Any, dense: Any, ranks: Any) -> None:
        super().__init__("", tables, dense, ranks)

    def restore_whole(self, session: tf.Session, folder: str) -> None:
        """Restores the checkpoint in a folder; all ranks call it alike. Raises CheckpointError, as `restore`."""
        step = self._ranks.agree(session, lambda: Checkpoint(folder).manifest.step)[0]
        self.restore_folder(session, Restored(step, folder))

    def restore_one_ranks(self, session: tf.Session, prefix: str) -> None:
        """Restores what TensorFlow's Saver has saved on one rank, on several. Raises CheckpointError, as `restore`."""
        sources: List[OneRankSource] = []
        self._restore_one(session, prefix, one_rank.token_of, lambda: self._check_one_ranks(prefix, sources),
                          lambda: self._load(session, prefix, sources))

    def _check_one_ranks(self, prefix: str, sources: List[OneRankSource]) -> Optional[str]:
        world, token = launch.current(), one_rank.token_of(prefix)
        for table in self._tables:
            source = OneRankSource(prefix, table.table, world.rank, world.size, wanted(table.table))
            source.check()
            sources.append(source)
        if self._dense is not None:
            self._dense.check_prefix(prefix, prefix)
        return token
