"""Whole training runs saved and restored in a loop of one's own."""
import os
import re
import threading
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import urls
from sok1x.checkpoint.session import dense_saver, restored_sessions
from sok1x.checkpoint.session.restoring import Restoring
from sok1x.checkpoint.session.saving import Saving
from sok1x.checkpoint.session.tables import TableState, all_of, are_all_of, tables_of
from sok1x.core.eagerly import eager
from sok1x.core.options.given_numbers import is_integer, whole
from sok1x.core.tables import sessions

_FEW = 5  # names in a message


class CheckpointManager:
    """Saves and restores all state of the default graph, all ranks together: tables, optimizer slots, and the rest.

    For eager loops, and those around a plain `tf.Session`; `sok.CheckpointSaverHook` does the same for
    `MonitoredTrainingSession` and describes what a checkpoint is. Make it on all ranks, and call its methods on all
    ranks alike; what the graph gets later is saved and restored as well, where the graph is not finalized before that.
    `restore` comes when the model and its optimizers are built: it gives values to what there is. In eager execution
    `save(step=3)` and `restore()` need no session, and an optimizer that has made no slots yet must be built before
    (`optimizer.build(variables)`).

    Args:
        checkpoint_dir: the folder, on a file system that all ranks share; made where it is missing.
        keep_checkpoint_max: how many checkpoints stay; None or 0: all.
        checkpoint: in eager execution, a `tf.train.Checkpoint` of what is saved besides the tables that there are, with
            their slots: the model, optimizers, counters. Tables that its
            model makes later are saved as all others are.

    Raises:
        TypeError: checkpoint_dir is no path.
        ValueError: checkpoint_dir is a file, or a URL, as hdfs://..., of a file system that need not be mounted;
            keep_checkpoint_max is negative; or a checkpoint was given in a graph.
        sok1x.checkpoint.errors.CheckpointError: the graph has tables of tf.train.import_meta_graph.

    Example:
        >>> import tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]]], tf.int64)))
        ...     step = tf.train.AdamOptimizer().minimize(loss)
        ...     checkpoints = sok.CheckpointManager(folder)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     first = checkpoints.restore(session) or 0
        ...     for number in range(first, 3):
        ...         _ = session.run(step)
        ...     _ = checkpoints.save(session, 3)
        ...     checkpoints.restore(session)
        3
    """

    def __init__(self, checkpoint_dir: str, keep_checkpoint_max: Optional[int] = 5, checkpoint: Any = None) -> None:
        checkpoint_dir = check_folder("CheckpointManager", checkpoint_dir)
        keep_checkpoint_max = check_keep("CheckpointManager", keep_checkpoint_max)
        self._folder, self._eager = checkpoint_dir, None
        if eager.is_on():
            from sok1x.checkpoint.eager import eager_run  # slow to import, and of TensorFlow 2 alone
            self._eager = eager_run.EagerRun(checkpoint_dir, keep_checkpoint_max, checkpoint)
            return
        if checkpoint is not None:
            raise ValueError("CheckpointManager: checkpoint: got {!r} in a tf.Graph, expected None: of a graph all "
                             "variables are saved".format(checkpoint))
        self._graph = tf.get_default_graph()
        self._warned = self._told = False
        self._looking = threading.RLock()  # a signal's handler may save inside of a save
        tables = tables_of(self._graph)
        # TensorFlow's sessions and hooks must not find it: what they save goes elsewhere, and needs its tables, too.
        dense = dense_saver.DenseSaver(tables, checkpoint_dir)
        self._saving = Saving(checkpoint_dir, tables, dense, keep_checkpoint_max)
        self._restoring = Restoring(checkpoint_dir, tables, dense)
        self._held = all_of(self._graph, tables)

    def _look_again(self, what: str) -> None:
        """Takes what the graph has got since, as a table, or slots that Keras makes when it first trains."""
        with self._looking:
            if are_all_of(self._graph, self._held):
                return
            tables = tables_of(self._graph)
            held = all_of(self._graph, tables)
            if self._graph.finalized:
                self._refuse_late(what, tables, held)
                return
            with self._graph.as_default(), tf.control_dependencies(None):
                dense = dense_saver.DenseSaver(tables, self._folder)
                self._saving.take(tables, dense)
                self._restoring.take(tables, dense)
            self._held = held

    def _refuse_late(self, what: str, tables: List[TableState], held: List[Any]) -> None:
        """Raises where tables, or their slots, were too late; of what else there is, as hooks make it, warns."""
        before = {id(variable) for variable in self._held}
        of_tables = {id(variable) for table in tables for variable in table.variables()}
        late = [variable for variable in held if id(variable) not in before]
        few = _few(sorted(variable.op.name for variable in late))
        if any(id(variable) in of_tables for variable in late):
            raise CheckpointError(
                "CheckpointManager.{}: got variables that were made after the manager in a graph that is finalized "
                "({}), expected none of a table: make the manager when the model and its optimizers are built".format(
                    what, few))
        if not self._told and not launch.current().rank:
            self._told = True
            tf.logging.warning(
                "CheckpointManager.%s: these variables were made after the manager, as by a hook's begin(), and the "
                "graph is finalized, so they are in none of its checkpoints: %s. Where they matter make the manager "
                "later, as in the begin() of a hook that comes behind", what, few)

    def save(self, session: Any = None, step: Any = None) -> str:
        """Saves everything as the checkpoint of a step.

        Args:
            session: has the variables; None in eager execution.
            step: 0 or more, equal on all ranks: what `restore` will return, unless there is one of a later step. Of a
                run that went back to an earlier step, those of later ones are the first not to be kept.

        Returns:
            The checkpoint's folder.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one of them cannot save; the checkpoints that
                were there are as they were. And where tables, or slots of them, were made after the manager, and the
                graph is finalized.
            ValueError: step is no integer, or negative; the session is missing, or of another graph.
        """
        if not is_integer(step) or step < 0:
            raise ValueError("CheckpointManager.save: step: got {!r}, expected an integer, 0 or more".format(step))
        if self._eager is not None:
            return str(self._eager.save(int(step)))
        self._check("save", session)
        return self._saving.save(session, int(step))

    def restore(self, session: Any = None, step: Any = None) -> Any:
        """Restores everything from the last complete checkpoint, or that of a step, from any number of ranks.

        Checkpoints are those of managers and of sok1x's hooks. A warning says where a `tf.train.Saver` has saved a
        later one to the folder, and, in a graph, where the checkpoint has optimizer slots that the graph has not: an
        evaluation needs none. What trains must have them before, or they begin anew; Keras in a graph makes them when
        it first trains: by one `model.train_on_batch`, of which nothing is left after this.

        Args:
            session: gets the values; its variables may be initialized before, and need not be. None in eager
                execution.
            step: whose checkpoint, an integer; None is the last, of the greatest step.

        Returns:
            The step that was restored; None, and nothing has happened, where there is no checkpoint.

        Raises:
            sok1x.checkpoint.errors.CheckpointError: on all ranks, where one finds a file damaged, or that the model
                does not fit, or no checkpoint of that step; no variable has changed then. And where another job
                replaces or removes the checkpoint meanwhile; that may be known only when variables have changed.
            ValueError: step is no integer; the session is missing, or of another graph.
        """
        if step is not None:
            if not is_integer(step):
                raise ValueError("CheckpointManager.restore: step: got {!r}, expected an integer, or None for the "
                                 "last".format(step))
            step = int(step)
        if self._eager is None:
            self._check("restore", session)
        restored = self._restoring.restore(session, step) if self._eager is None else self._eager.restore(step)
        if restored is not None and self._eager is None:
            self._warn_of_slots(restored.folder)
            restored_sessions.note_global_step(sessions.raw(session), are_all_of(self._graph, self._held))
        if restored is None:
            self._warn_of_others()
        elif step is None:
            self._warn_of_later(restored.step)
        return None if restored is None else restored.step

    def _warn_of_slots(self, folder: str) -> None:
        """An optimizer may come later, and begin with slots that are new."""
        left = self._restoring.slots_left
        if left and not self._warned and not launch.current().rank:
            self._warned = True
            tf.logging.warning(
                "CheckpointManager.restore: %s has optimizer slots that this graph has no variables for (%s), which "
                "are not restored. An evaluation needs none. Before training goes on, make the optimizer's step first, "
                "or with Keras call model.train_on_batch once, and restore then: slots that are made later begin anew",
                folder, _few(left))

    def _warn_of_others(self) -> None:
        """There may be what a tf.train.Saver has saved on one rank, which is no checkpoint of ours, or by a name of its
        own."""
        latest = None if launch.current().rank else tf.train.latest_checkpoint(self._folder)
        if latest is not None:
            tf.logging.warning(
                "CheckpointManager.restore: %s has no checkpoint of sok1x, so nothing is restored; the last one there "
                "is %s, which a tf.train.Saver has saved. tf.train.Saver().restore reads it in a graph, whose "
                "CheckpointManager then saves what any number of ranks restore", self._folder, latest)

    def _warn_of_later(self, step: int) -> None:
        """A tf.train.Saver may have gone on in the folder, on one rank or under another name."""
        later = None if launch.current().rank else dense_saver.later_named(self._folder, step)
        if later is not None:
            tf.logging.warning(
                "CheckpointManager.restore: restores step %s, the last that sok1x's hooks or managers have saved to "
                "%s; TensorFlow's state file there names a later checkpoint, %s, which a tf.train.Saver has saved. "
                "tf.train.Saver().restore reads that one in a graph", step, self._folder, later)

    def _check(self, what: str, session: Any) -> None:
        if session is None:
            raise ValueError("CheckpointManager.{}: session: got None, expected the tf.Session that has the graph's "
                             "variables; only in eager execution there is none".format(what))
        if getattr(session, "graph", self._graph) is not self._graph:
            raise ValueError("CheckpointManager.{}: session: got one of another graph than that in which the manager "
                             "was made, expected one of that graph; make the manager in the model's graph, inside "
                             "`with graph.as_default():`".format(what))
        self._look_again(what)


