"""The folders of checkpoints: a folder a step below the user's checkpoint_dir.

    DIR/model.ckpt-<step>/                   a checkpoint; it appears in one step, complete
    DIR/.model.ckpt-<step>.<token>.tmp/      one that is being written, or that a dead job left
    DIR/.model.ckpt-<step>.<token>.old/      one that is being replaced by another of the same step
    DIR/.model.ckpt-<step>.<token>.gone/     one that is being removed
    DIR/.sok1x.lock                          held by the job that saves (folder_lock.py)

publishing.py gives a folder its name, and retiring.py removes what is to go. prefixes.py has the same below the prefix
that a `tf.train.Saver` saves to.

While a checkpoint is replaced there is a moment in which only the `.old` one is complete, and it counts then.
"""
import contextlib
import os
import re
import secrets
import stat
from typing import Dict, List, NamedTuple, Optional, Set

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import DamagedError, NotFoundError
from sok1x.checkpoint.files import manifest

BASENAME = "model.ckpt"
FOR_OTHERS = ".sok1x-others"  # marks a folder for what a run has saved in one that is gone (giving_way.py)

_FINAL = re.compile(r"model\.ckpt-(0|[1-9][0-9]{0,18})\Z")
_TENSORFLOWS = re.compile(r"model\.ckpt-[0-9]+\.(index|meta|data-[0-9]+-of-[0-9]+)\Z")
HIDDEN = re.compile(r"\.model\.ckpt-(0|[1-9][0-9]{0,18})\.([0-9a-f]+)\.(tmp|old|gone)\Z")

# Tokens of what this process writes, or replaces: its saves share a folder's lock, and spare each other.
at_work: Set[str] = set()


class Found(NamedTuple):
    """A complete checkpoint: its global step and its folder."""

    step: int
    folder: str

    @property
    def prefix(self) -> str:
        """The prefix of TensorFlow's files in it."""
        return tensorflow_prefix(self.folder, self.step)


def new_token() -> str:
    """A token for one save, which no other save has."""
    return secrets.token_hex(8)


def step_folder(directory: str, step: int) -> str:
    """The folder of the checkpoint of a step."""
    return os.path.join(directory, "{}-{}".format(BASENAME, step))


def tensorflow_prefix(folder: str, step: int) -> str:
    """The prefix of TensorFlow's files in a checkpoint's folder, whatever the folder is called at the moment."""
    return os.path.join(folder, "{}-{}".format(BASENAME, step))


def is_tensorflows(name: str) -> bool:
    """Whether a file in a checkpoint's folder is one of TensorFlow's, by its name."""
    return bool(_TENSORFLOWS.match(name))


def is_empty(path: str) -> bool:
    """Whether it is a folder, and no link to one, with nothing in it."""
    return os.path.isdir(path) and not os.path.islink(path) and not entries(path)


def complete(directory: str) -> List[Found]:
    """The complete checkpoints below `directory`, the one of the greatest step first. Links are not followed."""
    found: Dict[int, str] = {}
    missed = _look(directory, found)
    if missed:  # since the folder was listed one may have stepped aside, and what was aside may be gone, or back
        _look(directory, found, missed)
        for step in missed.difference(found):
            final = step_folder(directory, step)
            if is_complete(final) and not os.path.islink(final):
                found[step] = final
    return [Found(step, found[step]) for step in sorted(found, reverse=True)]


def _look(directory: str, found: Dict[int, str], steps: Optional[Set[int]] = None) -> Set[int]:
    """Adds complete checkpoints, of these steps or of any; gives the steps that have a name and no complete one."""
    seen = set()
    for entry in entries(directory):
        final, hidden = _FINAL.match(entry.name), HIDDEN.match(entry.name)
        if not final and not (hidden and hidden.group(3) == "old"):
            continue
        step = int((final or hidden).group(1))  # type: ignore[union-attr]
        if steps is None or step in steps:
            seen.add(step)
            if entry.is_dir(follow_symlinks=False) and is_complete(entry.path) and (final or step not in found):
                found[step] = entry.path
    return seen.difference(found)


