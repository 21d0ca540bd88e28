"""Where the checkpoints lie that `tf.train.Checkpoint` writes of tables, and whose shards they have.

Where all ranks name one prefix, rank 0's is TensorFlow's own checkpoint; every other rank's lies beside it:

    PREFIX.index, .data-*                         rank 0's
    PREFIX.ranks/1-of-2.<token>.index, .data-*    rank 1's; a token is drawn for each save

Each has all of its rank's objects, says whose it is (one_rank.MARK), on several ranks of which save (its TOKEN), and
how the rows of each table were dealt out (core/frameworks/placement_notes.py).
"""
import contextlib
import glob
import os
import shutil
from typing import Any, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import urls
from sok1x.checkpoint.savers import one_rank
from sok1x.core.tables import shard_variable
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import checkpoint_objects

ANY_NUMBER = ("checkpoints for any number of ranks are those of sok.CheckpointManager(folder, "
              "checkpoint=tf.train.Checkpoint(...))")


class Mark(NamedTuple):
    """Whose shards a checkpoint has, and of which save; on one rank the token is empty."""

    rank: int
    ranks: int
    token: str


class Place(NamedTuple):
    """What a path leads to.

    Attributes:
        prefix: the path, absolute; or a URL of another file system than the mounted ones.
        mark: a `Mark`'s values; None where nobody's shards are there.
        has_tables: whether there are values for shards; without a mark they are those of one rank.
        error: what was raised where nothing can be read.
    """

    prefix: str
    mark: Optional[List[Any]] = None
    has_tables: bool = False
    error: Optional[Exception] = None


def here() -> Tuple[int, int]:
    """This rank, and how many there are."""
    world = launch.current()
    return (0, 1) if world is None else (int(world.rank), int(world.size))


def shards(saver: Any) -> List[Any]:
    """Those among the objects of a TrackableSaver; none in a graph, or where somebody else saves them."""
    if not tf.executing_eagerly() or shard_variable.are_left_out():
        return []
    return [one for one in checkpoint_objects.util.list_objects(saver._graph_view) if isinstance(one, ShardVariable)]


def of_rank(path: str, mark: Mark) -> str:
    """The prefix of one rank's checkpoint, where all ranks name `path`."""
    return path if mark.rank == 0 else os.path.join(_folder_of_others(path), "{}-of-{}.{}".format(*mark))


def is_there(path: str) -> bool:
    """Whether TensorFlow has a checkpoint of this prefix: the index is its last file to come, and its first to go."""
    return os.path.exists(_beside(path, ".index"))


def index_of(path: str) -> Any:
    """What tells the index's file of this prefix from one that has been written since; None where there is none."""
    try:
        found = os.stat(_beside(path, ".index"))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def remove(prefix: str) -> None:
    """Removes what a save has written, or begun to, as far as that is possible."""
    for path in glob.glob(glob.escape(prefix) + ".*") + [prefix + "_temp"]:  # TensorFlow's folder while it writes
        _remove_entry(path)


def remove_others(path: str, token: str) -> None:
    """Removes what other ranks have beside a prefix, but for one save's; an empty token: everything.

    Each entry by itself: of what dead saves have left the names need not be a checkpoint's files'.
    """
    folder = _folder_of_others(path)
    if not token:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for name in os.listdir(folder):
        if "." + token + "." not in name:
            _remove_entry(os.path.join(folder, name))


def _folder_of_others(path: str) -> str:
    return _beside(path, ".ranks")


def _beside(path: str, ending: str) -> str:
    """A prefix with an ending, as TensorFlow takes such a path: by its words, whatever a `..` in it leads back from."""
    return os.path.normpath(urls.local(path) + ending)


def _remove_entry(path: str) -> None:
    """A file, or a folder with all that is in it; what cannot be removed belongs to no save, and does no harm."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        os.remove(path)


def place(path: str, saver: Any = None) -> Place:
    """Looks; raises nothing, for the other ranks must hear of it. Without a saver it is not known what has no mark."""
    found = Place(urls.absolute(path))
    try:
        reader = tf.train.NewCheckpointReader(path)
        mark = one_rank.mark_in(reader)
        if mark is None:
            return found._replace(has_tables=saver is not None and _has_tables(path, reader, saver))
        return found._replace(has_tables=True, mark=list(mark))
    except Exception as error:  # whatever it is, the other ranks must hear of it
        return found._replace(error=error)


def _has_tables(path: str, reader: Any, saver: Any) -> bool:
    """Whether a checkpoint that does not say whose it is has values for shards."""
    ours = shards(saver)
    if not ours:
        return False
    if not reader.has_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"):  # of a tf.train.Saver: by names
        return any(reader.has_tensor(one.op.name) for one in ours)
    matched = tf.compat.v2.train.CheckpointView(path).match(saver._graph_view.root)
    return any(isinstance(one, ShardVariable) for one in matched.values())


def expect_own(paths: List[str]) -> None:
    """Raises MismatchError where ranks that do not name one path do not each name their own."""
    if len(set(paths)) < len(paths):
        raise MismatchError("Some ranks name one path, and some do not: {}. Give all ranks the same path, or each its "
                            "own.".format(by_rank(paths)))


def by_rank(values: List[str]) -> str:
    """As a user reads it."""
    return ", ".join("{}: {}".format(launch.named(rank), value) for rank, value in enumerate(values))
