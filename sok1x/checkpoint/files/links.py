"""TensorFlow's files in a checkpoint's folder under the prefix of its name, too: the links beside it (prefixes.py).

Whoever takes the folder away, or puts another in its place, sees to them: else half a checkpoint would be found, or
another's dense variables. What is beside the folder and is not its own, as a later save on one rank, is left alone.
"""
import contextlib
import glob
import os
import re
import shutil
from typing import Dict, Iterable, List, Sequence

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, manifest
from sok1x.checkpoint.files.open_file import checksum

# How a Saver's files are called behind their prefix: a pattern.
ENDINGS = r"\.(?:index|meta|data-[0-9]{5}-of-[0-9]{5})"

_STATE = "checkpoint"


def link_files(folder: str, step: int, names: Iterable[str], prefix: str) -> None:
    """Gives TensorFlow's files in a checkpoint's folder their usual names, too. Raises WriteError."""
    wanted = outside(folder, step, names, prefix)
    # The index tells TensorFlow that a checkpoint is there: none may stand beside the data of another.
    unlink(prefix + ".index")
    for name in sorted(wanted, key=lambda name: name.endswith(".index")):
        link(os.path.join(folder, name), wanted[name])
    for stale in glob.glob(glob.escape(prefix) + ".data-*-of-*"):
        if stale not in wanted.values():
            unlink(stale)


def write_state(folder: str, prefix: str) -> None:
    """Tells those that take a checkpoint's folder for one of many checkpoints where TensorFlow's files are.

    `tf.train.load_variable` and the like do so with a prefix that is also a folder. Raises WriteError.
    """
    path = os.path.join(folder, _STATE)
    state = 'model_checkpoint_path: "{0}"\nall_model_checkpoint_paths: "{0}"\n'.format(prefix)
    try:
        with open(path, "w") as file:
            file.write(state)
    except OSError as error:
        raise errors.of_write(error, path, len(state)) from None


def follow(retired: str, final: str) -> None:
    """Has the links of a folder that another has replaced be those of that one.

    Args:
        retired: where the one is now that had the name.
        final: the one that has the name. Where it has no files of TensorFlow's, the links stay as they are.

    Raises:
        CheckpointError: the system refuses.
    """
    found = _own(final, [retired, final])
    if not found:
        return
    saved = manifest.read(final)
    others = saved.other_files()
    if others:
        if os.path.lexists(os.path.join(retired, _STATE)) and not os.path.lexists(os.path.join(final, _STATE)):
            write_state(final, os.path.basename(folders.tensorflow_prefix(final, saved.step)))
        link_files(final, saved.step, others, final)
        for path in set(found).difference(outside(final, saved.step, others, final).values()):
            unlink(path)


def remove(folder: str, prefix: str) -> None:
    """Removes the links of a checkpoint that is about to go: without them it is as whole as before.

    Args:
        folder: where it is.
        prefix: its name, when it was linked.

    Raises:
        CheckpointError: the system refuses.
    """
    for path in _own(prefix, [folder]):
        unlink(path)


def remove_left(directory: str, names: str) -> None:
    """Removes what those left that died while they gave a file a name that fits `names`, a pattern."""
    left = re.compile(r"(?:{})\.(?P<token>[0-9a-f]{{16}})\.tmp\Z".format(names))
    for entry in folders.entries(directory):
        found = left.match(entry.name)
        if found and found.group("token") not in folders.at_work and not entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def _own(prefix: str, owners: Sequence[str]) -> List[str]:
    """What there is of the names that checkpoints' folders give their files under a prefix, the index first.

    Nothing if one of them is another's file, who may need the rest, or where nobody knows.
    """
    found: Dict[str, bool] = {}
    try:
        for folder in owners:
            saved = manifest.read(folder)
            for name, path in outside(folder, saved.step, saved.other_files(), prefix).items():
                if os.path.lexists(path):
                    found[path] = found.get(path, False) or _is_own(path, os.path.join(folder, name), saved.files[name])
        around = os.path.dirname(os.path.abspath(prefix))
        if found and folders.is_complete(around):  # they may be that one's own: see `prefixes.replace_around`
            files = manifest.read(around).files
            found.update({path: False for path in found if os.path.basename(path) in files})
    except (OSError, CheckpointError):
        return []
    return sorted(found, key=lambda path: not path.endswith(".index")) if all(found.values()) else []


def _is_own(path: str, inside: str, saved: manifest.File) -> bool:
    """Whether it is a file in a folder by another name, or has what was saved there: not all systems have links.

    Into an index TensorFlow writes what it saves later, and so into the folder's own one.
    """
    here = os.lstat(path)
    if not path.endswith(".index") and os.path.samestat(here, os.lstat(inside)):
        return True
    return here.st_size == saved.bytes and manifest.File(*checksum(path, "whose it is")) == saved


def link(source: str, target: str, anew: bool = False) -> None:
    """Gives a file another name; or a file of its own, `anew`. Raises WriteError."""
    token = folders.new_token()
    partial = "{}.{}.tmp".format(target, token)
    folders.at_work.add(token)
    try:
        try:
            if anew:
                shutil.copyfile(source, partial)
            else:
                os.link(source, partial)
        except OSError:  # the file system has no hard links
            shutil.copyfile(source, partial)
        os.replace(partial, target)
    except OSError as error:
        raise errors.of_write(error, target, os.path.getsize(source)) from None
    finally:
        with contextlib.suppress(OSError):  # it is not there, unless something has failed
            os.unlink(partial)
        folders.at_work.discard(token)


def outside(folder: str, step: int, names: Iterable[str], prefix: str) -> Dict[str, str]:
    """The usual names of TensorFlow's files in a checkpoint's folder, by the names that they have there."""
    inner = os.path.basename(folders.tensorflow_prefix(folder, step))
    return {name: prefix + name[len(inner):] for name in names}


def unlink(path: str) -> None:
    """Takes a name away, if it is there. Raises WriteError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise errors.of_write(error, path) from None
