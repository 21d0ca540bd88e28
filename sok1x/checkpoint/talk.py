"""How the ranks' Savers talk: in a graph and session of their own, for TensorFlow's graphs may be finalized."""
import contextlib
import threading
from typing import Any, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.ranks import Ranks

_LOOKS = 2           # how often ranks must be found to wait for each other before they are given up,
_LONGEST_PAUSE = 3.0  # and at most so many seconds between two looks


class Talk(Ranks):
    """`Ranks` that need no session. One per process, made with the first table: on all ranks in the same place."""

    def __init__(self) -> None:
        self._graph = tf.Graph()
        with self._graph.as_default():
            super().__init__("all_ranks_save_or_restore_together")
        self._session: Optional[tf.Session] = None
        self._lock = threading.RLock()
        self._what = ""

    @contextlib.contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Inside, this thread talks about `what`, as 'save m/model.ckpt-5': all ranks must talk about the same."""
        with self._lock:
            before, self._what = self._what, what
            try:
                yield
            finally:
                self._what = before

    def exchange(self, session: Any, value: Any) -> List[Any]:
        """As `Ranks.exchange`; `session` is not needed.

        Raises:
            CheckpointError: some ranks wait for something else, or talk about something else.
        """
        with self._lock:
            if self._session is None:
                self._session = tf.Session(graph=self._graph, config=tf.ConfigProto(device_count={"GPU": 0}))
            try:
                with _watched(self._what):
                    told = super().exchange(self._session, [self._what, value])
            except tf.errors.OpError as error:  # the job has failed
                raise CheckpointError(error.message.split("\n")[0]) from error
        for rank, (what, _) in enumerate(told):
            if what != self._what:
                raise CheckpointError("Rank {} is at '{}', and rank {} at '{}': all ranks must save and restore alike, "
                                      "in one order.".format(self.rank, self._what, rank, what))
        return [given for _, given in told]


@contextlib.contextmanager
def _watched(what: str) -> Iterator[None]:
    """Inside, the ranks' Savers wait for each other; a rank that waits elsewhere for this one fails the job.

    A checkpoint on one rank alone, as Horovod's recipe has it, would else hang until somebody looks.
    """
    world = launch.current()
    leader = None if world is None else getattr(world.coordinator, "_leader", None)
    if leader is None:  # one rank, or another one than that which hears all
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=[world, leader, what, done], name="sok1x-savers", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()


def _watch(world: Any, leader: Any, what: str, done: threading.Event) -> None:
    pause = min(_LONGEST_PAUSE, (world.coordinator.stall_seconds or 60.0) / 4)
    before, times = None, 0
    while not done.wait(pause):
        found = _waits_elsewhere(leader)
        times = times + 1 if found is not None and found == before else 0
        before = found
        if times >= _LOOKS:
            rank, name = found
            world.coordinator.fail_job((
                "{}: rank 0 does, and rank {} does not: it waits in op '{}' for rank 0. Tables are spread over all "
                "ranks, so all must save and restore them together; nothing was written. Give every rank's "
                "MonitoredTrainingSession, CheckpointSaverHook or Estimator the same folder (rank 0 alone writes what "
                "is not in tables), or call the Saver on every rank; a tf.train.Saver of the dense variables alone may "
                "run on one.").format(what, rank, name))
            return


def _waits_elsewhere(leader: Any) -> Any:
    """(rank, op) where a rank waits in an op that rank 0 has not come to, and not in ours; else None."""
    try:
        pending = [(op.name, op.waiting()) for op in list(getattr(leader, "_pending", {}).values())]
    except RuntimeError:  # the executor's thread changed it meanwhile
        return None
    talking = {rank for name, ranks in pending if "all_ranks_save_or_restore_together" in name for rank in ranks}
    if 0 not in talking:
        return None
    for name, ranks in pending:
        for rank in ranks:
            if rank not in talking and 0 not in ranks:
                return rank, name
    return None


_talk: Optional[Talk] = None


def talk() -> Talk:
    """This process's."""
    global _talk
    if _talk is None:
        _talk = Talk()
    return _talk
