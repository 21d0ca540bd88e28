"""What users say of tables whose rows are in host memory, and in part in a cache on the device."""
from typing import Any, Dict, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.options.capacities import Capacity
from sok1x.core.options.forgetting_options import Resolved
from sok1x.core.options.given_numbers import integer, is_number
from sok1x.cuda_kernels import gpu
from sok1x.graph_ops.stores.cache import STRATEGIES, Cache
from sok1x.graph_ops.stores.forgetting import LFU, LRU, Forgetting
from sok1x.graph_ops.stores.table import MOST_ROWS

_GIGABYTE = 1 << 30
_MOST_GIGABYTES = 2 ** 30


class CacheOptions(NamedTuple):
    """Options of tables that may be larger than the memory of the rank's device; by default all rows are there.

    All rows, with all that optimizers keep for them, are in host memory then, and those that were asked for last are
    also in a cache on the device: a training lookup has its keys come into it, and others go back for them.

    Args:
        max_hbm_for_vectors: GB (2**30 bytes) of the device's memory for rows, on a GPU: the cache has as many rows of
            4 D bytes. Stamps, scores and optimizers' slots come on top of it, and the index of all keys. On a host all
            rows are in host memory anyway, and there is no cache. 0 and None: no cache.
        cache_rows: the rows of the cache, in place of `max_hbm_for_vectors`; on a host too. With at least as many as
            `max_capacity` there is no cache.
        cache_strategy: which rows go back: 'lru', those that no training lookup has asked for the longest; 'lfu', those
            that the fewest have asked for. None: 'lfu' with evict_strategy='lfu', else 'lru'. Which rows leave the
            table at `max_capacity` says evict_strategy alone, of those in the cache too.
        max_pinned_memory: GB of host memory that may be pinned for this table on this rank; what is not pinned a GPU
            reaches through copies only, which is slower. None: as much as can be.

    The last two are errors where neither of the first two is given.

    Example:
        >>> from sok1x.core.options.cache_options import CacheOptions
        >>> CacheOptions(cache_rows=1000).max_pinned_memory is None
        True
    """

    max_hbm_for_vectors: Optional[float] = None
    cache_rows: Optional[int] = None
    cache_strategy: Optional[str] = None
    max_pinned_memory: Optional[float] = None


class WithCache(NamedTuple):
    """A table's capacity, of the cache where it has one, how it forgets, and the cache; None: it has none."""

    capacity: Capacity
    forgetting: Optional[Forgetting]
    cache: Optional[Cache]


def taken_out_of(options: Dict[str, Any]) -> CacheOptions:
    """The options of a cache among others.

    Args:
        options: of a table; those of `CacheOptions` are taken out.

    Returns:
        The `CacheOptions`.

    Example:
        >>> from sok1x.core.options import cache_options
        >>> options = {"cache_rows": 8, "evict_strategy": "lru"}
        >>> cache_options.taken_out_of(options).cache_rows, options
        (8, {'evict_strategy': 'lru'})
    """
    return CacheOptions(**{name: options.pop(name) for name in CacheOptions._fields if name in options})


def resolve(label: str, dim: int, resolved: Resolved, given: CacheOptions) -> WithCache:
    """The cache of a table that a user describes.

    Args:
        label: what to call it in messages.
        dim: D.
        resolved: its capacity, and how it forgets.
        given: what is said of the cache.

    Returns:
        A `WithCache`.

    Raises:
        TypeError: a number is none.
        ValueError: a number out of range, an unknown strategy, or a cache of a table that does not grow.

    Example:
        >>> from sok1x.core.options import cache_options, capacities, forgetting_options
        >>> capacity = capacities.resolve("table", None, True, None, 100)
        >>> made = forgetting_options.resolve("table", capacity, True, {})
        >>> cache_options.resolve("table", 4, made, cache_options.CacheOptions(cache_rows=10)).capacity.rows
        10
    """
    capacity, forgetting = resolved
    hbm = _gigabytes(label, "max_hbm_for_vectors", given.max_hbm_for_vectors)
    pinned = _gigabytes(label, "max_pinned_memory", given.max_pinned_memory)
    rows, strategy = given.cache_rows, given.cache_strategy
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError("{}: cache_strategy: got {!r}, expected None or one of {}".format(
            label, strategy, ", ".join(map(repr, STRATEGIES))))
    if rows is not None:
        rows = integer(label + ": cache_rows", rows, 1, MOST_ROWS)
    elif hbm and tf.test.is_built_with_cuda() and gpu.count():
        rows = min(MOST_ROWS, max(1, hbm // (4 * dim)))
    elif hbm is None and given != CacheOptions():
        raise ValueError("{}: got cache_strategy={!r} and max_pinned_memory={!r} without a cache, expected cache_rows "
                         "or max_hbm_for_vectors with them".format(label, strategy, given.max_pinned_memory))
    if rows is None:
        return WithCache(capacity, forgetting, None)
    if capacity.growth is None:
        raise ValueError("{}: got a cache of {} rows and a fixed number of {} rows; expected a table that grows, with "
                         "max_vocabulary_size_per_gpu=None".format(label, rows, capacity.rows))
    if capacity.growth.most is not None and rows >= capacity.growth.most:
        return WithCache(capacity, forgetting, None)
    forgetting = forgetting or Forgetting()
    strategy = strategy or (LFU if forgetting.strategy == LFU else LRU)
    if strategy == LFU and forgetting.strategy != LFU:
        forgetting = forgetting._replace(counts_uses=True)
    return WithCache(Capacity(rows, capacity.growth), forgetting, Cache(rows, strategy, pinned))


def _gigabytes(label: str, what: str, value: Any) -> Optional[int]:
    """Bytes."""
    if value is None:
        return None
    if not is_number(value):
        raise TypeError("{}: {}: got {!r} of type {}, expected a number of GB".format(
            label, what, value, type(value).__name__))
    if not 0 <= value <= _MOST_GIGABYTES:
        raise ValueError("{}: {}: got {!r}, expected a number of GB, 0 or more, and no bytes: at most {}".format(
            label, what, value, _MOST_GIGABYTES))
    return int(value * _GIGABYTE)
