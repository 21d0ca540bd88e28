"""Which paths the ranks may give to a `tf.train.Saver`: all one, or each its own."""
import os
import tempfile
import threading
from typing import Any, List, Optional, Sequence

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.savers import caches, whose_shards
from sok1x.graph_ops.bridge.tensorflow_versions import supervisor


def expect_own(paths: List[str], cached: List[str]) -> None:
    """Raises CheckpointError unless each rank can save its own shards to a path of its own.

    Args:
        paths: of the ranks in turn.
        cached: names of tables with a cache.
    """
    by_rank = whose_shards.by_rank(paths)
    if len(set(paths)) < len(paths):
        raise CheckpointError("Some ranks save to one path, and some do not: {}. Give all ranks the same path, "
                              "or each its own.".format(by_rank))
    if len({_is_temporary(path) for path in paths}) > 1:
        raise CheckpointError((
            "Some ranks save to a temporary folder, which is lost with their shards: {}. Give all ranks' "
            "Estimators one model_dir, or all their hooks one folder; rank 0 alone writes what is not in "
            "tables.").format(by_rank))
    caches.refuse(cached, "Each rank cannot save to a path of its own, {}".format(by_rank),
                  "Give all ranks the same path")


def expect_one_session(paths: List[str], numbers: Sequence[Optional[int]]) -> None:
    """Raises CheckpointError where ranks save sessions that do not belong together.

    What they have saved would be of two sessions, and that of the next save would take its place.

    Args:
        paths: where the ranks in turn save to.
        numbers: of their sessions, as all ranks know them (session_number.py); None where that is not known.
    """
    if len({number for number in numbers if number is not None}) > 1:
        raise CheckpointError((
            "The ranks save different sessions: {}. All ranks take part in one checkpoint, that of a session in which "
            "they train together; nothing was saved. Save several sessions in one order on all ranks, in one thread; "
            "or each in a thread of its own by a sok.CheckpointManager, which all of them may share.").format(
                whose_shards.by_rank(paths)))


def expect_one_step(names: Sequence[str], steps: Sequence[Any]) -> None:
    """Raises CheckpointError where ranks save under one name, but for the step that is added to it.

    Nobody could restore what they have saved: no path would have all ranks' shards.

    Args:
        names: of the ranks in turn, without the step.
        steps: that the ranks were given; None where they were not.
    """
    if len(set(names)) == 1 and len(set(steps)) > 1:
        raise CheckpointError((
            "The ranks save different steps of {}: {}. All ranks take part in one checkpoint; nothing was saved. Give "
            "every rank the same global_step, between the same two steps of training.").format(names[0], ", ".join(
                "{} {}".format(launch.named(rank), "none" if step is None else step)
                for rank, step in enumerate(steps))))


def refuse_supervisors_thread(path: str) -> None:
    """Raises CheckpointError in the thread in which a `tf.train.Supervisor` saves by its own rank's clock.

    Args:
        path: where to.
    """
    if isinstance(threading.current_thread(), supervisor.SVTimerCheckpointThread):
        raise CheckpointError((
            "A tf.train.Supervisor saves tables to {} by each rank's own clock, in a thread beside the training, so "
            "that the ranks would save different steps, and nobody could restore that. Give it save_model_secs=0, and "
            "save by its saver, or by sok.CheckpointManager, in the training loop, on all ranks after the same step; "
            "or train in a tf.train.MonitoredTrainingSession, whose hooks save so.").format(path))


def _is_temporary(path: str) -> bool:
    """Whether the folder is one that an Estimator makes where it is given none, as on Horovod's ranks but the first."""
    folder = os.path.realpath(os.path.dirname(path))
    return os.path.dirname(folder) == os.path.realpath(tempfile.gettempdir()) and \
        os.path.basename(folder).startswith(tempfile.gettempprefix())
