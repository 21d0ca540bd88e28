"""`tf.train.Checkpoint` and its manager in eager programs with tables: on several ranks each rank saves its own.

Where all ranks name one prefix, they save and restore together (eager_places.py says where). Rank 0's comes when the
others' are there, and says which save they were: so a prefix leads to what all ranks have saved, or to the save before.
Where every rank names a prefix of its own, each has a checkpoint there. A whole checkpoint of that name is replaced
(prefixes.py): else it would be what is restored.

All else is TensorFlow's: which object gets which value, and that one which is made later gets its own then. It has no
place to hear of checkpoints, so `watch`, called when ranks join and with every table, puts methods in place of its own.
"""
import contextlib
import copy
import inspect
import os
from typing import Any, Callable, Dict, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.eager import eager_places, eager_restoring
from sok1x.checkpoint.eager.eager_places import Mark
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, prefixes, urls
from sok1x.checkpoint.savers import one_rank
from sok1x.checkpoint.session.tables import let_leave
from sok1x.checkpoint.session.talk import talk
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import placement_notes, wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import (
    checkpoint_management,
    checkpoint_objects,
    checkpoint_restore,
)

_marking = ThreadScope()  # its value is the Mark that says whose it is that this thread saves
_following = ThreadScope()  # inside, on a rank besides 0, managers write and remove no file


def watch() -> None:
    """From now on `tf.train.Checkpoint`, where it runs eagerly, saves and restores tables on several ranks.

    Example:
        >>> from sok1x.checkpoint.eager import eager_checkpoints
        >>> eager_checkpoints.watch()  # nothing, in TensorFlow 1.15
    """
    if checkpoint_objects is None:
        return
    for owner, name, replaced in (
            (checkpoint_objects.TrackableSaver, "_gather_serialized_tensors", _marked),
            (checkpoint_objects.TrackableSaver, "restore", eager_restoring.restored),
            (checkpoint_restore.CheckpointPosition, "restore", eager_restoring.restored_later),
            (checkpoint_restore.CheckpointPosition, "gather_ops_or_named_saveables", eager_restoring.gathered),
            (checkpoint_objects._CheckpointRestoreCoordinator, "__init__", eager_restoring.begun),
            (checkpoint_objects._NameBasedRestoreCoordinator, "__init__", eager_restoring.begun),
            (checkpoint_objects.Checkpoint, "restore", eager_restoring.restored_counting),
            (checkpoint_objects.CheckpointV1, "restore", eager_restoring.restored_counting),
            (checkpoint_objects.Checkpoint, "_write", _written),
            (checkpoint_objects.Checkpoint, "_async_checkpointer", _synchronous),
            (checkpoint_objects.CheckpointV1, "_write", _written),
            (checkpoint_management.CheckpointManager, "_sweep", _swept),
            (checkpoint_management.CheckpointManager, "_record_state", _recorded)):
        wrapping.wrap(owner, name, replaced)


