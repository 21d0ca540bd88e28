"""What becomes of an EmbeddingVariable's options here; those without a counterpart are refused by name."""
import math
from typing import Any, Dict, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.options.given_numbers import integer, is_number
from sok1x.cuda_kernels.admission import MOST_COUNT
from sok1x.cuda_kernels.row_init import MOST_POOL
from sok1x.deeprec import options
from sok1x.deeprec.storage_types import CacheStrategy, StorageType

_SIZE = 1 << 30
_IN_HBM = (None, StorageType.DEFAULT, StorageType.HBM)


class Meaning(NamedTuple):
    """Of options.

    Attributes:
        var_type: of the `sok.DynamicVariable`. on_host: whether it lies in host memory, whatever device there is.
        options: its others.
        steps_to_live, l2_threshold: which rows leave when it is saved; None: none.
        init: how rows begin.
    """

    var_type: str
    on_host: bool
    options: Dict[str, Any]
    steps_to_live: Optional[int]
    l2_threshold: Optional[float]
    init: options.InitializerOption


def of(label: str, option: Any, steps_to_live: Any = None) -> Meaning:
    """What becomes of options.

    Args:
        label: of the variable, for messages.
        option: an `EmbeddingVariableOption`; None: one with nothing in it.
        steps_to_live: as of a `GlobalStepEvict`: where older scripts have it.

    Raises:
        TypeError: something of another type.
        ValueError: something out of range, or without a counterpart.
    """
    option = options.EmbeddingVariableOption() if option is None else option
    _expect(label, "ev_option", option, options.EmbeddingVariableOption)
    refuse(label, "ht_type", option.ht_type, "", "there is one kind of hash table")
    refuse(label, "ht_partition_num", option.ht_partition_num, 1000, "the hash table has one part on each rank")
    if option.ckpt is not None:
        _expect(label, "ckpt", option.ckpt, options.CheckpointOption)
        for name, unset in vars(options.CheckpointOption()).items():
            refuse(label, "ckpt." + name, getattr(option.ckpt, name), unset, "restore by tf.train.Saver or "
                    "sok1x.CheckpointManager")
    evict = option.evict_option
    if steps_to_live is not None:
        if evict is not None:
            raise ValueError("{}: got steps_to_live={!r} and evict_option={!r}, expected one of them".format(
                label, steps_to_live, evict))
        evict = options.GlobalStepEvict(steps_to_live)
    steps, threshold = _leaving(label, evict)
    _expect(label, "init_option", option.init_option, options.InitializerOption)
    pool = option.init_option.default_value_dim
    if pool is not None:
        integer(label + ": init_option.default_value_dim", pool, 1)
        if pool > MOST_POOL:
            raise ValueError("{}: init_option.default_value_dim: got {}, expected at most {}".format(
                label, pool, MOST_POOL))
    absent = option.init_option.default_value_no_permission
    _number(label, "init_option.default_value_no_permission", absent)
    made = _admission(label, option.filter_option)
    if made:
        made["absent_value"] = float(absent)
    elif absent and option.filter_option is not None:
        raise ValueError("{}: init_option.default_value_no_permission: got {!r} with filter_option.filter_freq {}, "
                         "where every key is let in: expected a filter_freq of 2 or more".format(
                             label, absent, option.filter_option.filter_freq))
    elif absent:
        raise ValueError("{}: init_option.default_value_no_permission: got {!r} without filter_option, where every key "
                         "is let in: give a CounterFilter or CBFFilter as well".format(label, absent))
    storage = option.storage_option
    _expect(label, "storage_option", storage, options.StorageOption)
    if steps is not None or threshold is not None:
        made.update(leaves_when_asked=True, remember_evicted=evict.remember_evicted)
        if storage.storage_type == StorageType.HBM_DRAM:  # also without a GPU, where the table would have no cache
            raise ValueError("{}: storage_option.storage_type: got HBM_DRAM with evict_option {}, which cannot have "
                             "rows leave that lie in host memory behind a cache: expected HBM or DRAM, or no "
                             "evict_option".format(label, type(evict).__name__))
    made.update(_storage(label, storage))
    return Meaning("hybrid" if storage.storage_type == StorageType.HBM_DRAM else "hbm",
                   storage.storage_type == StorageType.DRAM, made, steps, threshold, option.init_option)


def _leaving(label: str, evict: Any) -> Any:
    """(steps, threshold), at most one of them not None."""
    if evict is None:
        return None, None
    _expect(label, "evict_option", evict, options.GlobalStepEvict, options.L2WeightEvict)
    if isinstance(evict, options.GlobalStepEvict):
        steps = evict.steps_to_live
        if steps is not None:
            integer(label + ": evict_option.steps_to_live", steps, 0)
        return (int(steps) if steps else None), None
    threshold = evict.l2_weight_threshold
    _number(label, "evict_option.l2_weight_threshold", threshold)
    return None, (float(threshold) if threshold >= 0 else None)


