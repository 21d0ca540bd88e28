"""Whether all ranks' sessions are to save tables: asked before they begin, for then ranks may wait elsewhere."""
import os
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.savers.table_saver import TableSaver
from sok1x.checkpoint.session.talk import talk
from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge import callers


def expect_hooks_alike(init_hook: Any) -> None:
    """Called by `InitHook` when a session begins and the ranks have joined; all ranks call it alike.

    Raises:
        CheckpointError: on all ranks, where some have a hook that saves tables and others have none.
    """
    if launch.current().size == 1 or not tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES):
        return
    folders = [os.path.abspath(hook._checkpoint_dir) for hook in hooks_beside(init_hook)
               if isinstance(hook, tf.train.CheckpointSaverHook) and _saves_tables(hook)]
    with talk().about("a session with tables begins"):
        told = talk().exchange(None, folders)
    if len({len(one) for one in told}) > 1:
        raise CheckpointError((
            "Some ranks' sessions save checkpoints, and some do not: {}. Tables are spread over all ranks, so all must "
            "save and restore them together; nothing was written. Give every rank's MonitoredTrainingSession the same "
            "checkpoint_dir, or every rank a CheckpointSaverHook (rank 0 alone writes what is not in tables); a hook "
            "with a tf.train.Saver of the dense variables alone may run on one rank.").format("; ".join(
                "{}: {}".format(launch.named(rank), ", ".join(one) or "none") for rank, one in enumerate(told))))


def hooks_beside(init_hook: Any) -> List[Any]:
    """All hooks of the session that is calling one of them: TensorFlow tells them to nobody."""
    for caller in callers.selves():
        hooks = getattr(caller, "_hooks", None)
        if isinstance(hooks, (list, tuple)) and any(hook is init_hook for hook in hooks):
            return list(hooks)
    return []


def _saves_tables(hook: Any) -> bool:
    saver = hook._saver or (hook._scaffold.saver if hook._scaffold is not None else None)
    if saver is None:
        saver = (tf.get_collection(tf.GraphKeys.SAVERS) or [None])[-1]
    if type(hook) is not tf.train.CheckpointSaverHook or saver is None:
        return True  # ours, or one with the Saver that TensorFlow will make
    return isinstance(saver, TableSaver) if saver._is_built else getattr(saver, "for_tables", True)
