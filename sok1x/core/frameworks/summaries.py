"""Summaries of TensorFlow's hooks and Estimators: rank 0's alone, where several ranks would have one folder."""
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.frameworks import wrapping
from sok1x.launch import launcher


class NoWriter:
    """Has a `tf.summary.FileWriter`'s methods, and writes nothing."""

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def __getattr__(self, name: str) -> Any:
        if not hasattr(tf.summary.FileWriter, name):
            raise AttributeError(name)
        return self._nothing

    def _nothing(self, *arguments: Any, **options: Any) -> None:
        pass


def watch() -> None:
    """From now on the writers that TensorFlow's hooks share write on rank 0 only.

    Ranks of one host would give their files one name in one folder, and write over each other. A
    `tf.summary.FileWriter` of the user's own writes as ever.
    """
    wrapping.wrap(tf.summary.FileWriterCache, "get", _get)


def no_writer(logdir: str) -> NoWriter:
    """What a rank other than 0 has in place of a writer.

    Args:
        logdir: where that would write.

    Example:
        >>> import tempfile
        >>> from sok1x.core.frameworks import summaries
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summaries.no_writer(folder).flush()
    """
    _make(logdir)
    tf.logging.info("Rank %d writes no summaries to %s: rank 0 does.", rank(), logdir)
    return NoWriter(logdir)


def rank() -> int:
    """This rank; before the ranks have joined, as hooks begin, what the launcher says.

    Example:
        >>> from sok1x.core.frameworks import summaries
        >>> summaries.rank()
        0
    """
    world = launch.current()
    if world is not None:
        return int(world.rank)
    try:
        found = launcher.detect()
    except launch.LaunchError:  # told when the ranks join
        return 0
    return 0 if found is None else int(found.rank)


def _get(stock: Callable[[str], Any]) -> Callable[[str], Any]:
    known: Dict[str, NoWriter] = {}

    def get(logdir: str) -> Any:
        if not rank():
            return stock(logdir)
        if logdir not in known:
            known[logdir] = no_writer(logdir)
        return known[logdir]

    return get


def _make(logdir: str) -> None:
    """As a writer does: what else a hook writes, as `tf.train.ProfilerHook`'s timelines, goes to this folder, too."""
    try:
        tf.io.gfile.makedirs(logdir)
    except tf.errors.OpError:  # said where something is to be written there
        pass
