"""The hook that saves and restores whole training runs."""
import os
import weakref
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint import tensorflow_errors
from sok1x.checkpoint.savers import agreed_timer, hooks_alike
from sok1x.checkpoint.session import dense_saver, restored_sessions
from sok1x.checkpoint.session.manager import check_folder, check_keep
from sok1x.checkpoint.session.ranks import Ranks
from sok1x.checkpoint.session.restoring import Restored, Restoring
from sok1x.checkpoint.session.saving import Saving
from sok1x.checkpoint.session.schedule import Schedule
from sok1x.checkpoint.session.stop_hook import check_alike, save_now
from sok1x.checkpoint.session.tables import tables_of
from sok1x.checkpoint.session.talk import talk
from sok1x.checkpoint.session.told_to_end import Signals, signals_of, told_to_end
from sok1x.core.options.given_numbers import is_number, whole
from sok1x.graph_ops.bridge.tensorflow_versions import training_util


class CheckpointSaverHook(tf.train.CheckpointSaverHook):
    """Saves and restores all state of a training run: tables and their optimizer slots by every rank, the rest by one.

    Give it to `MonitoredTrainingSession(hooks=[...])` on all ranks, in the place of TensorFlow's hook of this name
    (`save_checkpoint_secs=None`). A session that begins restores the last complete checkpoint in checkpoint_dir, if
    there is one, whatever number of ranks saved it; `checkpoint_dir` of the session itself may be given or not. Then
    a checkpoint is saved when the session begins anew, every save_steps or save_secs, and when it ends. Of several
    hooks with folders of their own, the one with the last step is restored; none where the session has been given as
    late a step already, with all variables, by a `tf.train.Saver` or a manager in a Scaffold's `init_fn`, say. (What a
    `tf.train.Checkpoint` has restored does not count.)

    A checkpoint is one folder, `checkpoint_dir/model.ckpt-<global step>`: rows with keys and slots of each rank's
    shards, and TensorFlow's checkpoint of all other variables, `model.ckpt-<global step>` in it. It appears complete
    or not at all. `checkpoint_dir/checkpoint` is TensorFlow's state file. All ranks need to see the folder. Beside its
    variables a rank needs less than 100 MB of memory to save or to restore; to save tables that forget 20 to 30 bytes a
    row more, and such with a cache 10 to 15.
    `python -m sok1x.checkpoint` shows, verifies and exports what is in it.

    Args:
        checkpoint_dir: the folder; made where it is missing.
        save_secs: seconds between checkpoints, by rank 0's clock; costs a small exchange about once a second.
        save_steps: or steps between them.
        listeners: `tf.train.CheckpointSaverListener`s, called as TensorFlow's hook does, on every rank.
        keep_checkpoint_max: how many checkpoints stay; None or 0: all.
        save_on_sigterm: True: from when the hook is made until its session ends, SIGTERM, to one rank or more, has all
            ranks save after the same step, one or two further on, and end the session as `request_stop` does; so that
            the program ends with code 0. Signals, as `signal.SIGUSR1` or a list, stand in the place of SIGTERM. Who has
            been told once may be told again. Equal on all ranks.

    Raises:
        TypeError: checkpoint_dir is no path.
        ValueError: checkpoint_dir is a file, or a URL, as hdfs://..., of a file system that need not be mounted;
            neither or both of save_secs and save_steps are given, or not above 0, or keep_checkpoint_max is negative,
            or save_on_sigterm is something else, or given elsewhere than on the main thread.
        RuntimeError: (at a session's begin) the graph has no global step.
        sok1x.checkpoint.errors.CheckpointError: (on all ranks) a checkpoint cannot be written, is damaged, or does
            not fit the model; the message names the file, and nothing has changed.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for last_step in (2, 5):  # the second session goes on where the first one ended
        ...         with tf.Graph().as_default():
        ...             layer = sok.All2AllDenseEmbedding(
        ...                 max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
        ...             loss = tf.reduce_sum(layer(tf.constant([[[7]]], tf.int64)))
        ...             number = tf.train.get_or_create_global_step()
        ...             step = tf.train.AdamOptimizer().minimize(loss, global_step=number)
        ...             hooks = [sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=last_step),
        ...                      sok.CheckpointSaverHook(folder, save_steps=100)]
        ...             with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        ...                 steps = 0
        ...                 while not session.should_stop():
        ...                     _ = session.run(step)
        ...                     steps += 1
        ...         print(steps)
        2
        3
    """

    def __init__(self, checkpoint_dir: str, save_secs: Optional[float] = None, save_steps: Optional[int] = None,
                 listeners: Optional[List[tf.train.CheckpointSaverListener]] = None,
                 keep_checkpoint_max: Optional[int] = 5, save_on_sigterm: Signals = False) -> None:
        checkpoint_dir = check_folder("CheckpointSaverHook", checkpoint_dir)
        every: Any = save_secs if save_steps is None else save_steps
        if (save_secs is None) == (save_steps is None) or not is_number(every) or not every > 0:
            raise ValueError("CheckpointSaverHook: got save_secs={!r} and save_steps={!r}, expected one of them, above "
                             "0".format(save_secs, save_steps))
        if save_steps is not None and save_steps != float("inf"):  # at the beginning and the end alone
            save_steps = whole("CheckpointSaverHook: save_steps", save_steps, 1, "a positive integer")
        keep_checkpoint_max = check_keep("CheckpointSaverHook", keep_checkpoint_max)
        self._signals = signals_of("CheckpointSaverHook", save_on_sigterm)
        told_to_end.listen("CheckpointSaverHook", self._signals)
        super().__init__(checkpoint_dir, save_secs=save_secs, save_steps=save_steps, listeners=listeners)
        self._save_secs, self._save_steps, self._keep = save_secs, save_steps, keep_checkpoint_max
        self._graph: Optional[tf.Graph] = None  # the one that has the ops
        self._begun: Any = weakref.WeakSet()  # sessions in which it has restored what there is, or found nothing
        self._has_found = False
        self._summary_writer: Any = None

    def begin(self) -> None:
        """Makes the ops, while the graph may still change; called by the session.

        Raises:
            RuntimeError: the graph has no global step.
            sok1x.checkpoint.errors.CheckpointError: the graph has tables of tf.train.import_meta_graph.
        """
        told_to_end.listen("CheckpointSaverHook", self._signals)
        self._global_step_tensor = training_util._get_or_create_global_step_read()
        if self._global_step_tensor is None:
            raise RuntimeError("CheckpointSaverHook: the graph has no global step; make one with "
                               "tf.train.get_or_create_global_step() and give it to the optimizer")
        graph = tf.get_default_graph()
        if graph is self._graph:
            return
        self._graph, tables = graph, tables_of(graph)
        dense = dense_saver.for_graph(tables, self._checkpoint_dir)
        self._saving = Saving(self._checkpoint_dir, tables, dense, self._keep)
        self._restoring = Restoring(self._checkpoint_dir, tables, dense)
        self._ranks = Ranks("agree_on_time_to_save")
        self._schedule = Schedule(self._save_secs, self._save_steps, self._ranks.exchange)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Restores the last checkpoint, or saves the first one; called by the session.

        Args:
            session: the new session.
            coord: unused.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one finds that it cannot be done.
        """
        restored_sessions.restore(hooks_alike.hooks_beside(self) or [self], session)
        step = int(session.run(self._global_step_tensor))
        check_alike("CheckpointSaverHook", self._ranks.agree(session, lambda: self._write_graph(session.graph)))
        if not self._has_found:
            self._save(session, step)
        hooks_alike.warn_of_dense_alone(self)
        if self._signals:
            told_to_end.begun(step)
        self._schedule.started(step)
        self._timer.update_last_triggered_step(step)

    def _is_to_restore(self, session: tf.Session) -> bool:
        """Whether this is a session of its graph, and it has not looked yet for what there is to restore in it.

        Args:
            session: some session.
        """
        return session.graph is self._graph and session not in self._begun

    def _look_in(self, session: tf.Session) -> Optional[Restored]:
        """What it has to restore, the last checkpoint; once in each session, whoever asks first."""
        # Two jobs that go on from one checkpoint are a mistake, which is better told now than at the first save.
        self._saving.open(session)
        return self._restoring.find(session)

    def _restore_in(self, session: tf.Session, found: Restored) -> None:
        """Restores that, for it is later than what other hooks of the session have, and than the session itself."""
        self._restoring.restore_folder(session, found)
        tf.logging.info("Restored all variables from %s.", found.folder)

    def _begin_in(self, session: tf.Session, found: Optional[Restored], step: Optional[int]) -> None:
        """The session has been restored, to a step if any hook has found one; this one has found that, or nothing."""
        if found is not None and found.step != step:
            tf.logging.info("Going on from step %d, and not from %s.", step, found.folder)
        self._begun.add(session)
        self._has_found = found is not None

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Saves where it is time to; called by the session after each run.

        Args:
            run_context: has the session.
            run_values: has the global step, as the run has shown it.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one of them cannot save.
        """
        session, seen = run_context.session, int(run_values.results)
        if self._signals and told_to_end.passed(seen, lambda: int(session.run(self._global_step_tensor))):
            run_context.request_stop()
            save_now(self, session)
            return
        if not self._schedule.may_be_due(seen):
            return
        step = int(run_context.session.run(self._global_step_tensor))
        if not self._schedule.is_due(run_context.session, step):
            return
        self._schedule.saved(step)
        self._timer.update_last_triggered_step(step)
        if self._save(run_context.session, step):
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        """Saves the last step, if it has not been; called by the session when it ends without an error.

        Args:
            session: has the variables.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one of them cannot save.
        """
        super().end(session)
        self._saving.close()
        if self._signals:
            told_to_end.over()

    def _save(self, session: tf.Session, step: int) -> bool:
        """Saves, and returns whether a listener wants training to stop. Called by TensorFlow's `end` too."""
        tf.logging.info("Saving checkpoints for %d into %s.", step, self._checkpoint_dir)
        if launch.current().size > 1:
            agreed_timer.share_clocks(self, talk())
        for listener in self._listeners:
            listener.before_save(session, step)
        folder = self._saving.save(session, step)
        if self._summary_writer is not None:
            self._summary_writer.add_session_log(tf.SessionLog(
                status=tf.SessionLog.CHECKPOINT, checkpoint_path=folder), step)
        return any([listener.after_save(session, step) for listener in self._listeners])

    def _write_graph(self, graph: tf.Graph) -> List[int]:
        """What TensorFlow's hook writes for TensorBoard, on rank 0. Returns the signals, which ranks compare."""
        if self._ranks.rank:
            return list(self._signals)
        definition = graph.as_graph_def(add_shapes=True)
        path = os.path.join(self._checkpoint_dir, "graph.pbtxt")
        with tensorflow_errors.refusals(path, definition.ByteSize()):
            tf.train.write_graph(definition, self._checkpoint_dir, "graph.pbtxt")
            self._summary_writer = tf.summary.FileWriterCache.get(self._checkpoint_dir)
        self._summary_writer.add_graph(graph)
        return list(self._signals)
