"""Whether all ranks' sessions are to save tables: asked before they begin, for then ranks may wait elsewhere.

And whether all hooks of a session do."""
import os
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import urls
from sok1x.checkpoint.savers.table_saver import TableSaver
from sok1x.checkpoint.session.dense_saver import DenseSaver
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
    folders = [urls.absolute(hook._checkpoint_dir) for hook in hooks_beside(init_hook)
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


def warn_of_dense_alone(saving: Any) -> None:
    """Warns of hooks of TensorFlow's that save what is in no table to another folder than those of tables.

    Called when a session begins.

    Args:
        saving: a hook that saves tables; the first of several warns.
    """
    hooks = [hook for hook in hooks_beside(saving) if isinstance(hook, tf.train.CheckpointSaverHook)]
    folders = {hook: _folders_of_tables(hook) for hook in hooks}
    if launch.current().rank or next((hook for hook in hooks if folders[hook]), None) is not saving:
        return
    with_tables = [os.path.realpath(urls.absolute(folder)) for hook in hooks for folder in folders[hook]]
    for hook in hooks:
        if not folders[hook] and isinstance(_saver_of(hook), DenseSaver) and os.path.realpath(
                urls.absolute(hook._checkpoint_dir)) not in with_tables:
            tf.logging.warning(
                "TensorFlow's CheckpointSaverHook saves to %s without tables, which are saved to %s alone: no job can "
                "go on from the former. Give MonitoredTrainingSession save_checkpoint_secs=None; for checkpoints in "
                "both folders give it a sok.CheckpointSaverHook for each", hook._checkpoint_dir,
                " and ".join(with_tables))


def _folders_of_tables(hook: Any) -> List[str]:
    """Where a hook of ours, or listeners of ours that a hook has, save tables."""
    return [one._saving.directory for one in [hook] + list(hook._listeners) if hasattr(one, "_saving")]


def hooks_beside(mine: Any) -> List[Any]:
    """All hooks of the session that is calling one of them: TensorFlow tells them to nobody."""
    for caller in callers.selves():
        hooks = getattr(caller, "_hooks", None)
        if isinstance(hooks, (list, tuple)) and any(hook is mine for hook in hooks):
            return list(hooks)
    return []


def _saver_of(hook: Any) -> Any:
    """A hook's Saver; None where TensorFlow has made none yet."""
    saver = hook._saver or (hook._scaffold.saver if hook._scaffold is not None else None)
    return (tf.get_collection(tf.GraphKeys.SAVERS) or [None])[-1] if saver is None else saver


def _saves_tables(hook: Any) -> bool:
    saver = _saver_of(hook)
    if type(hook) is not tf.train.CheckpointSaverHook or saver is None:
        return True  # ours, or one with the Saver that TensorFlow will make
    return isinstance(saver, TableSaver) if saver._is_built else getattr(saver, "for_tables", True)