def _marked(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what TensorFlow gathers to save."""
    def gather(self: Any, *args: Any, **kwargs: Any) -> Any:
        gathered = stock(self, *args, **kwargs)
        mark: Optional[Mark] = _marking.value
        if mark is not None:
            with tf.device("/cpu:0"):
                gathered[0].setdefault(None, {}).update({
                    one_rank.MARK: tf.constant([mark.rank, mark.ranks], tf.int64),
                    one_rank.TOKEN: tf.constant(mark.token),
                    placement_notes.NAME: tf.constant(placement_notes.text_of(_rows_in(gathered[0])))})
        elif eager_places.here()[1] > 1 and eager_places.shards(self):
            raise CheckpointError(
                "On several ranks tables are saved by the methods of tf.train.Checkpoint itself, or of a "
                "tf.train.CheckpointManager; " + eager_places.ANY_NUMBER)
        return gathered
    return gather


def _rows_in(serialized: Any) -> Dict[str, EmbeddingVariable]:
    """Tables, by what their rows are called in a checkpoint, of what TensorFlow has gathered."""
    return {name: one for one, values in serialized.items() if isinstance(one, EmbeddingVariable) for name in values}


def _written(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of Checkpoint._write, by which all of them are saved."""
    signature = inspect.signature(stock)

    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        ours = [] if _marking.value is not None else eager_places.shards(self._saver)
        if not ours:
            return stock(self, *args, **kwargs)
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        path, options = os.fsdecode(given.arguments["file_prefix"]), given.arguments["options"]
        # Of an asynchronous save this is but the beginning: the thread that writes comes here, too.
        later = getattr(options, "experimental_enable_async_checkpoint", False)
        rank, ranks = eager_places.here()

        def save(prefix: str, mark: Mark, options: Any) -> Any:
            let_leave(eager.session(), [one for one in ours if isinstance(one, EmbeddingVariable)])
            with _marking.entered(mark), contextlib.nullcontext() if later else prefixes.replaced(prefix):
                return stock(**dict(given.arguments, file_prefix=prefix, options=options))
        if ranks == 1:
            saved = save(path, Mark(0, 1, ""), options)
            if not later:
                eager_places.remove_others(path, "")
            return saved
        with talk().about("a tf.train.Checkpoint saves tables"):
            told = talk().exchange(None, [urls.absolute(path), folders.new_token()])
        paths, mark = [one for one, _ in told], Mark(rank, ranks, told[0][1])
        with talk().about("a tf.train.Checkpoint saves tables to {}".format(paths[0])):
            if len(set(paths)) == 1:
                return _save_together(save, path, mark, options)
            eager_places.expect_own(paths)
            return talk().agree(None, lambda: save(path, mark, options))[rank]
    return write


def _save_together(save: Callable[..., Any], path: str, mark: Mark, options: Any) -> Any:
    """All ranks' to one prefix; then, on all, what is called back when a checkpoint is there."""
    urls.expect_local(path)
    callbacks = getattr(options, "experimental_write_callbacks", None) or []
    own = eager_places.of_rank(path, mark)

    def others() -> None:
        if mark.rank:
            plain = copy.copy(options)
            if callbacks:
                plain.experimental_write_callbacks = None
            save(own, mark, plain)

    def first() -> None:
        if mark.rank == 0:
            _expect_seen(path, mark)
            save(path, mark, options)
            eager_places.remove_others(path, mark.token)

    try:
        talk().agree(None, others)
        talk().agree(None, first)
    except BaseException:
        if mark.rank:
            first_one = eager_places.place(path)
            is_known = first_one.error is None or not eager_places.is_there(path)  # else it may be of this save
            if is_known and first_one.mark != [0, mark.ranks, mark.token]:
                eager_places.remove(own)
        raise
    if mark.rank:
        with _following.entered():
            checkpoint_objects._execute_callbacks(callbacks, path)
    return path


def _expect_seen(path: str, mark: Mark) -> None:
    for other in range(1, mark.ranks):
        if not eager_places.is_there(eager_places.of_rank(path, mark._replace(rank=other))):
            raise CheckpointError((
                "{} has written its shards to {}.ranks, and {} does not see them: the folder must be on a file system "
                "that all ranks share").format(launch.starting(other), path, launch.named(0)))


def _swept(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a manager that deletes checkpoints: rank 0's does, for all."""
    def sweep(self: Any) -> None:
        if _following.value:
            while self._max_to_keep and len(self._maybe_delete) > self._max_to_keep:
                self._maybe_delete.popitem(last=False)
            return
        before = self.checkpoints
        stock(self)
        for prefix in before:
            if not eager_places.is_there(prefix):
                eager_places.remove_others(prefix, "")
    return sweep


def _recorded(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a manager that writes which checkpoints there are: rank 0's does, for all."""
    def record(self: Any) -> None:
        if not _following.value:
            stock(self)
    return record


def _synchronous(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what saves in a thread of its own."""
    def checkpointer(self: Any) -> Any:
        if eager_places.here()[1] > 1 and eager_places.shards(self._saver):
            raise CheckpointError(
                "tf.train.Checkpoint: got experimental_enable_async_checkpoint=True, expected False: on several ranks "
                "tables are saved by all ranks together, while none trains")
        return stock(self)
    return checkpointer