def _few(names: List[str]) -> str:
    return ", ".join(names[:_FEW]) + (" and {} more".format(len(names) - _FEW) if len(names) > _FEW else "")


def check_folder(who: str, checkpoint_dir: Any) -> str:
    """A folder's path as a str, of a file:// URL too. Raises TypeError where it is none, ValueError for other URLs, and
    where nothing could be restored from: something else is there, or TensorFlow would take the path for a pattern."""
    path = os.fspath(checkpoint_dir) if hasattr(checkpoint_dir, "__fspath__") else checkpoint_dir
    if not isinstance(path, str) or not path:
        raise TypeError("{}: checkpoint_dir: got {!r}, expected a folder's path".format(who, checkpoint_dir))
    folder = urls.folder(who + ": checkpoint_dir", path)
    if re.search(r"\[[^/]*\]|\\", folder):
        raise ValueError("{}: checkpoint_dir: got {!r}, expected a path without [...] and \\, which TensorFlow takes "
                         "for a pattern: it saves there, and finds nothing that it could restore".format(who, path))
    there = folder.rstrip("/")
    while there and not os.path.lexists(there):
        there = os.path.dirname(there).rstrip("/")
    if there and not os.path.isdir(there):
        raise ValueError("{}: checkpoint_dir: got {!r}, but {} is no folder, expected a folder, which is made where it "
                         "is missing{}".format(who, path, there, _folder_of(there)))
    return folder


def _folder_of(file: str) -> str:
    """What is said of a file that a checkpoint has beside it: a prefix, or TensorFlow's state."""
    name = os.path.basename(file)
    known = name == "checkpoint" or name.endswith((".index", ".meta")) or ".data-" in name
    return "; give the folder that it is in, {}".format(os.path.dirname(file) or ".") if known else ""


def check_keep(who: str, keep_checkpoint_max: Optional[int]) -> Optional[int]:
    """How many checkpoints are to stay. Raises ValueError where that is no whole number, or negative."""
    return None if keep_checkpoint_max is None else whole(
        who + ": keep_checkpoint_max", keep_checkpoint_max, 0, "0 or more, or None")
