"""TensorFlow's files of variables ("tensor bundles"), written and read a stretch at a time.

A tensor is saved as slices of its first dimension, of which a Saver restores the whole; so no tensor has to be in
memory as one, nor does the limit of 2 GB of protobuf's messages matter. Slices become files of about `PART_BYTES`.
"""
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint import tensorflow_errors
from sok1x.core.tables import own_sessions

PART_BYTES = 64 << 20


class BundleWriter:
    """Writes the files of one prefix.

    Memory: a part, PART_BYTES, and what is being added to it, twice.

    Args:
        folder: an empty one for files that are not complete yet, on the disk of `prefix`.
        prefix: of the files.
    """

    def __init__(self, folder: str, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._waiting: List[Tuple[str, str, np.ndarray]] = []
        self._bytes = 0
        self._parts: List[str] = []

    def add(self, name: str, values: Any, shape: Optional[Sequence[int]] = None, first: int = 0) -> None:
        """A tensor, or its rows from `first` on, if `shape`, that of all of it, is given.

        Raises:
            WriteError: the system refuses.
        """
        values = np.asarray(values)
        spec = ""
        if shape is not None and (first or len(values) != shape[0]):
            if not len(values):
                return
            spec = "{} {},{}{}".format(" ".join(map(str, shape)), first, len(values), ":-" * (len(shape) - 1))
        self._waiting.append((name, spec, values))
        self._bytes += values.nbytes
        if self._bytes >= PART_BYTES:
            self._flush()

    def finish(self) -> None:
        """Gives the files their names. Raises WriteError."""
        if self._waiting or not self._parts:
            self._flush()
        self._run(lambda: tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=self._parts, destination_prefix=self._prefix, delete_old_dirs=False), {})

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._parts.append(os.path.join(self._folder, "part-{}".format(len(self._parts))))
        feeds: Dict[Any, np.ndarray] = {}

        def save() -> Any:
            fed = []
            for _, _, values in waiting:
                fed.append(tf.placeholder(tf.as_dtype(values.dtype), values.shape))
                feeds[fed[-1]] = values
            return tf.raw_ops.SaveV2(prefix=self._parts[-1], tensor_names=[name for name, _, _ in waiting],
                                     shape_and_slices=[spec for _, spec, _ in waiting], tensors=fed)

        self._run(save, feeds)

    def _run(self, make: Any, feeds: Dict[Any, np.ndarray]) -> None:
        """Runs an op in a graph and session of its own, on the CPU alone: a GPU may be in use."""
        with tf.Graph().as_default():
            op = make()
            with _session() as session:
                with tensorflow_errors.refusals(self._prefix, sum(value.nbytes for value in feeds.values())):
                    session.run(op, feeds)


def read_slice(prefix: str, name: str, shape: Sequence[int], first: int, count: int, dtype: Any) -> np.ndarray:
    """Rows `first` to `first + count` - 1 of a tensor of that whole shape.

    Raises:
        DamagedError: it is not there, or not what was written.
    """
    spec = "{} {},{}{}".format(" ".join(map(str, shape)), first, count, ":-" * (len(shape) - 1))
    with tf.Graph().as_default():
        read, = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[name], shape_and_slices=[spec],
                                     dtypes=[tf.as_dtype(dtype)])
        with _session() as session, tensorflow_errors.damages(prefix):
            return session.run(read)


def _session() -> tf.Session:
    return tf.Session(config=own_sessions.config())
