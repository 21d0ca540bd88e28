"""A Saver that restores from a whole checkpoint and holds none of the graph's tables that are in it: a warning.

It is what a user may want; and what becomes of `slim.assign_from_checkpoint_fn(..., ignore_missing_vars=True)`, and of
all that asks TensorFlow which variables a checkpoint has: of several ranks' it has the dense ones. Who names some of
the tables knows which.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import former_names, manifest, prefixes
from sok1x.core.graph_keys import GraphKeys


def restored(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`tf.train.Saver.restore` of a Saver without tables."""
    def restore(self: Any, sess: Any, save_path: Any) -> Any:
        if getattr(self, "for_tables", True) and sess is not None and save_path is not None:
            folder = prefixes.folder_of(str(save_path))
            if folder is not None:
                _warn(sess.graph, folder)
        return stock(self, sess, save_path)

    return restore


def _warn(graph: tf.Graph, folder: str) -> None:
    """Names the tables that are there and here: rank 0 does, of all ranks."""
    if launch.current() is not None and launch.current().rank:
        return
    try:
        saved = manifest.read(folder).tables
    except CheckpointError:  # who restores tables says what is wrong with it
        return
    left = [table.table.name for table in graph.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            if hasattr(table, "m_var_name") and former_names.saved_as(table.table.name, saved, [table]) in saved]
    if left:
        tf.logging.warning(
            "%s has table%s '%s', which this tf.train.Saver does not hold: it leaves the rows as they are. "
            "tf.train.Saver() holds all; TensorFlow's list of a checkpoint's variables has no tables of several ranks.",
            folder, "s" if len(left) > 1 else "", "', '".join(left))
