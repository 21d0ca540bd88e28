"""What an EmbeddingVariable may be told, under DeepRec's names; `meaning.py` says what becomes of it."""
from typing import Any, Optional

from sok1x.deeprec.storage_types import CacheStrategy


class _Option:
    """Compares and shows itself by its attributes."""

    def __repr__(self) -> str:
        return "{}({})".format(type(self).__name__, ", ".join(
            "{}={!r}".format(name, value) for name, value in sorted(vars(self).items())))

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class GlobalStepEvict(_Option):
    """Rows that have not changed for more than so many steps leave when the table is saved.

    Args:
        steps_to_live: as the table counts steps, see `sok.incremental_dump`; None or 0: none leave.
        remember_evicted: how many keys that have left `sok.evicted_keys` has on each rank, the last ones, 16 bytes
            each; None: 2**16. DeepRec has no such argument.

    Note:
        What is out of range `tf.get_embedding_variable` refuses, here and in the other options.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.GlobalStepEvict(steps_to_live=4000).steps_to_live
        4000
    """

    def __init__(self, steps_to_live: Optional[int] = None, remember_evicted: Optional[int] = None) -> None:
        self.steps_to_live, self.remember_evicted = steps_to_live, remember_evicted


class L2WeightEvict(_Option):
    """Rows whose `tf.nn.l2_loss`, half the sum of their squares, is below a threshold leave when the table is saved.

    Args:
        l2_weight_threshold: the threshold; below 0: none leave.
        threshold: the same, in fewer letters.
        remember_evicted: as of `GlobalStepEvict`.

    Raises:
        ValueError: both are given.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.L2WeightEvict(0.5).l2_weight_threshold
        0.5
    """

    def __init__(self, l2_weight_threshold: Optional[float] = None, threshold: Optional[float] = None,
                 remember_evicted: Optional[int] = None) -> None:
        if l2_weight_threshold is not None and threshold is not None:
            raise ValueError("L2WeightEvict: got l2_weight_threshold={!r} and threshold={!r}, which is the same, "
                             "expected one of them".format(l2_weight_threshold, threshold))
        given = threshold if l2_weight_threshold is None else l2_weight_threshold
        self.l2_weight_threshold = -1.0 if given is None else given
        self.remember_evicted = remember_evicted


class CounterFilter(_Option):
    """A key gets a row in the training lookup that is the so manieth to ask for it.

    A rank counts up to 2^20 different keys, those that get rows included: each gets its row when it is due, or earlier,
    for it may be taken for another. Where more come, rare ones may get theirs late, or never: see docs/table_sizes.md,
    `admit_after`.

    Args:
        filter_freq: which one; 0 and 1: the first.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.CounterFilter(filter_freq=3).filter_freq
        3
    """

    def __init__(self, filter_freq: int = 0) -> None:
        self.filter_freq = filter_freq


class CBFFilter(_Option):
    """As `CounterFilter`, with a size for what counts, which may take a key for one that it has seen.

    Args:
        filter_freq: as there.
        max_element_size: how many different keys are counted, on each rank, those that get rows included, before counts
            are halved. 0, or without `false_positive_probability`: as `CounterFilter`, whatever it is.
        false_positive_probability: how likely, with so many, a new one is taken for one that has been seen; where more
            come, up to 23 % (more where `max_element_size` is below 16,384). -1: none is given.
        counter_type: of DeepRec's counters: tf.uint8, uint16, uint32 or uint64 (None). Ours are as wide as
            `filter_freq` needs.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.CBFFilter(3, max_element_size=2 ** 20, false_positive_probability=0.01).max_element_size
        1048576
    """

    def __init__(self, filter_freq: int = 0, max_element_size: int = 0, false_positive_probability: float = -1.0,
                 counter_type: Any = None) -> None:
        self.filter_freq, self.max_element_size = filter_freq, max_element_size
        self.false_positive_probability, self.counter_type = false_positive_probability, counter_type


