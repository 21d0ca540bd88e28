"""The folder of a dump, which has the dump complete or not at all.

    DIR/NAME/                            the dump, and whatever else its owner keeps there
    DIR/NAME/.sok1x-dump.<token>.tmp/    one that is being written, its lock held; or a dead job's, its lock free
    DIR/NAME/.sok1x-dump.<token>.ready/  one that is complete, on the disk: from now on it is the dump
    DIR/NAME/.sok1x-dump.<token>.moving/ the same when the former one's files are gone: its own move to where they
                                         belong, meta_info last
    DIR/.NAME.<token>.tmp/               as the first, where there is no DIR/NAME yet: complete when its lock's file is
                                         gone, and it gets the name

So the folder itself stays what it is: a mount point, somebody's working directory, of its owner. Whoever dumps or loads
next finishes what a job left that died while files moved.

    DIR/.NAME.<token>.old/               what an earlier sok1x has left that died: it counts while there is no DIR/NAME
"""
import fcntl
import os
import re
import shutil
import time
from typing import Iterator, List, Optional, Tuple

from sok1x.checkpoint import errors, folder_lock, folders
from sok1x.checkpoint.errors import CheckpointError, LockedError, NotFoundError
from sok1x.checkpoint.folder_lock import FolderLock
from sok1x.dump_load import layout

_INSIDE = re.compile(r"\.sok1x-dump\.([0-9a-f]{16})\.(tmp|ready|moving)\Z")
_PATIENCE = 60.0  # seconds that files may move


class Writing:
    """A folder that is being written, by one rank of the job.

    Args:
        final: where the dump will be, as `real` gives it.

    Attributes:
        path: where it is until then.

    Raises:
        CheckpointError: the system refuses. Of every method but `remove`.
    """

    def __init__(self, final: str) -> None:
        if os.path.lexists(final) and not os.path.isdir(final):
            raise CheckpointError("Cannot dump to {}: it is a file, expected a folder's path.".format(final))
        _remove_leftovers(final)
        self._final, self._token = final, folders.new_token()
        if os.path.isdir(final):
            self.path = _inside(final, self._token, "tmp")
            try:
                os.mkdir(self.path)
            except OSError as error:
                raise errors.of_write(error, self.path) from None
        else:
            self.path = folders.make_temporary_for(final, self._token)
        self._lock = FolderLock(self.path).acquire()

    def publish(self) -> None:
        """Has the files, which are on the disk, be the dump."""
        final = self._final
        try:
            folders.fsync_folder(self.path)
            if os.path.dirname(self.path) == final:
                self._expect_room()
                os.rename(self.path, _inside(final, self._token, "ready"))
                folders.fsync_folder(final)
            else:
                os.unlink(os.path.join(self.path, folder_lock.NAME))
            _finish(final)
            folders.fsync_folder(os.path.dirname(final))
            self._lock.release()
        except OSError as error:
            raise errors.of_write(error, final) from None

    def _expect_room(self) -> None:
        for name in _files(self.path):
            if name == folder_lock.NAME:
                continue
            path = os.path.join(self._final, name)
            if os.path.lexists(path) and not _of_dump(path, name):
                raise CheckpointError("Cannot dump to {}: there is a '{}' that is no file of a dump, which one of the "
                                      "dump's is called; dump to another folder.".format(self._final, name))

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
        CheckpointError: the system refuses to tell, or to let what a dead job has left be finished.
    """
    final = real(path)
    try:
        _finish(final)
    except OSError as error:  # a reader that may not write: the former dump is whole, or gone
        if not _has(final):
            raise errors.of_write(error, final) from None
    for candidate in [final] + [one for one in _beside(final) if one.endswith(".old")]:
        if _has(candidate):
            return candidate
    raise NotFoundError("There is no dump in {}: {}.".format(
        path, "it has no {}".format(layout.META_INFO) if os.path.isdir(final) else "there is no such folder"))


def identity(folder: str) -> Optional[Tuple[int, int, int]]:
    """What tells the dump that is in a folder from any that takes its place; None where there is none."""
    try:
        found = os.stat(os.path.join(folder, layout.META_INFO))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _has(folder: str) -> bool:
    try:
        os.lstat(os.path.join(folder, layout.META_INFO))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise errors.of_read(error, folder, "the folder of a dump") from None
    return True


def _finish(final: str) -> None:
    """Has what is complete be the dump. Raises OSError; LockedError where another job is at it, and does not end."""
    for path in _beside(final):
        there = [os.path.lexists(os.path.join(path, name)) for name in (layout.META_INFO, folder_lock.NAME)]
        if path.endswith(".tmp") and there == [True, False]:
            token = path.split(".")[-2]
            try:
                os.rename(path, _inside(final, token, "ready") if os.path.lexists(final) else final)
            except FileNotFoundError:
                pass  # another job has
    if not any(kind != "tmp" for _, kind in _hidden(final)):
        return
    with _Moving(final):
        for path, kind in _hidden(final):
            if kind == "tmp":
                continue
            moving = path[:-len(kind)] + "moving"
            if kind == "ready":
                stale = [name for name in _files(final) if _of_dump(os.path.join(final, name), name)]
                for name in sorted(stale, key=lambda name: name != layout.META_INFO):  # that first: it is no dump now
                    os.unlink(os.path.join(final, name))
                folders.fsync_folder(final)
                os.rename(path, moving)
                folders.fsync_folder(final)
            for name in sorted(_files(moving), key=lambda name: name == layout.META_INFO):
                if name != folder_lock.NAME:
                    os.rename(os.path.join(moving, name), os.path.join(final, name))
            folders.fsync_folder(final)
            shutil.rmtree(moving, ignore_errors=True)


class _Moving:
    """Held by who moves files in a folder: one at a time, and without a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    os.close(self._fd)
                    raise LockedError("Another job has been putting its dump into {} for {:.0f} s; wait until it has "
                                      "ended.".format(self._folder, _PATIENCE)) from None
                time.sleep(0.05)
            except OSError:  # a file system without such locks
                return

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _inside(final: str, token: str, kind: str) -> str:
    return os.path.join(final, ".sok1x-dump.{}.{}".format(token, kind))


def _hidden(final: str) -> List[Tuple[str, str]]:
    """What jobs have inside a folder: paths, and what each is."""
    try:
        names = sorted(os.listdir(final))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [(name, _INSIDE.match(name)) for name in names]
    return [(os.path.join(final, name), match.group(2)) for name, match in found if match]


def _files(folder: str) -> Iterator[str]:
    return (name for name in sorted(os.listdir(folder)) if not _INSIDE.match(name))


def _remove_leftovers(final: str) -> None:
    """Removes what dumps left that died; what was complete is the dump now."""
    try:
        _finish(final)
        inside = [path for path, kind in _hidden(final) if kind == "tmp"]
    except OSError as error:
        raise errors.of_write(error, final) from None
    for path in inside + _beside(final):
        if path.endswith(".tmp"):
            try:
                with FolderLock(path):
                    shutil.rmtree(path, ignore_errors=True)
            except LockedError:
                pass  # another job writes it
        elif os.path.lexists(final):
            _replace(path, final)
        elif _has(path):
            try:
                os.rename(path, final)
            except OSError as error:
                raise errors.of_write(error, final) from None


def _replace(old: str, new: str) -> None:
    """Moves what is no dump's from one folder into another, and removes the one. What cannot be moved stays there."""
    whole = True
    for name in sorted(os.listdir(old)):
        path, target = os.path.join(old, name), os.path.join(new, name)
        if _of_dump(path, name) or name == folder_lock.NAME:
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
    if name == layout.META_INFO:
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


def _beside(final: str) -> List[str]:
    directory, name = os.path.split(final)
    pattern = re.compile(r"\.{}\.[0-9a-f]{{16}}\.(tmp|old)\Z".format(re.escape(name)))
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(directory, one) for one in sorted(names) if pattern.match(one)]
