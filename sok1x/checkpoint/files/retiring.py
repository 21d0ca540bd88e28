"""Which checkpoints of a folder stay, and the removal of the others and of what dead jobs left (folders.py)."""
import os
from typing import List, Optional

from sok1x.checkpoint import errors
from sok1x.checkpoint.files import folders, giving_way, links
from sok1x.checkpoint.files.folder_lock import FolderLock


def kept(directory: str, keep: Optional[int], saved: Optional[int] = None,
         found: Optional[List[folders.Found]] = None) -> List[folders.Found]:
    """The checkpoints that `retire` leaves, the one of the greatest step last, as TensorFlow's state file has them."""
    found = folders.complete(directory) if found is None else found
    if keep:
        # A run that has gone back to an earlier step keeps what it saves, before what it has gone back from.
        ours = [one for one in found if saved is None or one.step <= saved]
        found = (ours + [one for one in found if one not in ours])[:keep]
    return sorted(found)


def retire(lock: FolderLock, keep: Optional[int], saved: Optional[int] = None,
           found: Optional[List[folders.Found]] = None) -> List[str]:
    """Takes the checkpoints of the least steps out of sight until `keep` are left; None or 0 keeps all.

    Args:
        lock: on their folder.
        keep: how many stay.
        saved: the step that has just been saved; those of later steps go first, of a run that went back from them.
        found: those that there are, as `folders.complete` gives them; None: looks.

    One in whose folder another run has gone on stays, and one that another thread's save replaces now. So does one that
    its user protects: its folder may not be written to, so it could be put out of sight, and not removed.

    Returns:
        What is for `giving_way.remove`: file by file that may take long, and nobody finds it any more.

    Raises:
        CheckpointError: The system refuses.
    """
    lock.expect_held()
    retired: List[str] = []
    found = folders.complete(lock.directory) if found is None else found
    staying = {one.folder for one in kept(lock.directory, keep, saved, found)}
    for one in found:
        if one.folder in staying or folders.is_at_work(one.folder) or giving_way.others_in(one.folder) \
                or not os.access(one.folder, os.W_OK | os.X_OK):
            continue
        final = folders.step_folder(lock.directory, one.step)
        links.remove(one.folder, final)  # if a tf.train.Saver has saved it; before, so that no half of it is found
        gone = folders.hidden(final, folders.new_token(), "gone")
        try:
            os.rename(one.folder, gone)
        except FileNotFoundError:  # its user has removed it, or another thread's save
            continue
        except OSError as error:
            giving_way.remove(retired)  # nobody else knows of these
            raise errors.of_write(error, one.folder) from None
        retired.append(gone)
    return retired


def remove_leftovers(lock: FolderLock) -> None:
    """Removes what jobs left that died while they saved. The lock tells that no other job is at work.

    Raises:
        WriteError: The system refuses to give a checkpoint its name back that was about to be replaced.
    """
    lock.expect_held()
    links.remove_left(lock.directory, folders.BASENAME.replace(".", r"\.") + "-[0-9]+" + links.ENDINGS)
    for entry in sorted(folders.entries(lock.directory), key=lambda one: one.name):
        hidden = folders.HIDDEN.match(entry.name)
        if not hidden or not entry.is_dir(follow_symlinks=False) or hidden.group(2) in folders.at_work:
            continue
        final = folders.step_folder(lock.directory, int(hidden.group(1)))
        if hidden.group(3) == "old" and not os.path.lexists(final) and folders.is_complete(entry.path):
            try:
                os.rename(entry.path, final)
            except OSError as error:
                raise errors.of_write(error, final) from None
        else:
            giving_way.remove_left(entry.path, final)
