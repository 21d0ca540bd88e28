"""Whether a key comes twice among those of a file, without all of them in memory."""
import numpy as np

# Keys that are compared with each other in memory at a time, at least, and in how many passes over all at most.
_COMPARED_AT_ONCE, _PASSES_AT_MOST = 2 << 20, 16


def repeated(passes, total):
    """A key that comes twice, or None.

    It takes as many passes as there are times 2^21 keys, but no more than 16, for each may be one over a large file. A
    pass has a part of the keys in memory, 16 bytes for each of them until they are sorted: up to 2^25 keys that is 32
    MB, beyond a byte for each key of `total`.

    Args:
      passes: function that begins one more pass over all keys: an iterator of int64 arrays.
      total: how many keys there are.
    """
    parts = min(-(-total // _COMPARED_AT_ONCE), _PASSES_AT_MOST)
    for part in range(parts):
        found = np.concatenate([keys[_part(keys, parts) == part] if parts > 1 else keys
                                for keys in passes()])
        found.sort()
        twice = np.flatnonzero(found[1:] == found[:-1])
        if twice.size:
            return int(found[twice[0]])
    return None


def _part(keys, parts):
    """Which part each key is of. The upper bits of the product decide, which depend on all bits of the key."""
    return ((keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