def _admission(label: str, given: Any) -> Dict[str, Any]:
    if given is None:
        return {}
    _expect(label, "filter_option", given, options.CounterFilter, options.CBFFilter)
    what = "filter_option.filter_freq"
    integer("{}: {}".format(label, what), given.filter_freq, 0)
    if given.filter_freq > MOST_COUNT:
        raise ValueError("{}: {}: got {}, expected at most {}".format(
            label, what, given.filter_freq, MOST_COUNT))
    made: Dict[str, Any] = {}
    if isinstance(given, options.CBFFilter):
        made = _counters(label, given)
    return dict(made, admit_after=int(given.filter_freq)) if given.filter_freq > 1 else {}


def _counters(label: str, given: options.CBFFilter) -> Dict[str, Any]:
    """How many counters each of the sketch's four rows needs: n keys leave a counter of w at 0 with e^(-n / w). So many
    that these keys are not taken for too many by chance: cuda_kernels/admission.py."""
    size, probability = given.max_element_size, given.false_positive_probability
    integer(label + ": filter_option.max_element_size", size, 0)
    _number(label, "filter_option.false_positive_probability", probability)
    if given.counter_type is not None and given.counter_type not in (tf.uint8, tf.uint16, tf.uint32, tf.uint64):
        raise ValueError("{}: filter_option.counter_type: got {!r}, expected tf.uint8, tf.uint16, tf.uint32 or "
                         "tf.uint64".format(label, given.counter_type))
    if not size or probability < 0:
        return {}
    if not 0 < probability < 1:
        raise ValueError("{}: filter_option.false_positive_probability: got {}, expected a probability above 0 and "
                         "below 1".format(label, probability))
    return {"admission_counters": max(256, size, math.ceil(size / -math.log(1 - probability ** 0.25)))}


def _storage(label: str, storage: options.StorageOption) -> Dict[str, Any]:
    kind = storage.storage_type
    if kind not in _IN_HBM + (StorageType.DRAM, StorageType.HBM_DRAM):
        known = [name for name, value in StorageType.__members__.items() if value == kind]
        raise ValueError("{}: storage_option.storage_type: got {}, expected HBM, DRAM or HBM_DRAM of "
                         "config_pb2.StorageType: rows are in the memory of the device, in host memory or in both; "
                         "nothing is kept in files or persistent memory".format(
                             label, known[0] if known else repr(kind)))
    refuse(label, "storage_option.storage_path", storage.storage_path, None, "nothing is kept in files")
    refuse(label, "storage_option.layout", storage.layout, None, "rows lie as they do")
    if storage.cache_strategy not in tuple(CacheStrategy):
        raise ValueError("{}: storage_option.cache_strategy: got {!r}, expected CacheStrategy.LRU or CacheStrategy.LFU"
                         .format(label, storage.cache_strategy))
    sizes = storage.storage_size
    if kind != StorageType.HBM_DRAM:
        if sizes is not None and list(_sizes(label, sizes)) != [_SIZE]:  # DeepRec's default
            raise ValueError("{}: storage_option.storage_size: got {!r} with storage_type {}, expected none: the table "
                             "has as many rows as there is memory for; HBM_DRAM has a size".format(
                                 label, sizes, "None" if kind is None else StorageType(kind).name))
        return {}
    return {"max_hbm_for_vectors": (_SIZE if sizes is None else _sizes(label, sizes)[0]) / 2.0 ** 30,
            "cache_strategy": CacheStrategy(storage.cache_strategy).name.lower()}


def _sizes(label: str, sizes: Any) -> Any:
    if not isinstance(sizes, (list, tuple)) or not 1 <= len(sizes) <= 4:
        raise ValueError("{}: storage_option.storage_size: got {!r}, expected a list of bytes, one for each "
                         "memory".format(label, sizes))
    for size in sizes:
        integer(label + ": storage_option.storage_size", size, 1)
    return sizes


def _expect(label: str, what: str, value: Any, *kinds: type) -> None:
    if not isinstance(value, kinds):
        raise TypeError("{}: {}: got {!r} of type {}, expected {}".format(
            label, what, value, type(value).__name__, " or ".join(kind.__name__ for kind in kinds)))


def refuse(label: str, what: str, value: Any, unset: Any, why: str) -> None:
    """Raises ValueError where something is set that has no counterpart."""
    if value != unset:
        raise ValueError("{}: {}: got {!r}, expected {!r}: it has no counterpart in sok1x ({})".format(
            label, what, value, unset, why))


def _number(label: str, what: str, value: Any) -> None:
    if not is_number(value) or not math.isfinite(value):
        raise TypeError("{}: {}: got {!r}, expected a finite number".format(label, what, value))
