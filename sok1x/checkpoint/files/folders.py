"""The folders of checkpoints: a folder a step below the user's checkpoint_dir.

    DIR/model.ckpt-<step>/                   a checkpoint; it appears in one step, complete
    DIR/.model.ckpt-<step>.<token>.tmp/      one that is being written, or that a dead job left
    DIR/.model.ckpt-<step>.<token>.old/      one that is being replaced by another of the same step
    DIR/.model.ckpt-<step>.<token>.gone/     one that is being removed
    DIR/.sok1x.lock                          held by the job that saves (folder_lock.py)

retiring.py removes what is to go. prefixes.py has the same below the prefix that a `tf.train.Saver` saves to.

While a checkpoint is replaced there is a moment in which only the `.old` one is complete, and it counts then.
"""
import contextlib
import os
import re
import secrets
import shutil
from typing import Dict, List, NamedTuple, Optional, Set

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import DamagedError, NotFoundError
from sok1x.checkpoint.files import manifest

BASENAME = "model.ckpt"

_FINAL = re.compile(r"model\.ckpt-(0|[1-9][0-9]{0,18})\Z")
HIDDEN = re.compile(r"\.model\.ckpt-(0|[1-9][0-9]{0,18})\.([0-9a-f]+)\.(tmp|old|gone)\Z")

at_work: Set[str] = set()  # tokens of what this process writes: its saves share a folder's lock, and spare each other


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


def make_temporary(final: str, token: str) -> str:
    """Makes the folder in which a checkpoint is written that will be `final`, and returns it. Raises WriteError."""
    directory, folder = os.path.dirname(final), hidden(final, token, "tmp")
    try:
        os.makedirs(directory or ".", exist_ok=True)
        os.mkdir(folder)
    except OSError as error:
        raise errors.of_write(error, folder) from None
    return folder


def complete(directory: str) -> List[Found]:
    """The complete checkpoints below `directory`, the one of the greatest step first. Links are not followed."""
    found: Dict[int, str] = {}
    for entry in entries(directory):
        final, hidden = _FINAL.match(entry.name), HIDDEN.match(entry.name)
        if not final and not (hidden and hidden.group(3) == "old"):
            continue
        if entry.is_dir(follow_symlinks=False) and is_complete(entry.path):
            step = int((final or hidden).group(1))  # type: ignore[union-attr]
            if final or step not in found:
                found[step] = entry.path
    return [Found(step, found[step]) for step in sorted(found, reverse=True)]


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


def publish(temporary: str, directory: str, step: int) -> str:
    """Gives a checkpoint, written completely, its name; an older one of the same step is replaced.

    The files are on disk already (shard_writer.py, manifest.write, fsync_file for TensorFlow's); this sees to the
    folder's entries before, and to the name after.

    Returns:
        The checkpoint's folder.

    Raises:
        WriteError: The system refuses.
    """
    return publish_as(temporary, step_folder(directory, step))


def publish_as(temporary: str, final: str) -> str:
    """As `publish`, to the folder `final`."""
    try:
        fsync_folder(temporary)
        retired = put_in_place(temporary, final)
    except OSError as error:
        raise errors.of_write(error, final) from None
    if retired:
        remove_replaced(retired, final)
    return final


def put_in_place(temporary: str, final: str) -> Optional[str]:
    """Gives a folder its name; one that has it steps aside. Where that fails both are as they were.

    Returns:
        Where the one is now that was there; None where there was none.

    Raises:
        OSError, WriteError: The system refuses.
    """
    token = new_token()
    retired = hidden(final, token, "old") if os.path.lexists(final) else None
    done = []
    at_work.add(token)
    try:
        for source, target in ([(final, retired)] if retired else []) + [(temporary, final)]:
            os.rename(source, target)
            done.append((source, target))
        fsync_folder(os.path.dirname(final) or ".")
    except (OSError, errors.WriteError):
        with contextlib.suppress(OSError):  # what has failed first is told
            for source, target in reversed(done):
                os.rename(target, source)
        raise
    finally:
        at_work.discard(token)
    return retired


def fsync_file(path: str) -> None:
    """Waits until the disk has a file that TensorFlow wrote. Raises WriteError."""
    _fsync(path, os.O_RDONLY)


def fsync_folder(path: str) -> None:
    """Waits until the disk has a folder's entries. Raises WriteError."""
    _fsync(path, os.O_RDONLY | os.O_DIRECTORY)


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


def others_in(folder: str) -> List[str]:
    """What a run has saved that has gone on in a checkpoint's folder: folders, and TensorFlow's files of other names.

    Raises CheckpointError where the system does not say.
    """
    found = entries(folder)
    found = [one for one in found if one.name[0] != "." and not one.name.endswith("_temp") or is_complete(one.path)]
    named = {os.path.splitext(one.name)[0] for one in found if one.name.endswith((".index", ".meta"))}
    try:
        named.discard(os.path.basename(tensorflow_prefix(folder, manifest.read(folder).step)))
    except errors.CheckpointError:  # which name is its own, if it has one, nobody knows
        named = named if len(named) > 1 else set()
    return sorted(named.union(one.name for one in found if one.is_dir(follow_symlinks=False)))


def _is_a_runs_state(folder: str) -> bool:
    """Whether TensorFlow's state file in a checkpoint's folder names something else than the checkpoint itself."""
    with open(os.path.join(folder, "checkpoint"), encoding="utf-8", errors="replace") as file:
        named = re.match(r'model_checkpoint_path: "(.*)"', file.read())
    try:
        own = os.path.basename(tensorflow_prefix(folder, manifest.read(folder).step))
    except DamagedError:  # which name is its own nobody knows
        return True
    return named is None or os.path.basename(named.group(1)) != own


def remove_replaced(retired: str, final: str) -> None:
    """Removes a folder whose place another has; if a run has gone on in it, all that is the run's goes to that one.

    Where the system refuses it stays, and the next job's `remove_left` tries again.
    """
    try:
        if others_in(retired):
            own = {manifest.NAME}
            with contextlib.suppress(errors.CheckpointError):  # it is damaged
                own.update(manifest.read(retired).files)
            for name in os.listdir(retired):
                target = os.path.join(final, name)
                # Of the run's state and the new one's own the run's counts, as it did before.
                if name not in own and (name == "checkpoint" and _is_a_runs_state(retired)
                                        or not os.path.lexists(target)):
                    os.rename(os.path.join(retired, name), target)
    except (OSError, errors.CheckpointError):
        return
    remove([retired])


def remove_left(path: str, final: str) -> None:
    """As `remove_replaced`, of a hidden folder that a save of `final` has left, or is done with, whatever has its name.

    In one that was being written no run has gone on.
    """
    try:
        if not path.endswith(".tmp") and others_in(path):
            os.makedirs(final, exist_ok=True)
            remove_replaced(path, final)
        else:
            remove([path])
    except (OSError, errors.CheckpointError):
        pass  # the next job's


def remove(paths: List[str]) -> None:
    """Removes folders that nobody finds any more; says nothing of what the system refuses.

    What a reader has open on some network file system cannot be removed now: it goes with the next job's leftovers.
    """
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
