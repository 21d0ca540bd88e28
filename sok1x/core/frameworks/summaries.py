"""Summaries of TensorFlow's hooks and Estimators: rank 0's alone, where several ranks would have one folder."""
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.frameworks import wrapping
from sok1x.launch import launcher


class _NoWriter:
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


def _get(stock: Callable[[str], Any]) -> Callable[[str], Any]:
    without: Dict[str, _NoWriter] = {}

    def get(logdir: str) -> Any:
        rank = _rank()
        if not rank:
            return stock(logdir)
        if logdir not in without:
            without[logdir] = _NoWriter(logdir)
            _make(logdir)
            tf.logging.info("Rank %d writes no summaries to %s: rank 0 does.", rank, logdir)
        return without[logdir]

    return get


def _make(logdir: str) -> None:
    """As a writer does: what else a hook writes, as `tf.train.ProfilerHook`'s timelines, goes to this folder, too."""
    try:
        tf.io.gfile.makedirs(logdir)
    except tf.errors.OpError:  # said where something is to be written there
        pass


def _rank() -> int:
    """This rank; before the ranks have joined, as hooks begin, what the launcher says."""
    world = launch.current()
    if world is not None:
        return int(world.rank)
    try:
        found = launcher.detect()
    except launch.LaunchError:  # told when the ranks join
        return 0
    return 0 if found is None else int(found.rank)
