"""A checkpoint's folder while it is written, and when it gets its name (folders.py)."""
import contextlib
import os
from typing import Callable, Optional

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import folders, giving_way, shard_names


def expect_free(final: str, of_step: bool = False) -> None:
    """Raises CheckpointError where something else than a checkpoint has the name that a checkpoint is to get.

    An empty folder is in nobody's way; a save leaves one that dies in `giving_way.remove_left`.

    Args:
        final: the checkpoint's folder.
        of_step: whether it is that of a step below a checkpoint_dir. There links are not followed, and what is left of
            a checkpoint without its manifest, of which who restores is warned, gives way to what is saved anew.
    """
    if not os.path.lexists(final):
        return
    free = folders.is_complete(final) or giving_way.is_for_others(final) or folders.is_empty(final)
    if of_step:
        free = not os.path.islink(final) and (free or _is_left_of_one(final))
    if not free:
        raise CheckpointError("Cannot save to {}: there is something of that name that is no checkpoint of sok1x, and "
                              "the checkpoint's folder would be called so; move it away, or save elsewhere.{}".format(
                                  final, _of_tensorflows(final)))


def _of_tensorflows(final: str) -> str:
    """More advice where TensorFlow's files are there: it may be one of ours without tables that lost its manifest."""
    prefixes = sorted(one.name[:-len(".index")] for one in ([] if os.path.islink(final) else folders.entries(final))
                      if folders.is_tensorflows(one.name) and one.name.endswith(".index"))
    return "".join(" It has files of TensorFlow's, and no manifest.json that says who has saved them: tf.train.Saver()"
                   ".restore(session, '{}') restores what they have. If it is of no use, remove the folder.".format(
                       os.path.join(final, prefix)) for prefix in prefixes[:1])


def _is_left_of_one(path: str) -> bool:
    """Whether it is a step's folder with nothing in it but a shard and what else a checkpoint has.

    TensorFlow's files alone do not tell: they may be a whole checkpoint of a `tf.train.Saver` of one rank.
    """
    own = os.path.basename(path) + "."
    if not os.path.isdir(path):
        return False
    found = folders.entries(path)
    shards = [one.name for one in found if shard_names.is_file_name(one.name)]
    return bool(shards) and all(
        one.is_file(follow_symlinks=False) and (
            one.name == "checkpoint" or one.name in shards
            or one.name.startswith(own) and folders.is_tensorflows(one.name)) for one in found)


def make_temporary(final: str, token: str) -> str:
    """Makes the folder in which a checkpoint is written that will be `final`, and returns it. Raises WriteError."""
    directory, folder = os.path.dirname(final), folders.hidden(final, token, "tmp")
    try:
        os.makedirs(directory or ".", exist_ok=True)
        os.mkdir(folder)
    except OSError as error:
        raise errors.of_write(error, folder) from None
    return folder


def publish(temporary: str, directory: str, step: int) -> str:
    """Gives a checkpoint, written completely, its name; an older one of the same step is replaced.

    The files are on disk already (shard_writer.py, manifest.write, fsync_file for TensorFlow's); this sees to the
    folder's entries before, and to the name after.

    Returns:
        The checkpoint's folder.

    Raises:
        WriteError: The system refuses.
        CheckpointError: As `expect_free`: something else has got the name meanwhile.
    """
    final = folders.step_folder(directory, step)
    retired = _put_in_place(temporary, final, of_step=True)
    if retired:
        giving_way.remove_followed(retired, final)
    return final


def publish_as(temporary: str, final: str, link: Callable[[], None] = lambda: None) -> str:
    """As `publish`, to the folder `final`.

    Args:
        temporary, final: the folder while it was written, and from now on.
        link: gives it its links (links.py). Until they are there one that is replaced stays, as in
            `giving_way.remove_followed`.
    """
    retired = _put_in_place(temporary, final)
    link()
    if retired:
        giving_way.remove_replaced(retired, final)
    return final


def _put_in_place(temporary: str, final: str, of_step: bool = False) -> Optional[str]:
    """As `put_in_place`, of what is on the disk then. Raises CheckpointError."""
    try:
        folders.fsync_folder(temporary)
        expect_free(final, of_step)  # a dump may have got the name since it was asked first
        return put_in_place(temporary, final)
    except OSError as error:
        raise errors.of_write(error, final) from None


def put_in_place(temporary: str, final: str) -> Optional[str]:
    """Gives a folder its name; one that has it steps aside. Where that fails both are as they were.

    Returns:
        Where the one is now that was there; None where there was none.

    Raises:
        OSError, WriteError: The system refuses.
    """
    token = folders.new_token()
    retired = folders.hidden(final, token, "old") if os.path.lexists(final) else None
    done = []
    folders.at_work.add(token)
    try:
        for source, target in ([(final, retired)] if retired else []) + [(temporary, final)]:
            os.rename(source, target)
            done.append((source, target))
        folders.fsync_folder(os.path.dirname(final) or ".")
    except (OSError, errors.WriteError):
        with contextlib.suppress(OSError):  # what has failed first is told
            for source, target in reversed(done):
                os.rename(target, source)
        raise
    finally:
        folders.at_work.discard(token)
    return retired
