"""What an embedding table is to the ops: a description that travels in their configs and never changes."""
import hashlib
import math
from typing import NamedTuple, Optional, Tuple

from sok1x.graph_ops.stores.cache import Cache
from sok1x.graph_ops.stores.forgetting import Forgetting
from sok1x.graph_ops.stores.placement import BY_KEY, Placement

HASHED, DIRECT = "hashed", "direct"  # the kinds of tables: see `stores.store.KINDS`
MOST_ROWS = 2 ** 31 - 1  # row numbers are int32


class Initializer(NamedTuple):
    """How a table's rows begin.

    Attributes:
      kind: 'zeros', 'constant' (a), 'uniform' (from a to b), 'normal', 'truncated_normal' (mean a, deviation b): rows
        are a function of (seed, table, key); 'variance_scaling' (scale, mode, distribution): likewise, with the fans of
        the whole [V * N, D] matrix; 'by_row': the variable's own initial value holds them.
      pool: how many different rows keys begin with: key k with that of key k % pool; 0: each key has its own.
    """

    kind: str
    a: float = 0.0
    b: float = 0.0
    scale: float = 1.0
    mode: str = ""
    distribution: str = ""
    pool: int = 0


class Growth(NamedTuple):
    """How a table's shard gets more rows when keys need them.

    Attributes:
      most: rows that a rank never has more of; None: as many as there is memory for.
      container: of the table's variables, as `tf.container` has it: growth finds them by name.
    """

    most: Optional[int] = None
    container: str = ""


class Table(NamedTuple):
    """An embedding table's shard on this rank.

    Attributes:
      name: the table's name, equal on all ranks: its variable's.
      rows: V, rows of this rank's shard; of a table that grows, those that it begins with. dim: D, floats a row.
      kind: HASHED: an index maps keys to rows. DIRECT: a key says itself which row of its owner it is.
      key_dtype: 'int64', 'uint32' or 'int32'.
      initializer: how rows begin.
      placement: which rank has which keys.
      keys: of a table without index, how many keys there are, from 0 on; None: V rows on each rank, all of them keys.
      dtype: of the rows. Lookups and optimizers take 'float32' alone.
      growth: how it grows; None: it has V rows for good. A store knows how many there are: `Store.capacity`.
      forgetting: which rows leave when it is at its largest, and which keys get rows; None: no row leaves, all get one.
      cache: of a table whose rows are in the host's memory, what of them the variables have; `rows` are its rows then,
        and `forgetting` is there, if only with what it is by default. None: the variables have all.
      counted_name: what SOK 1.x calls it, `EmbeddingVariable` and a number, where that is not its name: its Saver's
        files are called so, and initial rows are a function of it, as they were before layers' names were in names.
      former_name: what an earlier sok1x called it, where that is neither: what was saved then is found by it, and
        nothing else knows it.
    """

    name: str
    rows: int
    dim: int
    kind: str
    key_dtype: str
    initializer: Initializer
    placement: Placement = BY_KEY
    keys: Optional[int] = None
    dtype: str = "float32"
    growth: Optional[Growth] = None
    forgetting: Optional[Forgetting] = None
    cache: Optional[Cache] = None
    counted_name: str = ""
    former_name: str = ""

    @property
    def kit_name(self) -> str:
        """What SOK calls it: a variable's `m_var_name`."""
        return self.counted_name or self.name

    @property
    def saved_name(self) -> str:
        """What it is called where an earlier sok1x has saved it."""
        return self.former_name or self.kit_name

    @property
    def grows(self) -> bool:
        """Whether V changes; see `growth`."""
        return self.growth is not None

    @property
    def most_rows(self) -> int:
        """Rows that this rank's shard never has more of."""
        if self.growth is None:
            return self.rows
        return MOST_ROWS if self.growth.most is None else self.growth.most

    @property
    def static_rows(self) -> Optional[int]:
        """V as a static shape has it: None where it may change."""
        return None if self.grows else self.rows

    @property
    def hashed(self) -> bool:
        """Whether keys get rows as they come; else every key has one from the start."""
        return self.kind == HASHED

    @property
    def by_row(self) -> bool:
        """Whether the rows' initial values lie in the rows themselves."""
        return self.initializer.kind == "by_row"

    @property
    def admission(self) -> Optional[Tuple[int, int]]:
        """What has counted and drawn which keys get rows: see `Forgetting.sketch_shape`; None where all get one."""
        return None if self.forgetting is None else self.forgetting.sketch_shape

    @property
    def identity(self) -> int:
        """64 bits that tell this table from others in the generator of initial rows."""
        return int.from_bytes(hashlib.blake2b(self.kit_name.encode(), digest_size=8).digest(), "little")

    def total(self, ranks: int) -> int:
        """Rows of all ranks; without an index keys are in [0, total)."""
        return self.rows * self.placement.parts(ranks) if self.keys is None else self.keys

    def expected_keys(self, ranks: int) -> str:
        """Without an index: which keys there are and why, for messages."""
        if self.keys is not None:
            return "[0, {}), the variable's rows".format(self.keys)
        return "[0, {}) (max_vocabulary_size_per_gpu {} x {} ranks, use_hashtable=False)".format(
            self.total(ranks), self.rows, ranks)

    def distribution(self, ranks: int) -> Tuple[str, float, float]:
        """(kind, a, b) of the initial values, as the row generator takes them."""
        spec = self.initializer
        if spec.kind != "variance_scaling":
            return spec.kind, spec.a, spec.b
        # The rule of tf.keras.initializers.VarianceScaling for a [fan_in, fan_out] matrix.
        fan_in, fan_out = float(self.total(ranks)), float(self.dim)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[spec.mode]
        scale = spec.scale / max(1.0, fan)
        if spec.distribution == "uniform":
            limit = math.sqrt(3.0 * scale)
            return "uniform", -limit, limit
        if spec.distribution == "untruncated_normal":
            return "normal", 0.0, math.sqrt(scale)
        # A normal cut at two standard deviations has this standard deviation; divided out, as Keras does.
        return "truncated_normal", 0.0, math.sqrt(scale) / 0.87962566103423978

    def _begins(self) -> str:
        pool = self.initializer.pool
        return self.initializer.kind + (" of {}".format(pool) if pool else "")

    def label(self) -> str:
        """What all ranks must agree on, in one line."""
        rows = "V={}".format(self.rows) if self.keys is None else "rows={}".format(self.keys)
        where = "" if self.placement == BY_KEY else ", {}".format(self.placement.label())
        dtype = "" if self.dtype == "float32" else " " + self.dtype
        grows = "" if self.growth is None else " grows to {}".format(self.growth.most or "any size")
        forgets = "" if self.forgetting is None else " {}".format(self.forgetting.label())
        caches = "" if self.cache is None else " {}".format(self.cache.label())
        return "table '{}' {} D={} {} {} initializer={}{}{}{}{}{}".format(
            self.name, rows, self.dim, self.kind, self.key_dtype, self._begins(), where, dtype, grows, forgets,
            caches)
