"""Compiled kernels, kept in files for all processes of a user: verified on load, written in one step.

An entry is a file ENTRY.cubin: magic, version of the format, length of the payload, BLAKE2b of the entry's name and
the payload; then the payload. A file with anything wrong in it counts as absent, and the next store replaces it.
Beside it may lie ENTRY.lock, of the process that is making the entry, and ENTRY.*.tmp, a file not yet complete.

The folder is $SOK1X_CACHE_DIR, else sok1x in $XDG_CACHE_HOME, else ~/.cache/sok1x. Where that cannot be written it is
still read, and new entries go to a folder of this user alone among the temporary files.
"""
import contextlib
import fcntl
import hashlib
import os
import re
import stat
import struct
import sys
import tempfile
import time
import uuid
from typing import Optional, Set, Tuple

MAGIC = b"SOK1XBIN"
FORMAT = 1
HEADER = struct.Struct("<8sIQ32s")

DAY = 24 * 3600.0
UNUSED = 90 * DAY  # an entry that no process loaded for so long is removed

# What a sweep may remove: the folder may be one that a user shares with other things.
_OURS = re.compile(r"[\w-]+-[0-9a-f]{64}(\.cubin|\.lock|\.[0-9a-f]{32}\.tmp)\Z")

_said: Set[str] = set()


class KernelCache:
    """The entries that this process can read, and the folder to which it adds, `folder`: a path, or None."""

    def __init__(self) -> None:
        wanted = _wanted_folder()
        self._folders, self._trouble = [wanted], _trouble_with(wanted)
        self.folder: Optional[str] = wanted
        if self._trouble:
            private, trouble = _private_folder()
            self.folder = None if trouble else private
            self._folders += [self.folder] if self.folder else []
            if trouble:
                self._trouble += "; " + trouble

    def load(self, entry: str) -> Optional[bytes]:
        """The payload of an entry (bytes), or None where there is none that is whole."""
        for folder in self._folders:
            payload = _read(os.path.join(folder, entry + ".cubin"), entry)
            if payload is not None:
                return payload
        return None

    def store(self, entry: str, payload: bytes) -> None:
        """Writes an entry and removes what is old. Where nothing can be written, the next process has to compile."""
        self._say_trouble()
        if self.folder is None:
            return
        path = os.path.join(self.folder, entry)
        temporary = "{}.{}.tmp".format(path, uuid.uuid4().hex)
        try:
            with open(temporary, "xb") as file:
                file.write(HEADER.pack(MAGIC, FORMAT, len(payload), _digest(entry, payload)))
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path + ".cubin")
        except OSError as error:
            _say_once("a compiled kernel cannot be kept ({})".format(error))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        _sweep(self.folder)

    def try_lock(self, entry: str) -> "Optional[Lock]":
        """A `Lock` on the making of an entry, or None while another has it. Does not wait.

        Where there is no folder or its file system has no locks, everyone gets one: several then make the same entry,
        and the last to write it wins.
        """
        if self.folder is None:
            return Lock()
        path = os.path.join(self.folder, entry + ".lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return Lock()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before may have removed the file between our opening and our locking it.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return Lock(path, descriptor)
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError:
            os.close(descriptor)
            return Lock()
        os.close(descriptor)
        return None

    def _say_trouble(self) -> None:
        # Only where something was to be written, and a user's choice was not followed or nothing can be kept.
        if self._trouble and (os.environ.get("SOK1X_CACHE_DIR") or self.folder is None):
            _say_once("compiled kernels are kept in {}, because {}".format(self.folder, self._trouble) if self.folder
                      else "compiled kernels are not kept, because {}; set SOK1X_CACHE_DIR to a folder that can be "
                           "written".format(self._trouble))


class Lock:
    """The right to make an entry, until it is released or the process ends. Without arguments it binds nobody."""

    def __init__(self, path: str = "", descriptor: Optional[int] = None) -> None:
        self._path, self._descriptor = path, descriptor

    def release(self) -> None:
        """Gives the lock back, at the second call too."""
        if self._descriptor is not None:
            # The file goes while it is locked: whoever locks it afterwards sees that it is no longer the path's.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            # A child that was forked meanwhile has the descriptor too: closing ours alone would not unlock.
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def _digest(entry: str, payload: bytes) -> bytes:
    digest = hashlib.blake2b(entry.encode() + b"\0", digest_size=32)
    digest.update(payload)
    return digest.digest()


def _read(path: str, entry: str) -> Optional[bytes]:
    """The payload of a file, or None where the file is missing or not a whole entry of that name."""
    try:
        with open(path, "rb") as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
            content = file.read()
    except OSError:
        return None
    if len(content) < HEADER.size:
        return None
    payload = content[HEADER.size:]
    if HEADER.unpack_from(content) != (MAGIC, FORMAT, len(payload), _digest(entry, payload)):
        return None
    if abs(age) > DAY:
        with contextlib.suppress(OSError):
            os.utime(path)
    return payload


def _wanted_folder() -> str:
    folder = os.environ.get("SOK1X_CACHE_DIR")
    if folder:
        return os.path.abspath(os.path.expanduser(folder))
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG Base Directory Specification: a path that is not absolute is ignored.
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "sok1x")


def _trouble_with(folder: str) -> str:
    """Why a folder cannot be written, or an empty text. Makes it where it is missing."""
    if not os.path.isabs(folder):
        return "this user has no home folder"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return "{} cannot be written ({})".format(folder, error.strerror or error)


def _private_folder() -> Tuple[str, str]:
    """A folder among the temporary files that no other user can read or write, and why there is none."""
    try:
        below = tempfile.gettempdir()
    except OSError as error:  # no folder for temporary files can be written either
        return "", error.strerror or str(error)
    folder = os.path.join(below, "sok1x-{}".format(os.geteuid()))
    trouble = _trouble_with(folder)
    if not trouble:
        # Anyone may make that folder first, or put a link there.
        state = os.lstat(folder)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            trouble = "{} is not a folder of this user alone (mode 0700)".format(folder)
    return folder, trouble


def _sweep(folder: str) -> None:
    """Removes entries long unused, and what a process that died left behind."""
    with contextlib.suppress(OSError):
        for file in os.listdir(folder):
            kind = _OURS.match(file)
            with contextlib.suppress(OSError):
                path = os.path.join(folder, file)
                # A date far ahead is as wrong as one long past; kept, it would never grow old.
                if kind and abs(time.time() - os.lstat(path).st_mtime) > (UNUSED if kind.group(1) == ".cubin" else DAY):
                    os.unlink(path)


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        sys.stderr.write("sok1x: {}.\n".format(text))
