"""All state of a training run into one checkpoint, by all ranks together: all of it or none."""
import contextlib
import os
import shutil
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.checkpoint import tensorflow_errors
from sok1x.checkpoint.errors import NoSpaceError
from sok1x.checkpoint.files import folder_lock, folders, giving_way, manifest, publishing, retiring, writing
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.checkpoint.session import restored_sessions, transfer
from sok1x.checkpoint.session.dense_saver import VariablesSaver
from sok1x.checkpoint.session.ranks import Ranks, expect_seen
from sok1x.checkpoint.session.tables import TableState, let_leave
from sok1x.checkpoint.session.transfer import Transfer
from sok1x.core.tables import sessions
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_management
from sok1x.graph_ops.transfer import shard_transfer


class Saving:
    """Saves a graph's state; made before the graph is finalized, on all ranks.

    Args:
        directory: the checkpoint_dir, on a file system that all ranks share.
        tables: the graph's tables.
        dense: the Saver of all else, or None where TensorFlow's own hook saves that, beside ours.
        keep: how many checkpoints stay; None or 0: all.
        ranks: how the ranks talk, where not in the graph itself.
    """

    _fewer = "keep fewer checkpoints (keep_checkpoint_max)"

    def __init__(self, directory: str, tables: List[TableState], dense: Optional[VariablesSaver],
                 keep: Optional[int], ranks: Optional[Ranks] = None) -> None:
        self._directory, self._dense, self._keep = directory, dense, keep
        self._lock: Optional[FolderLock] = None
        # On rank 0 of this thread's save at work: its token, its folder, and the lock; another thread may close this.
        self._begun = ThreadScope()
        self._removals: List[threading.Thread] = []  # of checkpoints that are not kept; training need not wait
        self._warned = False  # of later steps
        # {session: held by the thread that saves it}. Ranks' exchanges meet by session: those of another session may
        # be the first on another rank, and must not wait for this one's.
        self._saves: Any = weakref.WeakKeyDictionary()
        self._ranks = Ranks("agree_on_saving") if ranks is None else ranks
        self.take(tables)

    @property
    def directory(self) -> str:
        """The checkpoint_dir."""
        return self._directory

    def take(self, tables: List[TableState], dense: Optional[VariablesSaver] = None) -> None:
        """Has these be the tables from now on, and what saves all else, if that is given; where the graph has been
        finalized it is too late."""
        self._dense = dense or self._dense
        self._tables = [Transfer(table, shard_transfer.save, "save_shard") for table in tables]

    def save(self, session: tf.Session, step: int) -> str:
        """Saves; all ranks call it between the same two steps.

        Args:
            session: has the variables.
            step: the global step.

        Returns:
            The checkpoint's folder.

        Raises:
            CheckpointError: on all ranks where one of them fails; checkpoints saved before are as they were.
        """
        step = int(restored_sessions.complete(session, step))  # TensorFlow's hook gives what NumPy has read
        saves = self._saves.setdefault(sessions.raw(session), threading.RLock())
        with saves, self._ranks.about_if_nothing("save a checkpoint"), self._removed_on_error():
            self._ranks.expect_same_step(session, "save", step)
            token, folder = self._agree(session, lambda: self._begin(step))[0]
            outcomes = self._agree(session, lambda: self._write(session, folder, token, step))
            return str(self._agree(session, lambda: self._publish(session, folder, token, step, outcomes))[0])

    def _agree(self, session: tf.Session, work: Callable[[], Any]) -> List[Any]:
        """As `Ranks.agree`; where no space is left, the error says how fewer checkpoints are kept."""
        def advised() -> Any:
            try:
                return work()
            except NoSpaceError as error:
                raise NoSpaceError(error.path, error.wanted, error.free, self._fewer) from error

        return self._ranks.agree(session, advised)

    def open(self, session: tf.Session) -> None:
        """Keeps other jobs from saving to the folder; all ranks call it. Without it the first save does.

        Raises:
            LockedError: another job saves there.
            CheckpointError: on the other ranks then.
        """
        self._ranks.agree(session, self._open)

    def close(self) -> None:
        """Lets other jobs save to the folder."""
        try:
            self._end_removal()  # an interruption may end the wait, not keep the folder
        finally:
            self._lock = None

    def _open(self) -> None:
        """Rank 0: takes the folder, unless it has it."""
        if self._ranks.rank == 0 and self._lock is None:
            self._lock = folder_lock.of_process(self._directory)
            with self._held().renaming:
                retiring.remove_leftovers(self._held())

    def _held(self) -> FolderLock:
        """Rank 0: the lock. No frame keeps it: an error's traceback would, when all else has let it go."""
        return self._lock or folder_lock.of_process(self._directory)

    def _expect_equal_on_ranks(self) -> None:
        if self._dense is not None:
            self._dense.expect_equal_on_ranks()

    def _begin(self, step: int) -> Any:
        """Rank 0: the save's token, and the folder that it goes to at first."""
        self._expect_equal_on_ranks()
        self._open()
        if self._ranks.rank:
            return None
        final = folders.step_folder(self._directory, step)
        publishing.expect_free(final, of_step=True)
        return self._make_temporary(final)

    def _make_temporary(self, final: str) -> Any:
        """Rank 0: what `_begin` gives, for a checkpoint that will be the folder `final`."""
        token = folders.new_token()
        self._begun.value = token, folders.hidden(final, token, "tmp"), self._held()
        folders.at_work.add(token)  # after that: who ends the save, however it ends, takes it out
        return token, publishing.make_temporary(final, token)

    def _write(self, session: tf.Session, folder: str, token: str, step: int) -> List[Dict[str, Any]]:
        """This rank's shards."""
        let_leave(session, [table.table.variable for table in self._tables])
        expect_seen(folder, "just made")
        sinks = [writing.TableSink(folder, token, step) for _ in self._tables]
        try:
            transfer.run_all(session, self._tables, sinks)
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        return [sink.outcome for sink in sinks]

    def _publish(self, session: tf.Session, folder: str, token: str, step: int, outcomes: List[Any]) -> Optional[str]:
        """Rank 0: what is not in shards, the manifest, and the checkpoint's name."""
        if self._ranks.rank:
            return None
        self._complete(session, folder, token, step, outcomes)
        with self._held().renaming:
            final = publishing.publish(folder, self._directory, step)
            there = folders.complete(self._directory)
            if self._dense is not None:
                self._write_state(step, there)
            retired = retiring.retire(self._held(), self._keep, step, there)
        self._end_removal()
        removal = threading.Thread(target=giving_way.remove, name="sok1x-removal", args=[retired])
        removal.start()
        self._removals.append(removal)
        if any(one.step > step for one in there[:1]) or folders.is_complete(self._directory):
            self._warn_of_later(step)
        return final

    def _warn_of_later(self, step: int) -> None:
        """Of a run that has gone back to an earlier step: says once what a restore would take."""
        found = [] if self._warned or self._dense is None else folders.within(self._directory)
        if found and found[0].step > step:
            self._warned = True
            tf.logging.warning(
                "Saved step %d to %s, where there is a checkpoint of step %d: a job that restores the last one takes "
                "the latter. Later steps go as soon as more than keep_checkpoint_max are there; remove them before, or "
                "go on in another folder", step, self._directory, found[0].step)

    def _complete(self, session: tf.Session, folder: str, token: str, step: int, outcomes: List[Any],
                  **options: Any) -> Dict[str, writing.File]:
        """Rank 0: what is not in shards, and the manifest. Gives TensorFlow's files; `options` are for its Saver."""
        dense = {}
        if self._dense is not None:
            prefix = folders.tensorflow_prefix(folder, step)
            with tensorflow_errors.refusals(prefix, self._dense.bytes):
                self._dense.save(session, prefix, write_state=False, **options)
            dense = writing.tensorflow_files(folder)
            for name in dense:
                folders.fsync_file(os.path.join(folder, name))
        manifest.write(folder, writing.assemble(token, step, outcomes, dense))
        return dense

    def _end_removal(self) -> None:
        with contextlib.suppress(IndexError):  # there is none; other threads' saves, and a handler's, end some, too
            while True:
                self._removals.pop().join()

    def _write_state(self, step: int, there: List[folders.Found]) -> None:
        """TensorFlow's state file names the checkpoints that stay, of those that there are, before the others go."""
        paths = [os.path.relpath(found.prefix, self._directory)
                 for found in retiring.kept(self._directory, self._keep, step, there)]
        state = os.path.join(self._directory, "checkpoint")
        with tensorflow_errors.refusals(state, sum(map(len, paths))):
            # TensorFlow takes paths beside a relative folder for those from where the job was started.
            checkpoint_management.update_checkpoint_state_internal(
                os.path.abspath(self._directory), paths[-1], paths, save_relative_paths=True)
        folders.fsync_file(state)

    @contextlib.contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        with self._begun.entered(None):  # a signal's handler may save meanwhile
            try:
                yield
            except BaseException:
                if self._begun.value is not None:
                    shutil.rmtree(self._begun.value[1], ignore_errors=True)
                raise
            finally:
                if self._begun.value is not None:
                    folders.at_work.discard(self._begun.value[0])
