"""The lock on a folder of checkpoints: one job saves there at a time."""
import fcntl
import os
import socket
import threading
import time
import weakref
from typing import Any, List, Optional

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import LockedError

NAME = ".sok1x.lock"

_PAUSES = tuple(0.001 * 2 ** tried for tried in range(8))  # seconds, a quarter in all


class FolderLock:
    """Holds `DIR/.sok1x.lock` with flock, from `acquire` to `release` or the end of the process, however it ends.

    The file stays: to remove it would let two jobs lock two files of one name. It says who holds it.

    Args:
        directory: The folder; it is made where it is missing.
        name: The file's.

    Attributes:
        directory: The folder.
        renaming: Is held by the one of the threads that share the lock (`of_process`) that gives names there.
        shared_as: The folder's real path, where they do.
    """

    def __init__(self, directory: str, name: str = NAME) -> None:
        self.directory = directory
        self.renaming: Any = threading.RLock()
        self.shared_as: Optional[str] = None
        self._path = os.path.join(directory, name)
        self._fd: Optional[int] = None
        self._closer: Any = None  # closes the descriptor, at the latest when this object is gone
        self._opened: Any = None  # likewise, and the descriptor, while it is not known whether it has the lock
        self._taking: Any = threading.RLock()  # held by the thread that takes it; a signal's handler may, meanwhile
        _all.add(self)

    def acquire(self) -> "FolderLock":
        """Takes the lock, or soon raises LockedError, with the host and process that have it."""
        with self._taking:
            if self._fd is None:
                self._acquire()
        return self

    def _acquire(self) -> None:
        try:
            os.makedirs(self.directory, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise errors.of_write(error, self._path) from None
        closer = weakref.finalize(self, os.close, fd)
        closer.atexit = False  # the end of the process closes it anyway
        interrupted, self._opened = self._opened, (closer, fd)
        try:
            try:
                _take(fd)
            except BlockingIOError:
                if interrupted is None:
                    raise
                fcntl.flock(interrupted[1], fcntl.LOCK_EX | fcntl.LOCK_NB)  # it may have it, and not know yet
                self._closer, self._fd = interrupted
                return
            self._closer, self._fd = closer, fd  # before anything else: a signal's handler may ask for the lock, too
            os.ftruncate(fd, 0)
            os.pwrite(fd, (self._own() + "\n").encode(), 0)
        except OSError as error:
            if self._fd not in (None, fd):  # a handler has been faster
                return
            holder = ascii(os.pread(fd, 256, 0).decode("utf-8", "replace").strip())[1:-1]
            self._fd = None
            if not isinstance(error, BlockingIOError):
                raise errors.of_write(error, self._path) from None
            who = "Another hook of this process" if holder == self._own() else "Another job"
            raise LockedError("{} saves checkpoints to {}: {} holds {}. Choose another checkpoint_dir here, or wait "
                              "until that one has ended.".format(
                                  who, self.directory, holder or "a process", self._path)) from None
        finally:
            if self._fd != fd:
                closer()  # Ctrl-C, too, may come when the system has given the lock and nobody has noted it
            self._opened = interrupted

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def expect_held(self) -> None:
        """Raises ValueError unless the lock is held."""
        if not self.held:
            raise ValueError("the lock on {} is not held".format(self.directory))

    def release(self) -> None:
        """Gives the lock up; does nothing where it is not held."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self._close()

    def _close(self) -> None:
        if self._fd is not None:
            self._closer()
            self._fd = None

    @staticmethod
    def _own() -> str:
        return "process {} on {}".format(os.getpid(), socket.gethostname())

    def __enter__(self) -> "FolderLock":
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()


def _take(fd: int) -> None:
    """Locks an open file, or raises OSError. Who has it for a moment only is waited for.

    That is who asks `is_held`, and a thread of this process that is about to close what nobody keeps any more.
    """
    for pause in _PAUSES:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(pause)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


_of_process: List[Any] = []  # weak references to those that are shared; of a folder's the first counts
_looking: Any = threading.RLock()  # held while one of these is looked for; a signal's handler may, meanwhile


def of_process(directory: str) -> FolderLock:
    """The lock on a folder, held, that all hooks of this process share; it is free when none of them keeps it.

    Raises:
        LockedError: Another process has it.
    """
    path = os.path.realpath(directory)
    with _looking:
        lock = _shared_as(path)
        if lock is None:
            made = FolderLock(directory)
            made.shared_as = path
            _of_process.append(weakref.ref(made, _of_process.remove))  # in one step
            lock = _shared_as(path) or made  # a handler's, if that has made one meanwhile
    return lock.acquire()  # a folder that does not answer holds up no other


def _shared_as(path: str) -> Optional[FolderLock]:
    shared = [reference() for reference in list(_of_process)]
    return next((lock for lock in shared if lock is not None and lock.shared_as == path), None)


def is_held(directory: str, name: str = NAME) -> bool:
    """Whether somebody holds the lock on a folder, this process too; or may, where the system does not say."""
    try:
        fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)  # a child that is forked now has the descriptor, too
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


_all: Any = weakref.WeakSet()


def _close_in_child() -> None:
    global _looking
    _looking = threading.RLock()  # the threads that may hold these are not in the child
    # A forked data loader that outlives its job would go on holding them. The parent's descriptors stay open.
    for lock in list(_all):
        lock.renaming, lock._taking = threading.RLock(), threading.RLock()
        if lock._opened is not None:
            lock._opened[0]()
            lock._opened = None
        lock._close()


os.register_at_fork(after_in_child=_close_in_child)  # once: what is registered stays
