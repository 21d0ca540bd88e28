"""Errors that TensorFlow gives while it writes files of a checkpoint, as errors of ours."""
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
        # What follows the first line is where in the graph it was.
        words = tensorflow_versions.own_words(error).split("\n", 1)[0]
        raise errors.WriteError("Cannot write {}: {}".format(path, words)) from error
