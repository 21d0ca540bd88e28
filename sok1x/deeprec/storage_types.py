"""Where rows may be kept, in DeepRec's words: what its scripts import as `config_pb2`.

`from tensorflow.core.framework.embedding import config_pb2` gives this module after `sok1x.install_as_deeprec()`.
"""
import enum


class StorageType(enum.IntEnum):
    """Kinds of memory, and what they are in order of speed; see `StorageOption` for those that there are here.

    Example:
        >>> from sok1x.deeprec import storage_types
        >>> storage_types.StorageType.HBM_DRAM.name
        'HBM_DRAM'
    """

    DEFAULT = 0
    DRAM = 1
    PMEM_MEMKIND = 2
    PMEM_LIBPMEM = 3
    SSDHASH = 4
    LEVELDB = 5
    HBM = 6
    DRAM_PMEM = 11
    DRAM_SSDHASH = 12
    HBM_DRAM = 13
    DRAM_LEVELDB = 14
    DRAM_PMEM_SSDHASH = 101
    HBM_DRAM_SSDHASH = 102


class CacheStrategy(enum.IntEnum):
    """Which rows leave the faster of two memories first.

    Example:
        >>> from sok1x.deeprec import storage_types
        >>> storage_types.CacheStrategy.LFU.name
        'LFU'
    """

    LRU = 0
    LFU = 1


globals().update(StorageType.__members__)  # protobuf has an enum's values in the module, too
globals().update(CacheStrategy.__members__)
