"""What can be wrong with a checkpoint: one base class, and a class for each thing that a program may want to tell."""
import errno
import os
from typing import Optional

_ENTRY = 4096  # what a new name in a folder takes at most


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, found or read; the message names the file, and the table where there is one.

    Args:
        message: what the user reads.

    Example:
        >>> from sok1x.checkpoint import CheckpointError
        >>> from sok1x.checkpoint.files import folders
        >>> try:
        ...     _ = folders.find("/nowhere")
        ... except CheckpointError as error:
        ...     print(error)
        There is no folder /nowhere.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class DamagedError(CheckpointError):
    """A file is not what was written: flipped bytes, cut short, missing, of another save, or made up."""


class FormatVersionError(CheckpointError):
    """A file is of a format that this sok1x does not know."""


class MismatchError(CheckpointError):
    """A sound checkpoint does not fit the model: another D, dtype or key type, or too few rows."""


class NotFoundError(CheckpointError):
    """There is no checkpoint where one was looked for, or no such table in it."""


class LockedError(CheckpointError):
    """Another job saves to this folder."""


class WriteError(CheckpointError):
    """The system refused to write."""


class NoSpaceError(WriteError):
    """No space is left to write to.

    Attributes:
        path: the file that was being written.
        wanted: bytes that the file needs in all.
        free: bytes that the file system had left when the error was met, or None where it does not say.
        advice: what else to do than to free some space, as 'keep fewer checkpoints'; or ''.
    """

    def __init__(self, path: str, wanted: int, free: Optional[int], advice: str = "") -> None:
        self.path, self.wanted, self.free, self.advice = path, wanted, free, advice
        super().__init__(
            "No space left to write {}: it needs {} bytes, and {} bytes are free{}. Free some space, {}or write to "
            "another file system.".format(
                path, wanted, "an unknown number of" if free is None else free,
                "" if free is None or free <= max(wanted, _ENTRY) else
                ": a quota is used up, or the number of files (inodes; df -i shows it)", advice and advice + ", "))

    def __reduce__(self) -> tuple:
        return NoSpaceError, (self.path, self.wanted, self.free, self.advice)


def of_write(error: OSError, path: str, wanted: int = _ENTRY) -> WriteError:
    """The error of ours for one that the system gave while `path`, of `wanted` bytes in all, was being written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(path, wanted, _free_bytes(os.path.dirname(path) or "."))
    return WriteError("Cannot write {}: {}.".format(path, error.strerror or error))


def of_read(error: OSError, path: str, what: str) -> CheckpointError:
    """The error of ours for one that the system gave while `path` was opened or read; `what` says what it holds."""
    if error.errno == errno.ENOENT:
        return DamagedError("{} is missing: {}.".format(path, what))
    if error.errno == errno.ELOOP:
        return DamagedError("{} is a symbolic link, which is not followed: {}.".format(path, what))
    return CheckpointError("Cannot read {} ({}): {}.".format(path, what, error.strerror or error))


def _free_bytes(folder: str) -> Optional[int]:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize
