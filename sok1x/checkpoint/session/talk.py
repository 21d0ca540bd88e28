"""How ranks talk between steps: in a graph and session of their own, for TensorFlow's graphs may be finalized."""
import contextlib
import threading
from typing import Any, Iterator, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.ranks import Ranks
from sok1x.core.tables import own_sessions
from sok1x.graph_ops.bridge import plan, tensorflow_versions

# Of a rank that waits for others which do not save, restore, dump or load: what the coordinator's words leave open.
_TOGETHER = ("Tables are spread over all ranks, so all must take part together; nothing was written. Call sok.dump, "
             "sok.load, the manager or the Saver on every rank; give every rank's MonitoredTrainingSession, "
             "CheckpointSaverHook or Estimator the same folder (rank 0 alone writes what is not in tables). A "
             "tf.train.Saver of the dense variables alone may run on one.")


class Talk(Ranks):
    """`Ranks` that need no session. One per process, made with the first table: on all ranks in the same place."""

    def __init__(self) -> None:
        self._graph = tf.Graph()
        plan.of(self._graph).counted = False
        with self._graph.as_default():
            super().__init__("all_ranks_save_or_restore_together")
        self._session: Optional[tf.Session] = None
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def _entered(self, call: Any) -> Iterator[None]:
        """Of this thread; others wait until it has ended."""
        with self._lock, super()._entered(call):
            yield

    def gather(self, session: Any, payload: np.ndarray) -> List[np.ndarray]:
        """As `Ranks.gather`; `session` is not needed, which runs nothing.

        Raises:
            CheckpointError: some ranks wait for something else, or talk about something else.
        """
        with self._lock:  # nobody else's words meanwhile
            return super().gather(session, payload)

    def _gather(self, session: Any, payload: np.ndarray) -> List[np.ndarray]:
        if self._session is None:
            # The threads of all other sessions are as the first one that has none of its own says.
            self._session = tf.Session(graph=self._graph, config=own_sessions.config(
                session, use_per_session_threads=True, inter_op_parallelism_threads=1))
        try:
            return super()._gather(self._session, payload)
        except tf.errors.OpError as error:  # the job has failed
            call = self._call.value
            alone = " {}: {}".format("" if call is None else call.what, _TOGETHER) if isinstance(
                error, tf.errors.DeadlineExceededError) else ""
            raise CheckpointError(tensorflow_versions.own_words(error).split("\n")[0] + alone) from error


_talk: Optional[Talk] = None


def talk() -> Talk:
    """This process's."""
    global _talk
    if _talk is None:
        _talk = Talk()
    return _talk
