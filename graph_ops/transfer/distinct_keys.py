"""Whether a key comes twice among those of a file, in memory that does not grow with the table."""
import numpy as np

# Keys that are compared with each other in memory at a time.
_COMPARED_AT_ONCE = 2 << 20


def repeated(passes, total):
    """A key that comes twice, or None.

    Args:
      passes: function that begins one more pass over all keys: an iterator of int64 arrays.
      total: how many keys there are.
    """
    parts = -(-total // _COMPARED_AT_ONCE)
    for part in range(parts):
        found = np.concatenate([keys[_spread(keys) % np.uint64(parts) == part] if parts > 1 else keys
                                for keys in passes()])
        found.sort()
        twice = np.flatnonzero(found[1:] == found[:-1])
        if twice.size:
            return int(found[twice[0]])
    return None


def _spread(keys):
    """A number for each key that deals keys out evenly."""
    return (keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
