"""Paths that are URLs, as TensorFlow has them: of files in file systems that are mounted, and in others.

Our own files are in mounted ones alone.
"""
import os
import re

from sok1x.checkpoint.errors import CheckpointError

_FILE = "file://"
_URL = re.compile(r"[a-zA-Z][0-9a-zA-Z.]*://")  # as TensorFlow tells them
MOUNT = "sok1x writes and reads tables by way of mounted file systems alone: mount that one, and give its path"


def local(path: str) -> str:
    """A path without 'file://' before it; any other as it is."""
    return path[len(_FILE):] if path.startswith(_FILE + "/") else path


def is_remote(path: str) -> bool:
    """Whether it is in a file system that need not be mounted, as 'hdfs://...'."""
    return _URL.match(local(path)) is not None


def absolute(path: str) -> str:
    """As `os.path.abspath`; a URL of another file system stays as it is."""
    return path if is_remote(path) else os.path.abspath(local(path))


def folder(who: str, path: str) -> str:
    """A folder's path, of a file:// URL too. Raises ValueError for other URLs; `who` is the function and argument."""
    if is_remote(path):
        raise ValueError("{}: got {!r}, expected a folder's path and no URL: {}".format(who, path, MOUNT))
    return local(path)


def expect_local(path: str) -> None:
    """Raises CheckpointError where tables would go to a file system that need not be mounted."""
    if is_remote(path):
        raise CheckpointError("Cannot save tables to {}, a URL: {}.".format(path, MOUNT))
