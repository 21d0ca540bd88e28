"""Tables in the files of SOK 2.x: `sok.dump` and `sok.load`.

The files:
    layout           their bytes: heads, and meta_info
    slot_names       what optimizers and their slots are called in them
    table_files      those of one table, open and checked
    folder           the folder that they appear in, all at once

In a session, all ranks together:
    call             what both functions are given, looked at
    transfers        the ops that move a shard
    slot_numbers     what slots begin with
    shard_sink       a rank's rows into the files
    shard_source     and out of them
    dumping          `sok.dump`
    loading          `sok.load`
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.dump_load.dumping import dump
    from sok1x.dump_load.loading import load

__all__ = ["dump", "load"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"dump": "dumping", "load": "loading"})
