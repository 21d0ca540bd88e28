"""Checkpoints of whole training runs: every rank writes its shards, and any number of ranks reads them.

A table's shard in files:
    shard_names        names of a table's parts, and of their files
    shard_header       a file's first bytes
    shard_writer       writes a file
    stream_writer      a stretch of a file, from its beginning to its end
    shard_reader       reads one
    writing            a table's rows to files
    reading            a table's rows from those of any number of ranks
    admission_counts   which keys have been asked for, from those
    former_names       what tables were called before layers' names were in their names
    slot_names         slots that optimizers call otherwise in a graph and eagerly
    strays             keys that several ranks had
    table_rows         a whole table of all ranks, in the order in which it is exported

Whole checkpoints on disk:
    manifest           manifest.json: what a checkpoint consists of
    checkpoint_files   an open checkpoint
    folders            a folder a step
    folder_lock        who may save there
    prefixes           the same under the prefixes that TensorFlow's Savers save to
    open_file          files opened and read with care
    outputs            files that appear when they are whole
    strict_json        JSON as our files use it
    errors             what can be wrong
    tensorflow_errors  what TensorFlow says is wrong, likewise
    progress           a word on stderr, now and then

What `python -m sok1x.checkpoint` does:
    show               says what a checkpoint holds
    verify             reads every block
    export             writes tables in other formats
    export_arrays      .npz, and plain files
    export_tensorflow  a checkpoint of dense variables

In a session, all ranks together:
    tables             a graph's state: tables, and all else
    transfer           the op that moves a shard, and its errors
    preparing          tables made ready for a restore
    ranks              what ranks tell each other
    saving             all state into a checkpoint
    restoring          and back
    dense_saver        what is not in shards
    manager            `sok.CheckpointManager`, for a loop of one's own
    slots_anew         slots of rows that are to be those of other keys
    eager_run          the same of an eager program: its tables, and a tf.train.Checkpoint of the rest
    graph_rest         and the rest from a graph's, by variables' names
    saver_hook         `sok.CheckpointSaverHook`
    schedule           when to save
    told_to_end        where all ranks stop and save, when they are told to end
    stop_hook          the same for sessions that TensorFlow's hooks save

By way of TensorFlow's own Savers and hooks, and Keras:
    table_saver        `tf.train.Saver` for graphs with tables
    held               what a Saver holds
    unheld_tables      and what it does not, of what it restores
    imported_saver     Savers of imported graphs
    prefix_saving      a whole checkpoint to a Saver's prefix, and back
    one_rank           tables among other variables, on one rank
    ranks_paths        which paths ranks may give to their Savers: one, or each its own
    whose_shards       what a rank of several saved for itself, told from one rank's whole run
    values_if_any      variables of which a session may not have all yet
    caches             what TensorFlow alone cannot save: tables with a cache
    saver_listener     tables beside the checkpoints of TensorFlow's hook
    agreed_timer       its clock, the same on all ranks
    early_stopping     Estimators' early stopping, on all ranks after one step
    input_positions    how far each rank has read its data: what rank 0 must not save for all
    hooks_alike        whether all ranks are to save tables, asked before they begin
    talk               how the ranks' Savers talk
    keras_weights      `save_weights` and `load_weights`

By way of TensorFlow 2's `tf.train.Checkpoint`, eagerly:
    eager_checkpoints  saves, on as many ranks as there are
    eager_restoring    and back
    eager_places       where, and whose shards they are
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.checkpoint.errors import CheckpointError

__all__ = ["CheckpointError"]
__getattr__, __dir__ = lazy.exports(globals(), {"CheckpointError": "errors"})
