"""The folder of a dump, which appears complete or not at all.

    DIR/NAME/                    the dump
    DIR/.NAME.<token>.tmp/       one that is being written, its lock held; or that a dead job left, its lock free
    DIR/.NAME.<token>.old/       one that is being replaced: it counts while there is no DIR/NAME

What else lies in a folder that is replaced, as files of the user's, is moved into the new one; the file with which a
job locks that folder is in both at once, or another job could lock a second one.
"""
import contextlib
import errno
import os
import shutil
from typing import List, Optional, Tuple

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError, LockedError, NotFoundError
from sok1x.checkpoint.files import dumps, folder_lock, folders, manifest, publishing
from sok1x.checkpoint.files.folder_lock import FolderLock
from sok1x.dump_load import layout

_INSTEAD = (" A dump takes the place of the folder that is there, which the system refuses where that is a mount "
            "point, or where the folder above may not be written to: dump to a new folder in it.")


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
        _expect_writable(final)
        _remove_leftovers(final)
        self._final = final
        try:
            self.path = publishing.make_temporary(final, folders.new_token())
        except errors.NoSpaceError:
            raise
        except errors.WriteError as error:
            raise errors.WriteError(str(error) + (_INSTEAD if os.path.isdir(final) else "")) from None
        self._lock = FolderLock(self.path, dumps.LOCK)
        try:
            self._lock.acquire()
        except BaseException:  # nobody has this object then, whose `remove` it would be
            self.remove()
            raise

    def publish(self) -> None:
        """Gives the folder, whose files are on the disk, its name. Where that fails the one that was there keeps it."""
        try:
            folders.fsync_folder(self.path)
            if os.path.lexists(self._final):
                _expect_writable(self._final)
                shutil.copymode(self._final, self.path)
                _keep_lock(self._final, self.path)
            replaced = publishing.put_in_place(self.path, self._final)
        except OSError as error:
            raise self._of_publishing(error) from None
        # The dump is there: what follows makes it none that has failed.
        _unlink(os.path.join(self._final, dumps.LOCK))
        self._lock.release()
        if replaced is not None:
            _replace(replaced, self._final)

    def _of_publishing(self, error: OSError) -> CheckpointError:
        if error.errno not in (errno.EBUSY, errno.EACCES, errno.EPERM):
            return errors.of_write(error, self._final)
        return errors.WriteError("Cannot write {}: {}.{}".format(self._final, error.strerror or error, _INSTEAD))

    def remove(self) -> None:
        """After an error: nothing is left of it."""
        self._lock.release()
        shutil.rmtree(self.path, ignore_errors=True)


def _expect_writable(final: str) -> None:
    """Raises CheckpointError where a folder is protected whose place a dump would take, for the folder above is not:
    nothing could be removed of what is in it."""
    if os.path.isdir(final) and not os.access(final, os.W_OK | os.X_OK):
        raise CheckpointError("Cannot dump to {}: the folder may not be written to, and a dump takes the place of the "
                              "folder that is there: give it write permission (chmod u+wx), or dump to another "
                              "folder.".format(final))


def real(path: str) -> str:
    """The folder that a user's path means, links followed."""
    return os.path.realpath(path)


def expect_elsewhere(path: str) -> None:
    """Raises CheckpointError where a dump would take this process's working directory away; every rank asks."""
    try:
        here = os.path.samefile(path, os.curdir)
    except OSError:  # it is not there yet
        return
    if here:
        raise CheckpointError("Cannot dump to {}: it is the working directory, and a dump takes the place of the "
                              "folder that is there: dump to a folder in it.".format(path))


def identity(folder: str) -> Optional[Tuple[int, int]]:
    """What tells the dump that is in a folder from any that takes its place; None where there is none.

    When its list was written: a file's number may change by itself where a network is behind the file system.
    """
    try:
        found = os.stat(os.path.join(folder, layout.META_INFO))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def find(path: str) -> str:
    """The folder in which the dump of a path is now.

    Raises:
        NotFoundError: there is none.
    """
    final = real(path)
    # The last look: what was aside may be gone since, for its successor has the name, or it has it again.
    for look in (lambda: [final], lambda: [one for one in _hidden(final) if one.endswith(".old")], lambda: [final]):
        for candidate in look():
            if os.path.lexists(os.path.join(candidate, layout.META_INFO)):
                return candidate
    raise NotFoundError("There is no dump in {}: {}.".format(
        path, "it has no {}".format(layout.META_INFO) if os.path.isdir(final) else "there is no such folder"))


def _remove_leftovers(final: str) -> None:
    """Removes what dumps left that died. One that was being replaced gets its name back."""
    for path in _hidden(final):
        if path.endswith(".tmp"):
            if not dumps.may_be_one(path) and folder_lock.is_held(os.path.dirname(final)):
                continue  # a checkpoint, which a job writes there that saves to the folder
            try:
                with FolderLock(path, dumps.LOCK), FolderLock(path):  # the latter is an earlier sok1x's
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


def _keep_lock(old: str, new: str) -> None:
    try:
        os.link(os.path.join(old, folder_lock.NAME), os.path.join(new, folder_lock.NAME))
    except OSError:  # nobody has locked it; or there are no links here, and it is moved afterwards
        return


def _replace(old: str, new: str) -> None:
    """Moves what is no dump's from one folder into another, and removes the one. What cannot be moved stays there, and
    nothing else: of a dump that has been replaced nothing may come back."""
    folders.let_write(old)  # an earlier sok1x has replaced those that may not be written to, too
    try:
        _unlink(os.path.join(old, layout.META_INFO))  # first: without it the folder is no dump
        # What is a checkpoint, too, is whole there as long as its manifest is, and here when that has come.
        names, whole = sorted(os.listdir(old), key=lambda name: (name == manifest.NAME, name)), True
    except OSError:
        return  # the next dump tries again
    for name in names:
        path, target = os.path.join(old, name), os.path.join(new, name)
        if _of_dump(path, name):
            _unlink(path)
            continue
        try:
            if name == folder_lock.NAME and os.path.lexists(target):
                continue  # the same, as _keep_lock has left it
            if os.path.lexists(target):
                whole = False
            else:
                os.rename(path, target)
        except OSError:
            whole = False
    if whole:
        shutil.rmtree(old, ignore_errors=True)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _of_dump(path: str, name: str) -> bool:
    """Whether a file is one that a dump writes: its name follows from its head."""
    if name in (layout.META_INFO, dumps.LOCK):
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
    """The folders that are one day `final` or have been, that with the newest dump first."""
    paths = [path for path in folders.hidden_of(final) if not path.endswith(".gone")]
    return sorted(paths, key=lambda path: (identity(path) or (0, 0), path), reverse=True)
