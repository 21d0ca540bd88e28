"""The folder of a dump, which appears complete or not at all.

    DIR/NAME/                    the dump
    DIR/.NAME.<token>.tmp/       one that is being written, its lock held; or that a dead job left, its lock free
    DIR/.NAME.<token>.old/       one that is being replaced: it counts while there is no DIR/NAME

What else lies in a folder that is replaced, as files of the user's, is moved into the new one.
"""
import os
import re
import shutil
from typing import List

from sok1x.checkpoint import errors, folder_lock, folders
from sok1x.checkpoint.errors import CheckpointError, LockedError, NotFoundError
from sok1x.checkpoint.folder_lock import FolderLock
from sok1x.dump_load import layout


class Writing:
    """A folder that is being written, by one rank of the job.

    Args:
        final: the folder that it will be, as `real` gives it.

    Attributes:
        path: where it is until then.

    Raises:
        CheckpointError: the system refuses. Of every method but `remove`.
    """

    def __init__(self, final: str) -> None:
        if os.path.lexists(final) and not os.path.isdir(final):
            raise CheckpointError("Cannot dump to {}: it is a file, expected a folder's path.".format(final))
        _remove_leftovers(final)
        self._final = final
        self.path = folders.make_temporary_for(final, folders.new_token())
        self._lock = FolderLock(self.path).acquire()

    def publish(self) -> None:
        """Gives the folder, whose files are on the disk, its name."""
        try:
            replaced = None
            folders.fsync_folder(self.path)
            if os.path.lexists(self._final):
                shutil.copymode(self._final, self.path)
                replaced = folders.hidden(self._final, folders.new_token(), "old")
                os.rename(self._final, replaced)
            os.rename(self.path, self._final)
            os.unlink(os.path.join(self._final, folder_lock.NAME))
            self._lock.release()
            folders.fsync_folder(os.path.dirname(self._final))
        except OSError as error:
            raise errors.of_write(error, self._final) from None
        if replaced is not None:
            _replace(replaced, self._final)

    def remove(self) -> None:
        """After an error: nothing is left of it."""
        self._lock.release()
        shutil.rmtree(self.path, ignore_errors=True)


def real(path: str) -> str:
    """The folder that a user's path means, links followed."""
    return os.path.realpath(path)


def find(path: str) -> str:
    """The folder in which the dump of a path is now.

    Raises:
        NotFoundError: there is none.
    """
    final = real(path)
    for candidate in [final] + [one for one in _hidden(final) if one.endswith(".old")]:
        if os.path.lexists(os.path.join(candidate, layout.META_INFO)):
            return candidate
    raise NotFoundError("There is no dump in {}: {}.".format(
        path, "it has no {}".format(layout.META_INFO) if os.path.isdir(final) else "there is no such folder"))


def _remove_leftovers(final: str) -> None:
    """Removes what dumps left that died. One that was being replaced gets its name back."""
    for path in _hidden(final):
        if path.endswith(".tmp"):
            try:
                with FolderLock(path):
                    shutil.rmtree(path, ignore_errors=True)
            except LockedError:
                pass  # another job writes it
        elif os.path.lexists(final):
            _replace(path, final)
        elif os.path.lexists(os.path.join(path, layout.META_INFO)):
            try:
                os.rename(path, final)
            except OSError as error:
                raise errors.of_write(error, final) from None


def _replace(old: str, new: str) -> None:
    """Moves what is no dump's from one folder into another, and removes the one. What cannot be moved stays there."""
    whole = True
    for name in sorted(os.listdir(old)):
        path, target = os.path.join(old, name), os.path.join(new, name)
        if _of_dump(path, name):
            continue
        try:
            if os.path.lexists(target):
                whole = False
            else:
                os.rename(path, target)
        except OSError:
            whole = False
    if whole:
        shutil.rmtree(old, ignore_errors=True)


def _of_dump(path: str, name: str) -> bool:
    """Whether a file is one that a dump writes: its name follows from its head."""
    if name in (layout.META_INFO, folder_lock.NAME):
        return True
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            head = layout.decode_head(file.read(layout.HEAD_BYTES), path)
    except (OSError, CheckpointError):
        return False
    if head.kind == layout.SLOT:
        return name.startswith(head.table + "-") and name.endswith("-" + head.slot)
    return name == layout.file_name(head.table, head.kind)


def _hidden(final: str) -> List[str]:
    directory, name = os.path.split(final)
    pattern = re.compile(r"\.{}\.[0-9a-f]{{16}}\.(tmp|old)\Z".format(re.escape(name)))
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(directory, one) for one in sorted(names) if pattern.match(one)]
