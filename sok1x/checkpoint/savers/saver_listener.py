"""Tables beside TensorFlow's own checkpoints."""
import weakref
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.files import urls
from sok1x.checkpoint.savers import agreed_timer, hooks_alike
from sok1x.checkpoint.savers.table_saver import TableSaver
from sok1x.checkpoint.session import dense_saver, restored_sessions
from sok1x.checkpoint.session.manager import check_folder, check_keep
from sok1x.checkpoint.session.restoring import Restored, Restoring
from sok1x.checkpoint.session.saving import Saving
from sok1x.checkpoint.session.stop_hook import add_to_session, check_alike
from sok1x.checkpoint.session.tables import tables_of
from sok1x.checkpoint.session.talk import talk
from sok1x.checkpoint.session.told_to_end import Signals, signals_of, told_to_end


class CheckpointSaverListener(tf.train.CheckpointSaverListener):
    """Has TensorFlow's own `tf.train.CheckpointSaverHook` save and restore tables too.

    Every rank makes the hook with one of these, and the session with the same checkpoint_dir:

        saver = tf.train.CheckpointSaverHook(checkpoint_dir, save_steps=1000,
                                             listeners=[sok.CheckpointSaverListener()])
        tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, save_checkpoint_secs=None,
                                          hooks=[sok.InitHook(global_batch_size=8192), saver])

    Before TensorFlow writes `checkpoint_dir/model.ckpt-<step>.*`, with all variables but the shards and by rank 0
    alone, every rank's shards go to the folder `checkpoint_dir/model.ckpt-<step>`: what TensorFlow's state file names
    has its tables. A session that was restored to step n gets the tables of step n, from any number of ranks, when
    the hook would first save, or somebody else saves before; that it has none of that step is an error.

    `sok.CheckpointSaverHook` does all of it by itself, as one checkpoint, and is to be preferred; TensorFlow's hook
    with its own Saver saves tables too, without this listener. Where it has that Saver, as under an Estimator, the
    listener has nothing to do.

    Args:
        checkpoint_dir: the folder, on a file system that all ranks share; None is the hook's.
        keep_checkpoint_max: how many steps' tables stay; as many as TensorFlow's Saver keeps checkpoints, or more.
            None or 0: all.
        save_on_sigterm: as of `sok.CheckpointSaverHook`.

    Raises:
        TypeError: checkpoint_dir is no path.
        ValueError: checkpoint_dir is a file, or a URL, as hdfs://..., of a file system that need not be mounted;
            keep_checkpoint_max is negative; save_on_sigterm is no signal; or (at a session's begin) there is no hook to
            tell the folder.
        sok1x.checkpoint.errors.CheckpointError: (on all ranks, when saving or restoring) it cannot be done.

    Example:
        >>> import os, tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        ...     table = sok.EmbeddingVariable(rows=8, dim=4)
        ...     listener = sok.CheckpointSaverListener(folder)
        ...     listener.begin()
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     listener.before_save(session, 0)
        ...     [name for name in os.listdir(folder) if not name.startswith(".")]
        ['model.ckpt-0']
    """

    def __init__(self, checkpoint_dir: Optional[str] = None, keep_checkpoint_max: Optional[int] = 5,
                 save_on_sigterm: Signals = False) -> None:
        keep_checkpoint_max = check_keep("CheckpointSaverListener", keep_checkpoint_max)
        self._signals = signals_of("CheckpointSaverListener", save_on_sigterm)
        told_to_end.listen("CheckpointSaverListener", self._signals)
        self._directory = None if checkpoint_dir is None else check_folder("CheckpointSaverListener", checkpoint_dir)
        self._keep = keep_checkpoint_max
        self._told: Any = None  # the last session for which the ranks have compared signals
        self._graph: Optional[tf.Graph] = None  # the one that has the ops
        self._hook: Any = None  # whose listener it is, if any
        self._begun: Any = weakref.WeakSet()  # sessions that were restored or begun anew

    def begin(self) -> None:
        """Makes the ops, while the graph may still change; called by the hook.

        Raises:
            ValueError: the folder was not given, and no hook calls that could tell it.
            sok1x.checkpoint.errors.CheckpointError: the graph has tables of tf.train.import_meta_graph.
        """
        if self._signals:
            add_to_session("CheckpointSaverListener", self._signals, begin=False)
        self._hook, self._graph = _hook_of(self), tf.get_default_graph()
        directory = _directory_of(self._hook) if self._directory is None else self._directory
        tables = tables_of(self._graph)
        dense_saver.for_graph(tables, None)
        self._saving = Saving(directory, tables, None, self._keep)
        self._restoring = Restoring(directory, tables, None)

    def before_save(self, session: tf.Session, global_step_value: int) -> None:
        """Saves the tables; in a session that begins at a later step than 0, restores them. Called by the hook.

        Args:
            session: has the variables.
            global_step_value: the step that TensorFlow will save.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one finds that it cannot be done.
        """
        step = int(global_step_value)
        hook = _hook_of(self)
        if hook is not None and launch.current().size > 1:
            agreed_timer.share_clocks(hook, talk())
            if self._told is not session:
                self._told = session
                with talk().about("a CheckpointSaverListener's first save"):
                    check_alike("CheckpointSaverListener", talk().exchange(None, self._signals))
        if hook is not None and _saves_tables(hook._get_saver()):
            return  # the hook's own Saver does it, as under an Estimator, which made it before us
        urls.expect_local(self._saving.directory)
        if session not in self._begun:
            if step:
                self._restoring.restore(session, step)
                restored_sessions.note(session, step)
            self._begin(session, hook)
            if hook is not None:
                restored_sessions.end_half(hooks_alike.hooks_beside(hook), session)
            if step:
                return
        self._saving.save(session, step)

    def _begin(self, session: tf.Session, hook: Any) -> None:
        """A session's tables have been restored, or begun anew."""
        self._begun.add(session)
        if hook is not None:
            hooks_alike.warn_of_dense_alone(hook)

    # As a hook of ours restores. Who saves before the hook of this listener does has it restore then.

    def _is_to_restore(self, session: tf.Session) -> bool:
        """Whether it would restore when the hook first saves, and has not."""
        return (self._hook is not None and session.graph is self._graph and session not in self._begun
                and not _saves_tables(self._hook._get_saver()))

    def _look_in(self, session: tf.Session) -> Optional[Restored]:
        """What it has to restore, the tables of the step that TensorFlow has restored."""
        step = int(session.run(self._hook._global_step_tensor))
        return self._restoring.find(session, step) if step else None

    def _restore_in(self, session: tf.Session, found: Restored) -> None:
        """Restores that."""
        self._restoring.restore_folder(session, found)

    def _begin_in(self, session: tf.Session, found: Optional[Restored], step: Optional[int]) -> None:
        """The session has been restored; the hook's first save saves what has changed until then, with the rest."""
        self._begin(session, self._hook)

    def end(self, session: tf.Session, global_step_value: int) -> None:
        """Lets other jobs save to the folder; called by the hook at its end.

        Args:
            session, global_step_value: unused.
        """
        self._saving.close()


def _hook_of(listener: CheckpointSaverListener) -> Any:
    return agreed_timer.calling_hook(lambda hook: listener in hook._listeners)


def _directory_of(hook: Any) -> str:
    if hook is None:
        raise ValueError("CheckpointSaverListener: got no checkpoint_dir, and it is not the listener of a "
                         "tf.train.CheckpointSaverHook, which would tell it: give checkpoint_dir")
    return urls.local(str(hook._checkpoint_dir))


def _saves_tables(saver: Any) -> bool:
    """Whether a hook's Saver saves all tables of the graph itself."""
    return isinstance(saver, TableSaver) and saver.holds_all_tables
