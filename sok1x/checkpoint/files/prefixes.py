"""Whole checkpoints under the prefixes that TensorFlow's Savers save to.

    PREFIX/                        the checkpoint: a folder as folders.py describes it, which counts
    PREFIX/.sok1x-others           in its place: it is gone, and what a run has saved in its folder is still there
    PREFIX/checkpoint              a state file of TensorFlow's, for those that take the prefix for a folder
    PREFIX.index, .data-*, .meta   its dense variables once more, as links, for whoever looks for TensorFlow's files
    .NAME.<token>.tmp and the like, beside it, as in folders.py; NAME is the prefix' last part
"""
import contextlib
import os
import re
from typing import Any, Iterator, List, Optional

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folder_lock, folders, giving_way, links, manifest, shard_names, urls

_INNER = re.compile(r"model\.ckpt-[0-9]+\Z")
_STEPS = re.compile(r"(.*-)[0-9]+\Z", re.DOTALL)
_LEFT = r"\.(?P<name>{0})\.(?P<token>[0-9a-f]{{16}})\.(tmp|old|gone)\Z"


def folder_of(prefix: str) -> Optional[str]:
    """The folder of the whole checkpoint that TensorFlow knows by a prefix; None where there is none.

    Args:
        prefix: as given to a Saver, or that of TensorFlow's files in a checkpoint's folder.
    """
    prefix = urls.local(prefix)
    # The last look: what counted may be gone since the first one, for its successor has the name, or it has it again.
    return _named(prefix) or _replaced(prefix) or _named(prefix) or around(prefix)


def around(prefix: str) -> Optional[str]:
    """The checkpoint's folder in which a prefix is that of TensorFlow's files; None where it is in no such folder."""
    prefix = urls.absolute(prefix)
    folder = os.path.dirname(prefix)
    if not _INNER.match(os.path.basename(prefix)) or not folders.is_complete(folder):
        return None
    try:
        own = _own_name(folder) == os.path.basename(prefix)
    except CheckpointError:  # who restores it says what is wrong with it
        own = True
    return folder if own else None


def step_around(prefix: str) -> Optional[int]:
    """The step that a prefix is of by its name, where there is `around` it a checkpoint of that name; or None."""
    return None if around(prefix) is None else int(prefix.rpartition("-")[2])


def remove_leftovers(prefix: str) -> None:
    """Removes what saves to a prefix left that died; one that was being replaced gets its name back.

    Of NAME-<step> also what saves of other steps left. The folder's lock is held: no other job is at work there.

    Raises:
        WriteError: the system refuses to give the name back.
    """
    replaced = None if os.path.lexists(prefix) else _replaced(prefix, left=True)
    if replaced is not None:
        try:
            os.rename(replaced, prefix)
        except OSError as error:
            raise errors.of_write(error, prefix) from None
    directory, name = os.path.split(prefix)
    series = _STEPS.match(name)
    names = re.escape(series.group(1)) + "[0-9]+" if series else re.escape(name)
    links.remove_left(directory or ".", names + links.ENDINGS)
    left = re.compile(_LEFT.format(names))
    for name in _names(directory):
        found = left.match(name)
        if found is not None and found.group("token") not in folders.at_work:
            giving_way.remove_left(os.path.join(directory, name), os.path.join(directory, found.group("name")))


@contextlib.contextmanager
def replaced(prefix: str) -> Iterator[None]:
    """Inside, TensorFlow saves to a prefix, where a whole checkpoint of that name would count and not what it writes.

    That one is out of the way then, and is there again where the save fails.

    Raises:
        LockedError: another job saves to the folder.
        WriteError: the system refuses to rename.
    """
    prefix = urls.local(prefix)
    if not folders.is_complete(prefix) and (os.path.lexists(prefix) or _replaced(prefix, left=True) is None):
        yield  # none is there, or a folder of the user's
        return
    lock = folder_lock.of_process(os.path.dirname(prefix) or ".")
    token, index = folders.new_token(), prefix + ".index"
    away, gone = (folders.hidden(prefix, token, kind) for kind in ("old", "gone"))
    folders.at_work.add(token)  # another thread's save leaves it there
    try:
        with lock.renaming:
            remove_leftovers(prefix)
            _rename(prefix, away)
        try:
            if os.path.lexists(index):
                links.link(index, index, anew=True)  # TensorFlow would write into what is the folder's own file, too
            before = _stamp(index)
            yield
        except BaseException:
            with contextlib.suppress(CheckpointError), lock.renaming:
                _rename(away, prefix)
                found = manifest.read(prefix)
                links.link_files(prefix, found.step, found.other_files(), prefix)
            raise
        with lock.renaming:
            if not os.path.lexists(prefix) and _stamp(index) == before:
                _rename(away, prefix)  # nothing was saved: the user has been asked, and did not want it
            else:
                _rename(away, gone)
                giving_way.remove_left(gone, prefix)
    finally:
        folders.at_work.discard(token)
        del lock  # an error that is kept would keep it, too


