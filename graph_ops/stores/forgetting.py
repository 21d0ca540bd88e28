"""How a table forgets rows that it has no room for, and which new keys it gives rows: its description."""
from typing import NamedTuple, Optional, Tuple

from sok1x.cuda_kernels import admission

LRU, LFU, TTL = "lru", "lfu", "ttl"
STRATEGIES = (LRU, LFU, TTL)

SHARE = 16  # at least one of so many rows leaves when any does, if so many may: so that most steps need not look

# A table's variables besides, where it forgets: see `ForgetfulStore`.
VARIABLES = ("used", "free", "counters", "frequency", "evicted", "sketch")
SCORES = ("used", "frequency")  # of these what a checkpoint has; without them all rows are alike
TICK, FREE, EVICTED, KNOWN, ADMITTED, REFUSED = range(6)  # places in `counters`

UNKNOWN_STEP = 2 ** 62  # in KNOWN; what is above it: see `unknown_after`


def unknown_after(noted: int, clock: int) -> int:
    """What KNOWN becomes when a table's rows are replaced, its clock too perhaps: nothing is known of what was before.

    Whoever has followed the table has steps up to the highest that it has shown, and these are of other rows.

    Args:
      noted: what KNOWN is. clock: the last step.
    """
    return UNKNOWN_STEP + max(clock, noted - UNKNOWN_STEP if noted >= UNKNOWN_STEP else noted - 1, 0)


def known_since(noted: int, clock: int) -> int:
    """The first step after which all keys are known that have left: as kernel begin_lookup notes it.

    Keys leave at the step that follows the last one, too: between two steps, as when the table is saved, or in lookups
    that train nothing. Those that have left so and were not saved are unknown to whoever asks since the last step.

    Args:
      noted: what KNOWN is. clock: the last step.
    """
    if noted < UNKNOWN_STEP:
        return max(noted, 0)
    return max(noted - UNKNOWN_STEP, clock) + 1


class Forgetting(NamedTuple):
    """See the module's text.

    Attributes:
      strategy: which rows leave when keys need more than `Growth.most`: 'lru', those that no training lookup has asked
        for the longest; 'lfu', those that the fewest have asked for; 'ttl', all that have not changed in the last
        `time_to_live` steps, and no others; '': none.
      time_to_live: in steps of the table's clock, for 'ttl'.
      remembered: keys that have left of which the last so many are known to incremental dumps.
      filter_ratio: the probability with which a lookup that filters gives a new key a row.
      admit_after: the number of training lookups, from the first that asks for a key, of which the last gives it a row.
      sketch_width: counters in each row of the sketch that counts them; 0: none.
      absent: what all floats of a key are that has no row; None: it reads its initial row.
      counts_uses: whether it is counted how often each row is asked for, also where the strategy is another than 'lfu'.
    """

    strategy: str = ""
    time_to_live: int = 0
    remembered: int = 0
    filter_ratio: float = 1.0
    admit_after: int = 1
    sketch_width: int = 0
    absent: Optional[float] = None
    counts_uses: bool = False

    def label(self) -> str:
        """What all ranks must agree on, in one line."""
        return ", ".join("{}={}".format(name, value) for name, value in self._asdict().items()
                         if value != self._field_defaults[name])

    @property
    def filters(self) -> bool:
        """Whether a key that a training lookup asks for may get no row."""
        return self.filter_ratio < 1 or self.admit_after > 1

    @property
    def sketch_shape(self) -> Optional[Tuple[int, int]]:
        """How many counters each row of the sketch has, and of how many bits, (0, 0) without one; None where it does
        not filter."""
        if not self.filters:
            return None
        return (self.sketch_width, admission.counter_bits(self.admit_after)) if self.sketch_width else (0, 0)

    def shape_of(self, variable: str, rows: Optional[int]) -> Optional[Tuple[Optional[int], ...]]:
        """Of one of `VARIABLES`, with V rows; None where the table does not have it."""
        if variable in ("used", "free"):
            return (rows,)
        if variable == "frequency":
            return (rows,) if self.strategy == LFU or self.counts_uses else None
        if variable == "counters":
            return (REFUSED + 1,)
        if variable == "evicted":
            return (self.remembered, 2) if self.remembered else None
        return (admission.sketch_words(self.sketch_width, self.admit_after),) if self.sketch_width else None
