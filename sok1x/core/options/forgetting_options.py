"""What users say of rows that leave and of keys that get none: the options of tables that forget."""
import math
from typing import Any, Dict, NamedTuple, Optional

from sok1x.core.eagerly import eager
from sok1x.core.options.capacities import Capacity
from sok1x.core.options.given_numbers import integer, is_number
from sok1x.cuda_kernels.admission import MOST_COUNT
from sok1x.graph_ops.stores.forgetting import STRATEGIES, TTL, Forgetting
from sok1x.graph_ops.stores.table import Growth

_COUNTERS = 1 << 20  # of a sketch, where the table has no largest size
_REMEMBERED = 1 << 16  # keys that have left: 1 MiB, where it has none


class ForgettingOptions(NamedTuple):
    """Options of tables that forget, with what they are by default: all rows stay, and all keys get one.

    Args:
        evict_strategy: which rows leave when keys need more than `max_capacity`: 'lru', those that no training lookup
            has asked for the longest; 'lfu', those that the fewest training lookups have asked for; 'ttl', those that
            have not changed in the last `time_to_live` steps, and no others. SOK's 'kLru' and 'kLfu' are these too.
            None: no row leaves.
        time_to_live: steps, for 'ttl'; as `sok.incremental_dump` counts them.
        remember_evicted: how many keys that have left are remembered, the last ones, for `sok.evicted_keys`: 16
            bytes each. None: a quarter of `max_capacity`; 2**16 without, where rows leave when asked.
        filter_ratio: the probability, above 0 and at most 1, with which a lookup with `use_low_frequency_filter` gives
            a new key a row. It is drawn anew in each lookup.
        admit_after: a new key gets a row in the training lookup that is the so manieth to ask for it; until then it
            reads its initial values, and is not trained. Checkpoints have the counts; `sok.dump` has not.
        admission_counters: what counts these lookups has so many counters in each of four rows, rounded up to a power
            of two; a byte each, with `admit_after` from 256 on two bytes, from 65536 on four. So many different keys
            can be counted, on each rank, those that get rows included: each gets its row when it is due, or earlier.
            Where more come, counters are halved again and again, and a key may get its row late, or never, that does
            not come `admit_after` times while so many others (with 16 and more `admit_after // 8` times as many) are
            counted. With `admit_after` below 8 a new key is taken for one that has been asked for before with a
            probability of at most 23 %, and of 2.4 % while there are half as many; with more, for one that has been
            asked for a quarter as often as it must, in the mean at most. (Of fewer than 16384 counters it is 26 %, and
            more if one lookup brings many new keys.) None: `max_capacity`, or 2**20 without.
        absent_value: what all floats of a key are that has no row; None: its initial row.
        leaves_when_asked: whether rows may leave by `graph_ops.operations.evictions.evict`, though none must.

    Example:
        >>> from sok1x.core.options.forgetting_options import ForgettingOptions
        >>> ForgettingOptions(evict_strategy="lru").filter_ratio
        1.0
    """

    evict_strategy: Optional[str] = None
    time_to_live: Optional[int] = None
    remember_evicted: Optional[int] = None
    filter_ratio: float = 1.0
    admit_after: int = 1
    admission_counters: Optional[int] = None
    absent_value: Optional[float] = None
    leaves_when_asked: bool = False