def remove(prefix: str) -> None:
    """Removes a checkpoint's folder, if there is one: first out of sight, so that nobody finds half of it.

    One that was being replaced when its job died, too, and first: it would count. One in which a run has gone on stays.
    """
    prefix = urls.local(prefix)
    for folder in [path for path in folders.hidden_of(prefix) if path.endswith(".old")] + [prefix]:
        if folders.is_complete(folder) and not giving_way.others_in(folder):
            gone = folders.hidden(prefix, folders.new_token(), "gone")
            _rename(folder, gone)
            giving_way.remove([gone])


def remove_around(prefix: str) -> bool:
    """Removes the checkpoint's folder in which a prefix is that of TensorFlow's files, if it is one, as `remove`.

    Returns:
        Whether it stays, whole: somebody has gone on in the folder, and other checkpoints are in it.
    """
    prefix = urls.local(prefix)
    folder = around(prefix)
    if folder is None:
        return False
    if folders.is_complete(prefix):  # of a Saver of less than all: see `replace_around`
        remove(prefix)
        return True
    if not giving_way.others_in(folder):
        links.remove(folder, folder)
    remove(folder)
    return folders.is_complete(folder)


def replace_around(prefix: str) -> None:
    """Gives a checkpoint that has been saved to a prefix the place of the one `around` it, whose name that is, too.

    The folder around stays, with what else is in it: others may have gone on there. Until all is in its place the
    checkpoint below the prefix is whole; the one around is damaged meanwhile, for its manifest stays, which knows the
    shards by their token. So who restores that hears of it, and the next save to the prefix finds it.

    Raises:
        CheckpointError: the system refuses.
    """
    folder = around(prefix)
    if folder is None:
        return
    saved = manifest.read(prefix)
    try:
        gone = set(manifest.read(folder).files).difference(saved.files)
    except CheckpointError:  # whose it is nobody knows
        return
    others = set(saved.other_files())
    shards = sorted(set(saved.files).difference(others))
    links.remove_left(folder, "|".join((shard_names.FILE, re.escape(os.path.basename(prefix)) + links.ENDINGS,
                                        re.escape(manifest.NAME))))
    for names in shards, sorted(others), [manifest.NAME]:
        for name in names:
            links.link(os.path.join(prefix, name), os.path.join(folder, name))
            folders.fsync_file(os.path.join(folder, name))  # it is a copy where there are no hard links
        folders.fsync_folder(folder)
    for name in sorted(gone):
        links.unlink(os.path.join(folder, name))
    outside = links.outside(folder, saved.step, others, folder)
    if any(map(os.path.lexists, outside.values())):
        links.link_files(folder, saved.step, others, folder)
    remove(prefix)


def _rename(path: str, target: str) -> None:
    try:
        os.rename(path, target)
    except OSError as error:
        raise errors.of_write(error, path) from None


def _stamp(path: str) -> Any:
    """What tells a file from the one that is there when it has been written anew."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _own_name(folder: str) -> str:
    """What TensorFlow's files in a checkpoint's folder are called. Raises CheckpointError."""
    return os.path.basename(folders.tensorflow_prefix(folder, manifest.read(folder).step))


def _named(prefix: str) -> Optional[str]:
    """The complete checkpoint that has the name."""
    return prefix if prefix and folders.is_complete(prefix) else None


def _replaced(prefix: str, left: bool = False) -> Optional[str]:
    """The complete checkpoint of a prefix that is being replaced; `left`: that was, when its job died."""
    for path in folders.hidden_of(prefix):
        if path.endswith(".old") and folders.is_complete(path) and not (left and folders.is_at_work(path)):
            return path
    return None


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory or "."))
    except OSError:
        return []
