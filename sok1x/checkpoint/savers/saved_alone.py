"""A word in what a Saver saves of tables by its own ops: of how many ranks one has saved this. Of 1 it is whole.

On several ranks TensorFlow's own ops for saving do not run (table_saver.py), but others of ours, or all is refused:
unless a program runs the Saver's op itself, which saves a shard. So the word is what the op says as it is run, and it
goes with a MetaGraph or a SaverDef, too. Where it is not in a checkpoint, that may be a shard (one_rank.py).
"""
import contextlib
from typing import Any, Iterator, Optional

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.savers import one_rank
from sok1x.checkpoint.savers.held import Held
from sok1x.checkpoint.savers.left_out import LeavingOut
from sok1x.checkpoint.savers.saved_only import SavedOnly
from sok1x.graph_ops.operations.rank_and_ranks import rank_and_ranks


@contextlib.contextmanager
def said_by(saver: Any, held: Optional[Held]) -> Iterator[None]:
    """Inside, the ops that a Saver makes save the word, if it holds rows; they restore all else, for earlier
    checkpoints have no such word.

    A Saver with a builder of the user's own is left as it is: whether that restores what it is not asked for is not
    known.

    Args:
        saver: the `tf.train.Saver`.
        held: what it holds, as far as that is known.
    """
    var_list = saver._var_list
    if held is None or not held.tables or saver._builder is not None:
        yield
        return
    with tf.control_dependencies(None):
        with tf.device("/cpu:0"):
            ranks = rank_and_ranks("rank_that_saves")[1]
        with tf.device(held.tables[0].variable.device):  # a sharded Saver's file of these
            word = SavedOnly(tf.identity(ranks, "saved_by_ranks"), one_rank.RANKS)
    saver._builder = LeavingOut([one_rank.RANKS], saver._write_version)
    saver._var_list = dict(var_list, **{one_rank.RANKS: word}) if isinstance(var_list, dict) else [*var_list, word]
    try:
        yield
    finally:
        saver._var_list = var_list
