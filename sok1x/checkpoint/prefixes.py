"""Whole checkpoints under the prefixes that TensorFlow's Savers save to.

    PREFIX/                        the checkpoint: a folder as folders.py describes it, which counts
    PREFIX/checkpoint              a state file of TensorFlow's, for those that take the prefix for a folder
    PREFIX.index, .data-*, .meta   its dense variables once more, as links, for whoever looks for TensorFlow's files
    .NAME.<token>.tmp and the like, beside it, as in folders.py; NAME is the prefix' last part
"""
import glob
import os
import re
import shutil
from typing import Iterable, List, Optional

from sok1x.checkpoint import errors, folders
from sok1x.checkpoint.errors import CheckpointError

_INNER = re.compile(r"model\.ckpt-[0-9]+\Z")
_HIDDEN = r"\.{}\.[0-9a-f]{{16}}\.(tmp|old|gone)\Z"


def folder_of(prefix: str) -> Optional[str]:
    """The folder of the whole checkpoint that TensorFlow knows by a prefix; None where there is none.

    Args:
        prefix: as given to a Saver, or that of TensorFlow's files in a checkpoint's folder.
    """
    candidates = [prefix, _replaced(prefix)]
    if _INNER.match(os.path.basename(prefix)):
        candidates.append(os.path.dirname(prefix))
    for folder in candidates:
        if folder and folders.is_complete(folder):
            return folder
    return None


def expect_free(prefix: str) -> None:
    """Raises CheckpointError where something else than a checkpoint has the name that a checkpoint is to get."""
    if os.path.lexists(prefix) and not folders.is_complete(prefix):
        raise CheckpointError("Cannot save to {}: there is something of that name that is no checkpoint of sok1x, and "
                              "the tables' folder would be called so; save under another name.".format(prefix))


def remove_leftovers(prefix: str) -> None:
    """Removes what saves to a prefix left that died; one that was being replaced gets its name back.

    Raises:
        WriteError: the system refuses that.
    """
    replaced = None if os.path.lexists(prefix) else _replaced(prefix)
    if replaced is not None:
        try:
            os.rename(replaced, prefix)
        except OSError as error:
            raise errors.of_write(error, prefix) from None
    folders.remove([path for path in _hidden(prefix)])


def remove(prefix: str) -> None:
    """Removes a checkpoint's folder, if there is one: first out of sight, so that nobody finds half of it."""
    if not folders.is_complete(prefix):
        return
    gone = folders.hidden(prefix, folders.new_token(), "gone")
    try:
        os.rename(prefix, gone)
    except OSError as error:
        raise errors.of_write(error, prefix) from None
    folders.remove([gone])


def link_files(folder: str, step: int, names: Iterable[str], prefix: str) -> None:
    """Gives TensorFlow's files in a checkpoint's folder their usual names, too. Raises WriteError."""
    inner = os.path.basename(folders.tensorflow_prefix(folder, step))
    wanted = {name: prefix + name[len(inner):] for name in names}
    for name in sorted(wanted, key=lambda name: name.endswith(".index")):  # the index tells TensorFlow that it is there
        _link(os.path.join(folder, name), wanted[name])
    for stale in glob.glob(glob.escape(prefix) + ".data-*-of-*"):
        if stale not in wanted.values():
            os.remove(stale)


def write_state(folder: str, prefix: str) -> None:
    """Tells those that take a checkpoint's folder for one of many checkpoints where TensorFlow's files are.

    `tf.train.load_variable` and the like do so with a prefix that is also a folder. Raises WriteError.
    """
    path = os.path.join(folder, "checkpoint")
    state = 'model_checkpoint_path: "{0}"\nall_model_checkpoint_paths: "{0}"\n'.format(prefix)
    try:
        with open(path, "w") as file:
            file.write(state)
    except OSError as error:
        raise errors.of_write(error, path, len(state)) from None


def _link(source: str, target: str) -> None:
    partial = "{}.{}.tmp".format(target, folders.new_token())
    try:
        try:
            os.link(source, partial)
        except OSError:  # the file system has no hard links
            shutil.copyfile(source, partial)
        os.replace(partial, target)
    except OSError as error:
        raise errors.of_write(error, target, os.path.getsize(source)) from None


def _replaced(prefix: str) -> Optional[str]:
    """The complete checkpoint of a prefix that was being replaced when its job died."""
    for path in _hidden(prefix):
        if path.endswith(".old") and folders.is_complete(path):
            return path
    return None


def _hidden(prefix: str) -> List[str]:
    directory, name = os.path.split(prefix)
    pattern = re.compile(_HIDDEN.format(re.escape(name)))
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return []
    return [os.path.join(directory, name) for name in sorted(names) if pattern.match(name)]
