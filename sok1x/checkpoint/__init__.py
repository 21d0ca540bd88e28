"""Checkpoints of whole training runs: every rank writes its shards, and any number of ranks reads them.

The files and folders, without TensorFlow:
    folders, folder_lock     a folder a step, and who may save
    prefixes                 the same under the prefixes that TensorFlow's Savers save to
    manifest                 manifest.json, what a checkpoint consists of
    shard_header, shard_writer, shard_reader, shard_names    a file a part of a table on a rank
    writing, reading         a table's rows to files, and from those of any number of ranks
    show, verify, export     what `python -m sok1x.checkpoint` does
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.checkpoint.errors import CheckpointError

__all__ = ["CheckpointError"]
__getattr__, __dir__ = lazy.exports(globals(), {"CheckpointError": "errors"})