class StorageOption(_Option):
    """Where rows are.

    Args:
        storage_type: of `config_pb2.StorageType`: HBM or None, in the memory of the rank's device; DRAM, in host
            memory; HBM_DRAM, a `sok.DynamicVariable` of var_type 'hybrid'. There are no others.
        storage_path: None: nothing is kept in files.
        storage_size: bytes of each memory, fastest first, which has a meaning for HBM_DRAM alone: the first says how
            much of a GPU's memory rows may take; host memory has no limit. None: 1 GB.
        cache_strategy: of `config_pb2.CacheStrategy`, which has a meaning for HBM_DRAM alone: which rows go to host
            memory first.
        layout: None.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.StorageOption(deeprec.config_pb2.StorageType.HBM).storage_type.name
        'HBM'
    """

    def __init__(self, storage_type: Any = None, storage_path: Optional[str] = None, storage_size: Any = None,
                 cache_strategy: Any = CacheStrategy.LFU, layout: Any = None) -> None:
        self.storage_type, self.storage_path, self.storage_size = storage_type, storage_path, storage_size
        self.cache_strategy, self.layout = cache_strategy, layout


class InitializerOption(_Option):
    """How rows begin.

    Args:
        initializer: as for `tf.get_embedding_variable`, which this one overrides.
        default_value_dim: how many different rows there are for keys to begin with: key k begins with row k modulo
            default_value_dim. Initializers that scale with a matrix's shape (as tf.glorot_uniform_initializer) take it
            for the matrix's rows. None: each key begins with a row of its own, and these take 4096, DeepRec's default.
        default_value_no_permission: what all floats of a key are that a filter has not let in; 0.0 unless it is given,
            and not the key's initial row.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.InitializerOption(default_value_dim=1024).default_value_dim
        1024
    """

    def __init__(self, initializer: Any = None, default_value_dim: Optional[int] = None,
                 default_value_no_permission: float = 0.0) -> None:
        self.initializer, self.default_value_dim = initializer, default_value_dim
        self.default_value_no_permission = default_value_no_permission


class CheckpointOption(_Option):
    """DeepRec's way to begin with rows of other checkpoints, for which there is no counterpart.

    An EmbeddingVariable that is given one with anything in it is refused: restore by `tf.train.Saver`.

    Args:
        ckpt_to_load_from: None.
        tensor_name_in_ckpt: None.
        always_load_from_specific_ckpt: False.
        init_data_source: None.

    Example:
        >>> from sok1x import deeprec
        >>> deeprec.CheckpointOption("saved").ckpt_to_load_from
        'saved'
    """

    def __init__(self, ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None,
                 always_load_from_specific_ckpt: bool = False, init_data_source: Any = None) -> None:
        self.ckpt_to_load_from, self.tensor_name_in_ckpt = ckpt_to_load_from, tensor_name_in_ckpt
        self.always_load_from_specific_ckpt, self.init_data_source = always_load_from_specific_ckpt, init_data_source


class EmbeddingVariableOption(_Option):
    """All of these together.

    Args:
        ht_type: '': DeepRec's choice of a hash table, for which there is no counterpart.
        ht_partition_num: 1000, likewise.
        evict_option: a `GlobalStepEvict` or `L2WeightEvict`, or None.
        ckpt: a `CheckpointOption` with nothing in it, or None.
        filter_option: a `CounterFilter` or `CBFFilter`, or None.
        storage_option: a `StorageOption`, or None.
        init_option: an `InitializerOption`, or None.

    Example:
        >>> from sok1x import deeprec
        >>> option = deeprec.EmbeddingVariableOption(filter_option=deeprec.CounterFilter(3))
        >>> option.filter_option
        CounterFilter(filter_freq=3)
    """

    def __init__(self, ht_type: str = "", ht_partition_num: int = 1000, evict_option: Any = None, ckpt: Any = None,
                 filter_option: Any = None, storage_option: Any = None, init_option: Any = None) -> None:
        self.ht_type, self.ht_partition_num = ht_type, ht_partition_num
        self.evict_option, self.ckpt, self.filter_option = evict_option, ckpt, filter_option
        self.storage_option = StorageOption() if storage_option is None else storage_option
        self.init_option = InitializerOption() if init_option is None else init_option
