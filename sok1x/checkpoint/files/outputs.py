"""Files that are written beside their place and renamed into it, so that nothing half-written is there."""
import contextlib
import os
import secrets
import shutil
from typing import Any, BinaryIO, Iterator

from sok1x.checkpoint import errors


@contextlib.contextmanager
def beside(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends, and vanishes when it fails.

    Raises:
        WriteError: The system refuses.
    """
    folder, name = os.path.split(path)
    partial = os.path.join(folder, ".{}.{}.tmp".format(name, secrets.token_hex(4)))
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise errors.of_write(error, path, _length(partial)) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial)


@contextlib.contextmanager
def folder_beside(path: str) -> Iterator[str]:
    """An empty folder beside `path`, for what is then moved to its place; removed when the block ends."""
    partial = os.path.join(os.path.dirname(path), ".{}.{}.tmp".format(os.path.basename(path), secrets.token_hex(4)))
    make_folder(partial)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def make_folder(path: str) -> None:
    """Makes a folder and those above it, where they are missing. Raises WriteError."""
    try:
        os.makedirs(path or ".", exist_ok=True)
    except OSError as error:
        raise errors.of_write(error, path) from None


def write(file: Any, data: Any) -> None:
    """Writes all of an array's or a header's bytes."""
    file.write(memoryview(data).cast("B"))


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