def within(directory: str) -> List[Found]:
    """As `complete`, and the checkpoint that `directory` itself is: a run may have gone on in a checkpoint's folder.

    Raises:
        DamagedError: the folder itself does not say of which step it is, and there is no other in it.
    """
    found = complete(directory)
    if is_complete(directory):
        try:
            own = manifest.read(directory)
        except DamagedError:
            if not found:
                raise
            return found
        # Of two of its step the later one is first: the folder's own, if that has been saved anew.
        later = [one for one in found if one.step > own.step
                 or one.step == own.step and _written(one.folder) >= own.written]
        found.insert(len(later), Found(own.step, directory))
    return found


def _written(folder: str) -> int:
    """When a checkpoint was written; before all others if it does not say."""
    try:
        return manifest.read(folder).written
    except DamagedError:
        return -1


def is_complete(folder: str) -> bool:
    """Whether a folder is there and has a manifest. Raises CheckpointError where the system does not say."""
    path = os.path.join(folder, manifest.NAME)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise errors.of_read(error, path, "whether there is a checkpoint") from None
    return True


def passed_over(directory: str) -> List[str]:
    """What is called as a checkpoint of a later step than the last complete one, and is none."""
    found = latest(directory)
    steps = {entry.path: int(match.group(1)) for entry in entries(directory)
             for match in [_FINAL.match(entry.name)] if match}
    return [path for path in sorted(steps, key=lambda path: steps[path])
            if (found is None or steps[path] > found.step) and (os.path.islink(path) or not is_complete(path))]


def latest(directory: str) -> Optional[Found]:
    """The complete checkpoint of the greatest step, or None."""
    found = complete(directory)
    return found[0] if found else None


def find(directory: str, step: Optional[int] = None) -> str:
    """The folder of a checkpoint.

    Args:
        directory: A checkpoint's folder itself, or the one above; or both.
        step: Which step's; None for the greatest.

    Raises:
        NotFoundError: There is no such checkpoint; the message says which there are.
        DamagedError: The folder itself does not say of which step it is, and there is no other in it.
    """
    if step is None and is_complete(directory) and not complete(directory):
        return directory  # whatever is in its manifest
    found = within(directory)
    for one in found:
        if step is None or one.step == step:
            return one.folder
    if [one.folder for one in found] == [directory]:
        raise NotFoundError("There is no complete checkpoint of step {} in {}; it is that of step {}.".format(
            step, directory, found[0].step))
    if not os.path.isdir(directory):
        raise NotFoundError("There is no folder {}.".format(directory))
    raise NotFoundError("There is no complete checkpoint{} in {}; {}.".format(
        "" if step is None else " of step {}".format(step), directory,
        "it has those of steps {}".format(", ".join(map(str, sorted({one.step for one in found})))) if found
        else "it has none"))


def fsync_file(path: str) -> None:
    """Waits until the disk has a file that TensorFlow wrote. Raises WriteError."""
    _fsync(path, os.O_RDONLY)


def fsync_folder(path: str) -> None:
    """Waits until the disk has a folder's entries. Raises WriteError."""
    _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


def let_write(path: str) -> None:
    """Lets this user write to a folder that somebody has protected, if the system lets it: else what writes says so."""
    with contextlib.suppress(OSError):
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRWXU)


def _fsync(path: str, flags: int) -> None:
    size = 0
    try:
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise errors.of_write(error, path, size) from None


def hidden(final: str, token: str, kind: str) -> str:
    """The name of the folder `final` while it is written, replaced or removed."""
    return os.path.join(os.path.dirname(final), ".{}.{}.{}".format(os.path.basename(final), token, kind))


def is_at_work(path: str) -> bool:
    """Whether a folder is out of sight because a save of this process has put it there, which is not done with it."""
    return os.path.basename(path).split(".")[-2:][0] in at_work


def hidden_of(final: str) -> List[str]:
    """What there is of the names that `hidden` gives the folder `final`, in their order."""
    directory, name = os.path.split(final)
    pattern = re.compile(r"\.{}\.[0-9a-f]{{16}}\.(tmp|old|gone)\Z".format(re.escape(name)))
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return []
    return [os.path.join(directory, name) for name in sorted(names) if pattern.match(name)]


def entries(directory: str) -> List[os.DirEntry]:
    """What is in a folder; nothing where there is none. Raises CheckpointError."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise errors.of_read(error, directory, "the folder of checkpoints") from None