def resolve(label: str, capacity: Capacity, use_hashtable: bool, options: Dict[str, Any]) -> "Resolved":
    """How a table forgets that a user describes.

    Args:
        label: what to call it in messages.
        capacity: as `capacities.resolve` has it.
        use_hashtable: whether the table has an index.
        options: those of `ForgettingOptions` that are given.

    Returns:
        A `Resolved`.

    Raises:
        TypeError: an unknown option, or one of another type.
        ValueError: an option out of range, or options that do not fit one another.

    Example:
        >>> from sok1x.core.options import capacities, forgetting_options
        >>> capacity = capacities.resolve("table", None, True, None, 100)
        >>> made = forgetting_options.resolve("table", capacity, True, {"evict_strategy": "kLru"})
        >>> made.forgetting.strategy, made.forgetting.remembered
        ('lru', 25)
    """
    unknown = sorted(set(options) - set(ForgettingOptions._fields))
    if unknown:
        raise TypeError("{}: got the unknown option{} {}; known are {}".format(
            label, "s" if len(unknown) > 1 else "", ", ".join(unknown), ", ".join(ForgettingOptions._fields)))
    given = ForgettingOptions(**options)
    if given == ForgettingOptions():
        return Resolved(capacity, None)
    if not isinstance(given.leaves_when_asked, bool):
        raise TypeError("{}: leaves_when_asked: got {!r} of type {}, expected True or False".format(
            label, given.leaves_when_asked, type(given.leaves_when_asked).__name__))
    if not use_hashtable:
        raise ValueError("{}: got {} and use_hashtable=False: without an index every key has its row for good".format(
            label, _said(given)))
    strategy = _strategy(label, given)
    growth = capacity.growth or Growth(capacity.rows, eager.container())
    if strategy and growth.most is None:
        raise ValueError("{}: evict_strategy: got {!r} and no max_capacity, expected the most rows that this rank may "
                         "have: rows leave when keys need more".format(label, given.evict_strategy))
    remembered = 0
    if strategy or given.leaves_when_asked:
        usual = _REMEMBERED if growth.most is None else growth.most // 4
        remembered = usual if given.remember_evicted is None else integer(
            label + ": remember_evicted", given.remember_evicted, 0, 2 ** 40)
    elif given.remember_evicted is not None:
        raise ValueError("{}: remember_evicted: got {} without evict_strategy: no key ever leaves".format(
            label, given.remember_evicted))
    admit_after = integer(label + ": admit_after", given.admit_after, 1, MOST_COUNT)
    counters = 0
    if admit_after > 1:
        counters = growth.most or _COUNTERS
        if given.admission_counters is not None:
            counters = integer(label + ": admission_counters", given.admission_counters, 1, 2 ** 40)
        counters = 1 << max(3, (counters - 1).bit_length())
    elif given.admission_counters is not None:
        raise ValueError("{}: admission_counters: got {} without admit_after: nothing is counted".format(
            label, given.admission_counters))
    forgetting = Forgetting(strategy, given.time_to_live or 0, remembered, _ratio(label, given.filter_ratio),
                            admit_after, counters, _absent(label, given.absent_value))
    return Resolved(Capacity(capacity.rows, growth), forgetting)


class Resolved(NamedTuple):
    """A table's capacity, which may change where it forgets, and how it does; None: not at all."""

    capacity: Capacity
    forgetting: Optional[Forgetting]


def _said(given: ForgettingOptions) -> str:
    return ", ".join("{}={!r}".format(name, value) for name, value in given._asdict().items()
                     if value != given._field_defaults[name])


def _strategy(label: str, given: ForgettingOptions) -> str:
    strategy = given.evict_strategy
    if strategy is None:
        name = ""
    elif isinstance(strategy, str):
        name = strategy.lower()
        name = name[1:] if name in ("klru", "klfu") else name
    else:
        raise TypeError("{}: evict_strategy: got {!r} of type {}, expected a word".format(
            label, strategy, type(strategy).__name__))
    if name not in STRATEGIES + ("",) or strategy == "":
        raise ValueError("{}: evict_strategy: got {!r}, expected one of {}, or None".format(
            label, strategy, ", ".join(map(repr, STRATEGIES))))
    if (name == TTL) != (given.time_to_live is not None):
        raise ValueError("{}: got evict_strategy={!r} and time_to_live={!r}, expected time_to_live, in steps, with "
                         "'ttl' and with nothing else".format(label, strategy, given.time_to_live))
    if name == TTL:
        integer(label + ": time_to_live", given.time_to_live, 1, 2 ** 60)
    return name


def _ratio(label: str, value: Any) -> float:
    if not is_number(value):
        raise TypeError("{}: filter_ratio: got {!r} of type {}, expected a number".format(
            label, value, type(value).__name__))
    if not 0 < float(value) <= 1:
        raise ValueError("{}: filter_ratio: got {}, expected a probability above 0 and at most 1".format(label, value))
    return float(value)


def _absent(label: str, value: Any) -> Optional[float]:
    if value is None:
        return None
    if not is_number(value):
        raise TypeError("{}: absent_value: got {!r} of type {}, expected a number".format(
            label, value, type(value).__name__))
    if not math.isfinite(float(value)):
        raise ValueError("{}: absent_value: got {}, expected a finite number".format(label, value))
    return float(value)
