"""SOK 1.x's files of a table while they are written, and how they get their names."""
import contextlib
import fcntl
import os
import re

from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.transfer import sok_files


class WrittenFiles:
    """The two files while all ranks write them, under names of their own. Rank 0 holds their locks, which end with its
    process: by them the next dump knows what one has left that was killed.

    Args:
      store: the table's. folder: theirs. token: a number that rank 0 has drawn.

    Attributes:
      keys, values: `sok_files.File`s after `open`.
    """

    def __init__(self, store, folder, token):
        self._label, self._first = store.label, store.world.rank == 0
        self._names = sok_files.paths(folder, store.table.kit_name)
        self._folder = os.path.dirname(self._names[0])  # a scope's name is one below
        self._partial = ["{}.{:014x}.tmp".format(name, token) for name in self._names]
        self._aside = ["{}.{:014x}.old".format(name, token) for name in self._names]
        self._left = []  # files that rank 0 has made and not renamed
        self._made = []  # these files, locked
        self.keys = self.values = None

    def create(self, sizes):
        """Makes them, on rank 0."""
        if not self._first:
            return
        for _, path in self._beside("tmp"):
            remove_dead(path)
        for path, nbytes in zip(self._partial, sizes):
            self._made.append(sok_files.File(self._label, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            self._left.append(path)
            self._made[-1].lock()
            self._made[-1].set_size(nbytes)

    def open(self, sizes):
        """Opens what rank 0 has made, on every rank."""
        opened = []
        for path, nbytes in zip(self._partial, sizes):
            if not os.path.exists(path) or os.path.getsize(path) != nbytes:
                raise CallError(FAILED_PRECONDITION, (
                    "{}: cannot see the file '{}' of {} bytes that rank 0 has made; dump_to_file needs a folder that "
                    "all ranks share, under the same path").format(self._label, path, nbytes))
            opened.append(sok_files.File(self._label, path, os.O_WRONLY))
        self.keys, self.values = opened

    def sync(self):
        """Returns when what this rank has written is on the disk."""
        self.keys.sync()
        self.values.sync()

    def publish(self):
        """Gives them their names, on rank 0; where that fails the old files are as they were.

        The old files step aside before, the keys first: whoever is stopped in between leaves a table without keys,
        which no restore takes, but never the keys of one dump with the values of another.
        """
        if not self._first:
            return
        old = [(name, aside) for name, aside in zip(self._names, self._aside) if os.path.lexists(name)]
        moves, done = old + list(zip(self._partial, self._names))[::-1], []
        with sok_files.errors(self._label, self._names[0]):
            try:
                for source, target in moves:
                    os.rename(source, target)
                    done.append((source, target))
            except OSError:
                for source, target in reversed(done):
                    os.rename(target, source)
                raise
            self._left = []
            for _, aside in old:
                with contextlib.suppress(OSError):
                    os.unlink(aside)
            # Those of dumps that were killed, too. One that lives has its keys' file until it needs them no more.
            for token, aside in self._beside("old"):
                if not os.path.lexists("{}.{}.tmp".format(self._names[0], token)):
                    with contextlib.suppress(OSError):
                        os.unlink(aside)
            _sync_folder(self._folder or ".")

    def _beside(self, kind):
        """(token, path) of the files of this and other dumps of the table that are called `.tmp` or `.old`."""
        found = []
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._folder or ".")):
                match = re.match(r"(.*)\.([0-9a-f]{14})\.(tmp|old)\Z", name)
                path = os.path.join(self._folder, name)
                if match and match.group(3) == kind and os.path.join(self._folder, match.group(1)) in self._names:
                    found.append((match.group(2), path))
        return found

    def close(self):
        """Closes them, and removes what has not got its name. Never raises: what became of the dump is agreed on."""
        for file in (self.keys, self.values, *self._made):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
        for path in self._left:
            with contextlib.suppress(OSError):
                os.unlink(path)


def remove_dead(path):
    """Removes a file that nobody writes. One without bytes may be so young that its lock is not taken yet."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(number).st_size:
                os.unlink(path)
        finally:
            os.close(number)


def _sync_folder(folder):
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
