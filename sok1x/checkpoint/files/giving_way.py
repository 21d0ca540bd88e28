"""What gives way to a checkpoint that gets its name (publishing.py), or is left of a save that died: its removal.

In a checkpoint's folder a run may have gone on: what it has saved there stays where the checkpoint is replaced. So do
dumps, in it or of its name.
"""
import contextlib
import errno
import os
import re
import shutil
from typing import List, Optional, Set

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import dumps, folder_lock, folders, links, manifest

# What a killed save leaves: TensorFlow's files before they have their names, and a folder of ours, which may be whole;
# one that was being removed, too, unless it stays for what a run has saved in it.
_TENSORFLOWS_LEFT = re.compile(r".*_temp(_[0-9a-f]{32})?\Z", re.DOTALL)
_OURS_LEFT = re.compile(r"\..*\.[0-9a-f]{16}\.(tmp|gone)\Z", re.DOTALL)


def is_for_others(path: str) -> bool:
    """Whether it is a folder without a checkpoint of its own, which has been made for what a run had saved in one."""
    return os.path.lexists(os.path.join(path, folders.FOR_OTHERS)) and not folders.is_complete(path)


def others_in(folder: str) -> List[str]:
    """What a run has saved that has gone on in a checkpoint's folder: folders, and TensorFlow's files of other names.

    So is the list of a dump to the folder itself, which stays with all that is not the checkpoint's; and the folder's
    lock while a job holds it, which may be about to save there for the first time.

    Raises CheckpointError where the system does not say.
    """
    return _others_besides(_saved_in(folder), folder)


def _saved_in(folder: str) -> Optional[manifest.Manifest]:
    """What a checkpoint's folder says that it has; None where it does not."""
    try:
        return manifest.read(folder)
    except CheckpointError:
        return None


def _own_name(saved: manifest.Manifest) -> str:
    """How TensorFlow's files of a checkpoint begin in its folder."""
    return folders.tensorflow_prefix("", saved.step)


def _others_besides(saved: Optional[manifest.Manifest], folder: str) -> List[str]:
    """As `others_in`, of a folder that says that it has `saved`."""
    entries = folders.entries(folder)
    found = [one for one in entries if _may_be_a_runs(one)]
    named = {os.path.splitext(one.name)[0] for one in found if one.name.endswith((".index", ".meta"))}
    if saved is not None:
        named.discard(_own_name(saved))
    elif not is_for_others(folder) and len(named) == 1:
        named = set()  # which name is its own, if it has one, nobody knows
    named.update(one.name for one in entries if one.name == dumps.LIST)
    if folder_lock.is_held(folder):
        named.add(folder_lock.NAME)
    return sorted(named.union(one.name for one in found if one.is_dir(follow_symlinks=False)))


def _may_be_a_runs(one: os.DirEntry) -> bool:
    """Whether a run may have saved it in a checkpoint's folder, or dumps it now; else a killed save has left it.

    One of a dead dump that is put aside counts: it may be all that there is.
    """
    if one.name[0] == ".":
        left = _OURS_LEFT.match(one.name)
        counts = bool(left.group(1) == "gone" and others_in(one.path)) if left else (
            folders.is_complete(one.path) or dumps.may_be_one(one.path))
        return counts or folder_lock.is_held(one.path, dumps.LOCK)
    return not _TENSORFLOWS_LEFT.match(one.name) or not all(
        inside.name.startswith("part-") for inside in folders.entries(one.path))


def _is_a_runs_state(saved: Optional[manifest.Manifest], folder: str) -> bool:
    """Whether TensorFlow's state file in a checkpoint's folder names something else than the checkpoint itself."""
    with open(os.path.join(folder, "checkpoint"), encoding="utf-8", errors="replace") as file:
        named = re.match(r'model_checkpoint_path: "(.*)"', file.read())
    return saved is None or named is None or os.path.basename(named.group(1)) != _own_name(saved)


def _takes_a_name(final: str, names: Set[str]) -> bool:
    """Whether a checkpoint's own files are called as some of these, of a run's checkpoints."""
    names = {name for name in names if folders.is_tensorflows(name)}
    return bool(names) and folders.is_complete(final) and not names.isdisjoint(manifest.read(final).files)


