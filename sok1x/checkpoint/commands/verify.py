"""Full verification of a checkpoint: every file, every block."""
import os
from typing import Iterator

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.progress import Progress


def faults(folder: str) -> Iterator[str]:
    """Yields a line for every file that is not what was saved; each names the file, and the table in it.

    Args:
        folder: The folder of one step.
    """
    try:
        checkpoint = Checkpoint(folder)
    except CheckpointError as error:
        yield str(error)
        return
    progress = Progress("verified", sum(file.bytes for file in checkpoint.manifest.files.values()))
    for name in checkpoint.manifest.other_files():
        try:
            checkpoint.check_other(name)
        except CheckpointError as error:
            yield str(error)
        progress(checkpoint.manifest.files[name].bytes)
    for _, table, part, rank in checkpoint.manifest.shard_files():
        try:
            checkpoint.check_shard(table, part, rank, progress)
        except CheckpointError as error:
            yield str(error)


def summary(folder: str) -> str:
    """What a checkpoint without faults consists of, in one line."""
    files = Checkpoint(folder).manifest.files
    return "{}: {} files, {} bytes, no fault".format(os.path.normpath(folder), len(files) + 1,
                                                     sum(file.bytes for file in files.values()))
