"""`tf.train.Checkpoint`, and by it Keras' `load_weights`, in graphs: on one rank TensorFlow restores tables.

It has no place to hear of it, so `watch` puts a method in place of the one by which all is run that is restored.
"""
from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.savers import restored_tables
from sok1x.core.frameworks import wrapping
from sok1x.core.tables import sessions
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_statuses, objects_of_status
from sok1x.graph_ops.stores import clock


def watch() -> None:
    """From now on what has been noted of tables is void where a graph's `tf.train.Checkpoint` restores them, and they
    hear of the global step."""
    wrapping.wrap(checkpoint_statuses.CheckpointLoadStatus, "run_restore_ops", _matched_restored)
    wrapping.wrap(checkpoint_statuses.NameBasedSaverStatus, "run_restore_ops", _named_restored)


def _matched_restored(stock: Callable[..., Any]) -> Callable[..., Any]:
    """What `tf.train.Checkpoint` has saved: who refers to an object says which it is."""
    def run_restore_ops(self: Any, session: Any = None) -> None:
        checkpoint = self._checkpoint
        _run(stock, self, session, lambda: [
            one for number, one in checkpoint.object_by_proto_id.items()
            if checkpoint.object_graph_proto.nodes[number].attributes])  # else it was there, and no value was saved
    return run_restore_ops


def _named_restored(stock: Callable[..., Any]) -> Callable[..., Any]:
    """What a `tf.train.Saver` has: all that is there, by name, unless another checkpoint has restored it since."""
    def run_restore_ops(self: Any, session: Any = None) -> None:
        _run(stock, self, session, lambda: [
            one for one in objects_of_status(self) if one._update_uid < self._checkpoint.restore_uid])
    return run_restore_ops


def _run(stock: Callable[..., Any], status: Any, session: Any, restored: Callable[[], List[Any]]) -> None:
    if not tf.executing_eagerly():
        session = checkpoint_statuses.get_session() if session is None else session
    if tf.executing_eagerly() or session is None:
        stock(status, session)
        return
    raw = sessions.raw(session)
    with restored_tables.restored(raw, restored()):
        stock(status, session)
    clock.tell_outside(raw)  # the global step may be among what was restored
