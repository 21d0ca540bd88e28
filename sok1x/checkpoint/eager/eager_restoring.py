"""What `tf.train.Checkpoint` has saved of tables, back on as many ranks: see eager_checkpoints.py."""
import contextlib
import os
import weakref
from typing import Any, Callable, Container, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.eager import eager_places, eager_rows
from sok1x.checkpoint.eager.eager_places import Mark, Place
from sok1x.checkpoint.errors import CheckpointError, DamagedError, MismatchError
from sok1x.checkpoint.files import prefixes
from sok1x.checkpoint.session.restoring import REPLACED
from sok1x.checkpoint.session.talk import talk
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import placement_notes
from sok1x.core.tables import shard_variable
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge import joined
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_objects

_GONE = ("{} is gone since it was restored, so that what is made now has no value there. Make it before the restore, "
         "or keep the checkpoint: a manager removes all but max_to_keep, and a save of that name replaces it.")
_loading = ThreadScope()  # inside, all that there is is restored
_begun = ThreadScope()  # its value is the set of TensorFlow's objects of the restores that have begun inside
_counting = ThreadScope()  # its value is the tf.train.Checkpoint whose `restore` restores its save_counter, too


def restored(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of TrackableSaver.restore, by which every `tf.train.Checkpoint` is restored."""
    def restore(self: Any, save_path: Any, options: Any = None) -> Any:
        if save_path is None or not tf.executing_eagerly() or shard_variable.are_left_out():
            return stock(self, save_path, options)
        path, ours = os.fsdecode(save_path), eager_places.shards(self)
        place = _place_of(path, self) if ours else eager_places.place(path, self)
        rank, ranks = eager_places.here()
        if place.error is not None and (ranks == 1 or not ours):
            raise place.error  # a second look might find tables, and no other rank would hear of it
        if place.error is None and not place.has_tables:
            return stock(self, save_path, options)
        joined.world()
        if ranks == 1:
            _prefix_of([place], path)
            with _forgotten_if_failed(self._graph_view):
                return _load_one(stock, self, path, options, place.mark)
        with talk().about("a tf.train.Checkpoint restores tables"):
            places = [Place(*told) for told in talk().agree(None, lambda: _found(place))]
        status: List[Any] = []
        with talk().about("a tf.train.Checkpoint restores tables from {}".format(places[0].prefix)):
            prefix, mark = _prefix_of(places, path)
            talk().agree(None, lambda: _expect_there(path, place, prefix, mark))
            with _forgotten_if_failed(self._graph_view):
                talk().agree(None, lambda: status.append(_load_one(stock, self, prefix, options, mark)))
        return status[0]
    return restore


def restored_counting(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of Checkpoint.restore, which makes the save_counter when all else is restored, and reads it then."""
    def restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _counting.entered(self):
            return stock(self, *args, **kwargs)
    return restore


def _place_of(path: str, saver: Any) -> Place:
    """As `eager_places.place`, which raises nothing; a whole checkpoint, where TensorFlow finds no tables, is an error.
    """
    place = eager_places.place(path, saver)
    try:
        if prefixes.folder_of(path) is None:
            return place
        raise MismatchError((
            "{} is of sok.CheckpointManager, or of a tf.train.Saver on several ranks, where tf.train.Checkpoint finds "
            "no tables. Restore it with sok.CheckpointManager").format(path))
    except Exception as error:  # whatever it is, the other ranks must hear of it
        return place._replace(error=error)


def _found(place: Place) -> List[Any]:
    """What is told of it to the other ranks, if it can be read."""
    if place.error is not None:
        raise place.error
    return list(place)


def begun(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of __init__ of what TensorFlow has of one restore, from which what is made later gets its values."""
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        if _begun.value is not None:
            _begun.value.add(self)
    return init


def restored_later(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of CheckpointPosition.restore, which TensorFlow calls for all that a `tf.train.Checkpoint` gets after it
    was restored: a table, or what has some."""
    def restore(self: Any, trackable: Any, *args: Any, **kwargs: Any) -> Any:
        if _loading.value or shard_variable.are_left_out():
            return stock(self, trackable, *args, **kwargs)
        save: Optional[_Save] = _saves.get(self.checkpoint)
        with contextlib.nullcontext() if save is None else _read_later(self, save):
            if not tf.executing_eagerly():
                return stock(self, trackable, *args, **kwargs)
            with eager_rows.noted(one for one in _tables_of(trackable) if one._update_uid < self.restore_uid):
                return stock(self, trackable, *args, **kwargs)
    return restore


def gathered(stock: Callable[..., Any]) -> Callable[..., Any]:
    """In place of CheckpointPosition.gather_ops_or_named_saveables, asked of each object that has values to read."""
    def gather(self: Any) -> Any:
        if isinstance(self.trackable, EmbeddingVariable) and tf.executing_eagerly() and eager_places.here()[1] > 1:
            _expect_dealt_out(self, self.trackable)
        return stock(self)
    return gather


def _expect_dealt_out(position: Any, table: EmbeddingVariable) -> None:
    """Raises MismatchError where a table's rows, for which a CheckpointPosition stands, were dealt out otherwise."""
    restore = position.checkpoint
    prefix = restore.save_path_string
    if restore not in _notes:
        _notes[restore] = placement_notes.in_checkpoint(tf.train.NewCheckpointReader(prefix))
    for one in position.object_proto.attributes:
        placement_notes.expect(table, _notes[restore].get(one.checkpoint_key), prefix, MismatchError)


@contextlib.contextmanager
def _read_later(position: Any, save: "_Save") -> Iterator[None]:
    """Inside, TensorFlow reads values of what has been made after a restore."""
    try:
        with _of_one_save(*save, lambda: _has_values(position)):
            yield
    except Exception as error:
        if isinstance(error, CheckpointError) or not eager_places.is_there(save.prefix):
            _failed.add(position.checkpoint)
        raise


@contextlib.contextmanager
def _forgotten_if_failed(view: Any) -> Iterator[None]:
    """Inside, something is restored; where that fails, what is made later reads nothing of it."""
    mine: Any = weakref.WeakSet()  # what other threads restore meanwhile may not have failed
    try:
        with _begun.entered(mine):
            yield
    except Exception:
        _forget(view, mine)
        raise


def _forget(view: Any, failed: Container[Any]) -> None:
    """What is made later reads nothing of restores that have failed: their files may be gone."""
    for one in _objects_of(view):
        # Of optimizers but for Keras' new ones; a LossScaleOptimizer stands for its inner one.
        by_slot = getattr(getattr(one, "_trackable", one), "_deferred_slot_restorations", {})
        for waiting in [one._deferred_dependencies] + list(by_slot.values()):
            for name in list(waiting):
                waiting[name] = [position for position in waiting[name] if position.checkpoint not in failed]
        by_name = one._name_based_restores
        by_name.difference_update([restore for restore in by_name if restore in failed])


def _has_values(position: Any) -> bool:
    """Whether TensorFlow has found a value for the object of a CheckpointPosition, or for one that this has."""
    checkpoint, waiting = position.checkpoint, [position._proto_id]
    seen: Set[int] = set()
    while waiting:
        number = waiting.pop()
        if number not in seen and number in checkpoint.object_by_proto_id:
            seen.add(number)
            node = checkpoint.object_graph_proto.nodes[number]
            if node.attributes:
                return True
            waiting.extend(child.node_id for child in node.children)
    return False


def _tables_of(trackable: Any) -> List[EmbeddingVariable]:
    objects = _objects_of(checkpoint_objects.graph_view_lib.ObjectGraphView(trackable))
    return [one for one in objects if isinstance(one, EmbeddingVariable)]


def _objects_of(view: Any) -> List[Any]:
    try:
        return list(checkpoint_objects.util.list_objects(view))
    except ValueError:  # there is something that could not be saved, and may be restored
        return []


class _Save(NamedTuple):
    """What a rank restores from: a prefix, the mark that is there, and the file of the index that has been seen with it
    (`eager_places.index_of`), or None."""

    prefix: str
    mark: Optional[List[Any]]
    index: Any


# {TensorFlow's of a restore: _Save}, for what is made later is read later; and those that have failed then.
_saves: Any = weakref.WeakKeyDictionary()
_failed: Any = weakref.WeakSet()
_notes: Any = weakref.WeakKeyDictionary()  # {TensorFlow's of a restore: how rows were dealt out there}


def _load_one(stock: Callable[..., Any], saver: Any, prefix: str, options: Any, mark: Optional[List[Any]]) -> Any:
    """Loads all of one save. Raises CheckpointError where it may be of two."""
    if _failed:
        _forget(saver._graph_view, _failed)
    index = eager_places.index_of(prefix)
    with _of_one_save(prefix, mark):
        if _counting.value is not None and _counting.value._saver is saver:
            _counting.value._maybe_create_save_counter()  # so that it is read with all else
        status = _load(stock, saver, prefix, options)
    if mark is not None:
        _saves[status._checkpoint] = _Save(prefix, mark, index)
    return status


@contextlib.contextmanager
def _of_one_save(prefix: str, mark: Optional[List[Any]], index: Any = None,
                 has_read: Optional[Callable[[], bool]] = None) -> Iterator[None]:
    """Inside, TensorFlow reads a checkpoint; another job may put its own in its place, or remove it, at any time.

    Args:
        prefix, mark, index: as in a `_Save`. Where that file is still there nobody looks for the mark.
        has_read: of what is made after the restore: whether it has, asked where there is another file: it may have had
            nothing to read.

    Raises:
        CheckpointError: another job has, and what has been read may be of both saves.
        tf.errors.NotFoundError: as TensorFlow has it: what is made after the restore has nothing left to read.
    """
    try:
        yield
    except Exception as error:  # TensorFlow's too
        if eager_places.place(prefix).mark == mark:
            raise
        if has_read is not None and not eager_places.is_there(prefix):  # it was restored whole: this job may remove it
            raise tf.errors.NotFoundError(None, None, _GONE.format(prefix)) from error
        raise CheckpointError(REPLACED.format(prefix)) from error
    if index is not None and eager_places.index_of(prefix) == index or has_read is not None and not has_read():
        return
    now = eager_places.place(prefix)
    if now.mark != mark and (now.mark is not None or eager_places.is_there(prefix)):  # one that is gone was read whole
        raise CheckpointError(REPLACED.format(prefix))


def _load(stock: Callable[..., Any], saver: Any, prefix: str, options: Any) -> Any:
    tables = [one for one in eager_places.shards(saver) if isinstance(one, EmbeddingVariable)]
    with _loading.entered(), eager_rows.noted(tables):
        return stock(saver, prefix, options)


def _prefix_of(places: List[Place], path: str) -> Tuple[str, Optional[List[Any]]]:
    """This rank's checkpoint, of what all ranks name, and its mark; it calls that `path`, as when it has saved there.

    Raises:
        MismatchError: that does not fit.
        CheckpointError: ranks have looked before and after another job has replaced it.
    """
    rank, ranks = eager_places.here()
    paths = [place.prefix for place in places]
    together = len(set(paths)) == 1
    if not together:
        eager_places.expect_own(paths)
    for other, place in enumerate(places):
        mark = None if place.mark is None else Mark(*place.mark)
        if ranks > 1 and (mark is None or mark.ranks == 1):
            raise MismatchError((
                "{} has tables that one rank has saved, and this job has {} ranks; nothing has changed. "
                "tf.train.Checkpoint restores tables on as many ranks as have saved them: restore it on one rank, and "
                "save again there; {}").format(place.prefix, ranks, eager_places.ANY_NUMBER))
        if mark is not None and mark.ranks != ranks:
            raise MismatchError((
                "{} has tables that {} ranks have saved, each its own rows, and this job has {}; nothing has changed. "
                "tf.train.Checkpoint restores tables on as many ranks as have saved them: restore it on {}, and save "
                "again there; {}").format(
                    place.prefix, mark.ranks, ranks, mark.ranks, eager_places.ANY_NUMBER))
        if mark is not None and mark.rank != (0 if together else other):
            raise MismatchError((
                "{} has the shards of rank {} of {}, and {} restores it; nothing has changed. Give all ranks one path, "
                "or each the one that it has saved to").format(place.prefix, mark.rank, ranks, launch.named(other)))
    if len({str(place.mark and place.mark[2]) for place in places}) > 1:
        if together:
            raise CheckpointError(REPLACED.format(path))
        raise MismatchError("The ranks restore different checkpoints: {}.".format(eager_places.by_rank(paths)))
    found = places[rank].mark
    if found is None or not together:
        return path, found
    own = Mark(rank, *found[1:])
    return eager_places.of_rank(path, own), list(own)


def _expect_there(path: str, before: Place, prefix: str, mark: Optional[List[Any]]) -> None:
    """Raises CheckpointError where this rank's checkpoint is not of the save that there was `before` under `path`."""
    if eager_places.place(path).mark != before.mark:
        raise CheckpointError(REPLACED.format(path))
    place = eager_places.place(prefix)
    if place.mark != mark:
        raise DamagedError("{}, which has the shards of {}, is missing or damaged{}".format(
            prefix, launch.named(eager_places.here()[0]), "" if place.error is None else ": {}".format(place.error)))