def remove_replaced(retired: str, final: str) -> None:
    """Removes a folder whose place another has; if a run has gone on in it, all that is the run's goes to that one.

    Where the system refuses it stays, and the next job's `remove_left` tries again. So it does, out of sight, where
    that one's own files are called as some of the run's, or these cannot be moved there; and where it is a dump, which
    got the name at the last moment.
    """
    try:
        if dumps.may_be_one(retired):
            return
        saved = _saved_in(retired)
        others = _others_besides(saved, retired)
        if others:
            own = {manifest.NAME, folders.FOR_OTHERS}.union(saved.files if saved else ())
            known = saved is not None or is_for_others(retired)
            # What makes `others_in` find something is the last that goes: whoever stops here, the next job goes on.
            for name in sorted(os.listdir(retired), key=lambda name: (
                    name in others, name.endswith(".meta"), name.endswith(".index"))):
                target = os.path.join(final, name)
                # Of the run's state and the new one's own the run's counts, as it did before.
                if name not in own and (name == "checkpoint" and _is_a_runs_state(saved, retired)
                                        or not os.path.lexists(target)):
                    os.rename(os.path.join(retired, name), target)
            if known and _takes_a_name(final, set(os.listdir(retired)).difference(own)):
                _count_no_more(retired, final)
                return
    except OSError as error:
        if error.errno == errno.EXDEV:  # a link to another disk, say: the run's is where it was, behind the link
            with contextlib.suppress(OSError):
                _count_no_more(retired, final)
        return
    except errors.CheckpointError:
        return
    remove([retired])


def _count_no_more(retired: str, final: str) -> None:
    """Has one that is replaced, and stays, not count again if its successor goes."""
    if retired.endswith(".old"):
        os.rename(retired, folders.hidden(final, folders.new_token(), "gone"))


def remove_followed(retired: str, final: str) -> None:
    """As `remove_replaced`, if a tf.train.Saver has saved the one replaced, whose links are the new one's from now on.

    Until they are it stays, for it tells whose they are.
    """
    with contextlib.suppress(errors.CheckpointError):
        links.follow(retired, final)
        remove_replaced(retired, final)


def _make_room(final: str) -> None:
    """Makes the folder, if it is not there, so that what a run has saved can be in it; a checkpoint may replace it."""
    if not os.path.lexists(final):
        os.makedirs(final)
    if not os.listdir(final):
        with open(os.path.join(final, folders.FOR_OTHERS), "w"):
            pass


def remove_left(path: str, final: str) -> None:
    """As `remove_replaced`, of a hidden folder that a save of `final` has left, or is done with, whatever has its name.

    In one that was being written no run has gone on. One that counts, for it is whole and the other is not, stays; so
    does what may be a dump's. An empty one may become a dump's, which makes it again where it is gone.
    """
    try:
        if dumps.may_be_one(path) or path.endswith(".old") and folders.is_complete(path) and not folders.is_complete(
                final):
            return
        if folders.is_empty(path):
            os.rmdir(path)
            return
        if path.endswith(".old"):
            links.follow(path, final)
        if not path.endswith(".tmp") and others_in(path):
            _make_room(final)
            remove_replaced(path, final)
        else:
            remove([path])
    except (OSError, errors.CheckpointError):
        pass  # the next job's


def remove(paths: List[str]) -> None:
    """Removes folders that nobody finds any more; says nothing of what the system refuses.

    What is put aside is called as gone first: half of it could be taken for what a dump has put aside. What a reader
    has open on some network file system cannot be removed now: it goes with the next job's leftovers. Of
    a link to a folder the link goes; the folder is where its user has put it, under a name that no save gave it.
    """
    for path in paths:
        if os.path.islink(path):
            with contextlib.suppress(OSError):
                os.unlink(path)
        else:
            if path.endswith(".old"):
                gone = path[:-len("old")] + "gone"
                with contextlib.suppress(OSError):
                    os.rename(path, gone)
                    path = gone
            folders.let_write(path)  # its user has protected it, and another has its place all the same
            shutil.rmtree(path, ignore_errors=True)
