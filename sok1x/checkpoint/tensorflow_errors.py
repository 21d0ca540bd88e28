"""Errors that TensorFlow gives while it writes or reads files of a checkpoint, as errors of ours."""
import contextlib
import errno
import os
from typing import Iterator

import tensorflow.compat.v1 as tf

from sok1x.checkpoint import errors
from sok1x.graph_ops.bridge import tensorflow_versions

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def refusals(path: str, wanted: int) -> Iterator[None]:
    """Inside, TensorFlow writes `path`, of about `wanted` bytes. Raises WriteError, NoSpaceError where none is left."""
    try:
        yield
    except tf.errors.OpError as error:
        # RESOURCE_EXHAUSTED alone may also mean memory, or files that are open.
        for code in _NO_SPACE:
            if os.strerror(code) in error.message:
                raise errors.of_write(OSError(code, os.strerror(code)), path, wanted) from error
        raise errors.WriteError("Cannot write {}: {}".format(path, _words(error))) from error


@contextlib.contextmanager
def damages(path: str) -> Iterator[None]:
    """Inside, TensorFlow reads `path`, which it has written. Raises DamagedError, or CheckpointError where the system
    refuses."""
    try:
        yield
    except (tf.errors.PermissionDeniedError, tf.errors.ResourceExhaustedError) as error:
        raise errors.CheckpointError("Cannot read {}: {}".format(path, _words(error))) from error
    except (tf.errors.OpError, IndexError, ValueError) as error:  # these of Python from 2.x's reader
        raise errors.DamagedError("Cannot read {}: {}".format(path, _words(error))) from error


def _words(error: Exception) -> str:
    """What follows the first line is where in the graph it was."""
    return tensorflow_versions.own_words(error).split("\n", 1)[0]
