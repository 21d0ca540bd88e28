"""Summaries of TensorFlow's hooks and Estimators: rank 0's alone, where all ranks have one folder."""
import functools
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x import launch


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


def only_on_rank_0() -> None:
    """From now on the writers that TensorFlow's hooks share write on rank 0 only; call it when the ranks have joined.

    Ranks of one host would give their files one name in one folder. A `tf.summary.FileWriter` of the user's own writes
    as ever.
    """
    world = launch.current()
    cache = tf.summary.FileWriterCache
    if world is not None and world.rank and not isinstance(cache.get, functools.partial):
        cache.get = functools.partial(_no_writer, {})  # type: ignore[method-assign, assignment]


def _no_writer(known: Any, logdir: str) -> Any:
    return known.setdefault(logdir, _NoWriter(logdir))
