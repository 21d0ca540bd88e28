"""Joining the ranks: `Init` for sessions of one's own, `InitHook` for `MonitoredTrainingSession`."""
import weakref
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.options.given_numbers import integer
from sok1x.graph_ops.operations import init_op

DEFAULT_SEED = init_op.DEFAULT_SEED
_MOST = 2 ** 63 - 1  # of int64

_last_sessions: Any = weakref.WeakKeyDictionary()  # graph -> a weak reference to the session that InitHook saw last


def Init(*, global_batch_size: Optional[int] = None, seed: int = DEFAULT_SEED) -> tf.Tensor:
    """An op that joins the ranks; it must run before anything else of sok1x, variable initializers included.

    Nothing touches MPI, GPUs or Horovod before this op runs. Under mpiexec or horovodrun it joins the launched
    ranks, with or without Horovod in the script; without a launcher this process is the only rank. To run it again,
    or in another graph or session, does nothing and gives `OK` again.

    Args:
        global_batch_size: samples of all ranks in a step. Batches may differ from it: it is recorded, and the ranks
            must agree on it.
        seed: of the tables' first rows, equal on all ranks: rows are a function of seed, table and key. By default a
            fixed number, so that the same script gives the same tables.

    Returns:
        A scalar string tensor, b"OK" when run.

    Raises:
        TypeError: an unknown keyword, or a value that is no integer.
        ValueError: global_batch_size is not positive, or seed not in [0, 2**63).
        tf.errors.InvalidArgumentError: (when run) the ranks gave different arguments.
        tf.errors.FailedPreconditionError: (of anything of ours that runs before this op) says to run it first.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     session.run(sok.Init(global_batch_size=8192))
        b'OK'
    """
    watch_checkpoints()
    return init_op.init(_batch_of(global_batch_size), seed_of("sok1x.Init", seed))


def watch_checkpoints() -> None:
    """From now on checkpoints are known for what they hold, also before there are tables.

    Eagerly those of tf.train.Checkpoint; in graphs Savers, for a graph may be imported, and no table is made here then;
    and Keras' files of whole models.
    """
    from sok1x.checkpoint.savers import keras_weights  # which needs this module's neighbours
    keras_weights.watch()
    if eager.is_on():
        from sok1x.checkpoint.eager import eager_checkpoints  # likewise
        from sok1x.serving import loading  # likewise
        eager_checkpoints.watch()
        loading.watch()
    else:
        from sok1x.checkpoint.savers import table_saver  # likewise
        table_saver.watch()


class InitHook(tf.train.SessionRunHook):
    """Runs `Init` before a `MonitoredTrainingSession` creates its session.

    Its `begin` has the ranks join at once, without a graph or session: the user's graph gains nothing, no GPU memory is
    taken, and TensorFlow's threads stay as the user sets them. List it in `hooks`; the place in the list does not
    matter. `sok.incremental_dump` then finds the session by itself.

    Args:
        global_batch_size: as in `Init`.
        seed: as in `Init`.

    Raises:
        TypeError: a value that is no integer.
        ValueError: global_batch_size is not positive, or seed not in [0, 2**63).

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=2, nnz_per_slot=1)
        ...     vectors = layer(tf.constant([[[7], [9]]], tf.int64))
        ...     with tf.train.MonitoredTrainingSession(hooks=[sok.InitHook(global_batch_size=1)]) as session:
        ...         session.run(vectors).shape
        (1, 2, 1, 4)
    """

    def __init__(self, global_batch_size: Optional[int] = None, seed: int = DEFAULT_SEED) -> None:
        self._global_batch_size = _batch_of(global_batch_size)
        self._seed = seed_of("sok1x.Init", seed)

    def begin(self) -> None:
        """Joins the ranks; called by the session before it is created.

        Raises:
            tf.errors.InvalidArgumentError: the ranks gave different arguments.
            sok1x.checkpoint.errors.CheckpointError: some ranks' sessions have a hook that saves tables, others none.
        """
        self._join()
        from sok1x.checkpoint.savers import hooks_alike  # which needs this module's neighbours
        hooks_alike.expect_hooks_alike(self)

    def _join(self) -> None:
        """Joins the ranks, and asks them no more: for `Scaffold`, too."""
        join(self._global_batch_size, self._seed)

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Remembers the session, without keeping it; called by the session when it has been created.

        Args:
            session: the new session.
            coord: unused.
        """
        _last_sessions[session.graph] = weakref.ref(session)


def last_session(graph: tf.Graph) -> Optional[tf.Session]:
    """The session of a graph that an `InitHook` has seen last.

    Args:
        graph: the session's graph.

    Returns:
        The session, or None where no hook has seen one that is still open.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import initialize
        >>> initialize.last_session(tf.Graph()) is None
        True
    """
    found = _last_sessions.get(graph)
    session = None if found is None else found()
    return None if session is None or session._closed else session


def join(global_batch_size: Optional[int], seed: Optional[int], by_call: bool = False) -> None:
    """Does at once what an `Init` op does, without a session: no GPU is taken, and threads are as the user's say.

    Args:
        global_batch_size: as in `Init`.
        seed: as in `Init`; None is its default.
        by_call: whether it is not `Init` that asks, but `sok.init`.

    Raises:
        tf.errors.OpError: as of the op.

    Example:
        >>> from sok1x.core import initialize
        >>> initialize.join(8192, initialize.DEFAULT_SEED)
    """
    init_op.join(global_batch_size, DEFAULT_SEED if seed is None else seed, by_call)


def seed_of(function: str, value: Any) -> int:
    """A seed that a user gives.

    Args:
        function: whose argument it is, for messages.
        value: what was given.

    Returns:
        The seed.

    Raises:
        TypeError: it is no integer.
        ValueError: it is not in [0, 2**63).

    Example:
        >>> from sok1x.core import initialize
        >>> initialize.seed_of("sok1x.Init", 7)
        7
    """
    return integer(function + ": seed", value, 0, _MOST, "an integer in [0, 2**63)")


def _batch_of(value: Any) -> Optional[int]:
    return None if value is None else integer(
        "sok1x.Init: global_batch_size", value, 1, _MOST, "an integer in [1, 2**63)")
