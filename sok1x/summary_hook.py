"""Tables' figures in TensorBoard, over all ranks."""
import os
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch, table_figures
from sok1x.checkpoint.session import tables as graph_tables
from sok1x.checkpoint.session.schedule import Schedule
from sok1x.core.frameworks import summaries
from sok1x.core.options.given_numbers import whole
from sok1x.graph_ops.operations import gather_bytes

_WIDTH = len(table_figures.ALL)
_TABLES = "sok1x.SummaryHook: tables"  # for messages


class SummaryHook(tf.train.SessionRunHook):
    """Writes for TensorBoard how tables do: for `MonitoredTrainingSession` and Estimators, on all ranks.

    Of each table, under 'TABLE/NAME': rows_in_use of all ranks; share_of_capacity, of the fullest shard;
    distinct_share, how many of a batch's keys are distinct; and for each step since it has written last: new_keys,
    evictions, and, of a table with rows in host memory, cache_hits and cache_misses; sent_bytes and received_bytes
    between ranks, of keys, rows and gradients; waiting_ms, how long its lookups and gradients have waited for other
    ranks, the mean over ranks, and waiting_ms_most, of the rank that has waited longest (the slow rank waits least;
    tables of a step wait at the same time). 'all_tables/NAME' has the sums of rows, keys, evictions and bytes.

    On several ranks a step that is written is followed by an exchange of the figures, in which all ranks wait for each
    other; so all ranks have the hook, with the same arguments. Rank 0 writes. With `every_rank` nobody waits: each rank
    writes its own figures to a folder of its own, 'rank_R' in `output_dir`. All other steps cost nothing.

    What an Estimator's evaluations do between steps is not counted; what another session of the same process does with
    a table of the same name is, in distinct_share, bytes and waiting_ms.

    A warning is logged, once each, when a shard of fixed size is 80 % and 95 % full: by the rank that writes.

    Args:
        save_steps: write every so many steps.
        output_dir: the folder of the event files.
        summary_writer: a `tf.summary.FileWriter` instead; not with `every_rank`.
        tables: layers or embedding variables; None: all tables of the graph.
        every_rank: whether each rank writes its own figures.

    Raises:
        ValueError: save_steps is not positive, not one of output_dir and summary_writer is given, or, when a session
            begins, the graph has no global step.
        TypeError: one of tables is none.

    Example:
        >>> import glob, tempfile
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1, name="ads")
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]], [[8]]], tf.int64)))
        ...     step = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        ...     hooks = [sok.InitHook(global_batch_size=2), sok.SummaryHook(2, folder)]
        ...     with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        ...         for _ in range(5):
        ...             _ = session.run(step)
        ...     path, = glob.glob(folder + "/events.*")
        ...     events = list(tf.train.summary_iterator(path))
        >>> [event.step for event in events if event.summary.value]
        [2, 4, 5]
    """

    def __init__(self, save_steps: int, output_dir: Optional[str] = None, summary_writer: Any = None,
                 tables: Optional[Sequence[Any]] = None, every_rank: bool = False) -> None:
        save_steps = whole("SummaryHook: save_steps", save_steps, 1, "a positive integer")
        if (output_dir is None) == (summary_writer is None):
            raise ValueError("SummaryHook: got output_dir={!r} and summary_writer={!r}, expected one of them".format(
                output_dir, summary_writer))
        if every_rank and output_dir is None:
            raise ValueError("SummaryHook: every_rank: got a summary_writer, expected an output_dir, for each rank has "
                             "a writer of its own")
        self._schedule = Schedule(None, save_steps, lambda *ignored: None)  # who counts need not talk
        self._output_dir, self._writer, self._every_rank = output_dir, summary_writer, every_rank
        self._asked = None if tables is None else [table_figures.given(_TABLES, table) for table in tables]
        self._tables: List[table_figures.Given] = []
        self._fullness = table_figures.Fullness()
        self._written_at = 0
        self._last = np.zeros([0, _WIDTH])

    def begin(self) -> None:
        """Makes the ops. Called by the session.

        Raises:
            ValueError: the graph has no global step.
        """
        self._step = tf.train.get_global_step()
        if self._step is None:
            raise ValueError("SummaryHook: got a graph without a global step, expected one, which the optimizer counts "
                             "up: tf.train.get_or_create_global_step() makes it")
        tables = self._asked
        if tables is None:
            tables = [table_figures.given(_TABLES, table.variable)
                      for table in graph_tables.tables_of(tf.get_default_graph())]
        self._tables, self._last = tables, np.zeros([len(tables), _WIDTH])
        summaries.watch()
        with tf.name_scope("summary_hook"), tf.device("/device:CPU:0"):
            own = [table_figures.of_rank(table) for table in tables]
            self._own = tf.stack(own) if own else tf.zeros([0, _WIDTH], tf.float64)
            before = tf.py_func(lambda: self._last, [], tf.float64, stateful=True)
            before.set_shape(self._own.shape)
            both = tf.reshape(tf.bitcast(tf.stack([self._own, before]), tf.uint8), [-1])
            self._shared = self._own if self._every_rank else gather_bytes.gather_bytes(both)

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Notes what there is before the first step. Called by the session.

        Args:
            session: the new session.
            coord: unused.
        """
        self._last = session.run(self._own)
        self._written_at = int(session.run(self._step))
        self._schedule.started(self._written_at)

    def before_run(self, run_context: Any) -> Any:
        """Asks for the global step. Called by the session.

        Args:
            run_context: unused.

        Returns:
            What is to be fetched besides.
        """
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes where it is time to. Called by the session.

        Args:
            run_context: has the session.
            run_values: has the global step, as the run has shown it.

        Raises:
            tf.errors.OpError: a rank has failed.
        """
        if not self._schedule.may_be_due(int(run_values.results)):
            return
        step = int(run_context.session.run(self._step))
        if self._schedule.is_due(run_context.session, step):
            self._schedule.saved(step)
            self._write(run_context.session, step)

    def end(self, session: tf.Session) -> None:
        """Writes the last step, if it has not been. Called by the session when it ends without an error.

        Args:
            session: has the variables.

        Raises:
            tf.errors.OpError: a rank has failed.
        """
        step = int(session.run(self._step))
        if step > self._written_at:
            self._write(session, step)
        if self._writer is not None:
            self._writer.flush()

    def _write(self, session: tf.Session, step: int) -> None:
        steps, self._written_at = step - self._written_at, step
        own, shared = session.run([self._own, self._shared])
        last, self._last = self._last, own
        rank = launch.current().rank
        if rank and not self._every_rank:
            return
        if self._every_rank:
            now, before = own[np.newaxis], last[np.newaxis]
        else:
            everything = np.ascontiguousarray(shared[0]).view(np.float64).reshape(-1, 2, *own.shape)
            now, before = everything[:, 0], everything[:, 1]
        found: Dict[str, Dict[str, float]] = {}
        for number, table in enumerate(self._tables):
            found[table.name] = table_figures.scalars(now[:, number], before[:, number], steps,
                                                      table.variable.table.cache is not None)
            self._fullness.look_at_all(table, now[:, number])
        found["all_tables"] = _sums(list(found.values()))
        self._writer_of(rank).add_summary(table_figures.summary_of(found), step)

    def _writer_of(self, rank: int) -> Any:
        if self._writer is None:
            assert self._output_dir is not None
            if self._every_rank:
                self._writer = tf.summary.FileWriter(os.path.join(self._output_dir, "rank_{}".format(rank)))
            else:
                self._writer = tf.summary.FileWriterCache.get(self._output_dir)
        return self._writer


def _sums(of_tables: List[Dict[str, float]]) -> Dict[str, float]:
    names = ("rows_in_use", "new_keys", "evictions", "sent_bytes", "received_bytes")
    return {name: sum(values[name] for values in of_tables) for name in names
            if of_tables and all(name in values for values in of_tables)}
