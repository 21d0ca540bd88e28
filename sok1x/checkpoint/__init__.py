"""Checkpoints of whole training runs: every rank writes its shards, and any number of ranks reads them.

Rooms:
    files     what is on disk: shards, manifests, folders
    commands  what `python -m sok1x.checkpoint` does
    session   saved and restored in a session, by all ranks together
    savers    by way of TensorFlow's own Savers and hooks, and Keras
    eager     in eager programs

Everywhere:
    errors             what can be wrong
    tensorflow_errors  what TensorFlow says is wrong, likewise
    progress           a word on stderr, now and then
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.checkpoint.errors import CheckpointError

__all__ = ["CheckpointError"]
__getattr__, __dir__ = lazy.exports(globals(), {"CheckpointError": "errors"})
