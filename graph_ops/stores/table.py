"""What an embedding table is to the ops: a description that travels in their config, and the variables' handles."""
import hashlib
import math

from sok1x.cuda_kernels import hash_index

_FIELDS = ("name", "rows", "dim", "use_hashtable", "key_dtype", "initializer")


class Table:
    """An embedding table's shard on this rank.

    Args:
      name: the table's name, equal on all ranks.
      rows: V, rows of this rank's shard. dim: D, floats a row.
      use_hashtable: whether an index maps keys to rows; otherwise key k is row k // N of rank k % N.
      key_dtype: 'int64', 'uint32' or 'int32'.
      initializer: {"kind": 'zeros' | 'constant' | 'uniform' | 'normal' | 'truncated_normal', "a": float,
        "b": float}: rows are a function of (seed, table, key); {"kind": "variance_scaling", "scale", "mode",
        "distribution"}: likewise, with the fans of the whole [V * N, D] matrix; {"kind": "by_row"}: the variable's
        own initial value holds them.
    """

    def __init__(self, name, rows, dim, use_hashtable, key_dtype, initializer):
        self.name = name
        self.rows = int(rows)
        self.dim = int(dim)
        self.use_hashtable = bool(use_hashtable)
        self.key_dtype = key_dtype
        self.initializer = dict(initializer)
        self.handles = []  # rows and, with a hash table, index and count
        self.stamp_handles = []  # stamps and clock, see stamps.py
        self.graph = None  # in an op's config: its graph's number in plan.py, if the op communicates

    def config(self):
        """The description, JSON-able."""
        return {field: getattr(self, field) for field in _FIELDS}

    @classmethod
    def from_config(cls, config):
        """The table that `config` describes."""
        return cls(**config)

    @property
    def capacity(self):
        """Slots of the hash index."""
        return hash_index.capacity(self.rows)

    @property
    def by_row(self):
        """Whether the rows' initial values lie in the rows themselves."""
        return self.initializer["kind"] == "by_row"

    @property
    def identity(self):
        """64 bits that tell this table from others in the generator of initial rows."""
        return int.from_bytes(hashlib.blake2b(self.name.encode(), digest_size=8).digest(), "little")

    def distribution(self, ranks):
        """(kind, a, b) of the initial values, as the row generator takes them."""
        spec = self.initializer
        if spec["kind"] != "variance_scaling":
            return spec["kind"], float(spec.get("a", 0.0)), float(spec.get("b", 0.0))
        # The rule of tf.keras.initializers.VarianceScaling for a [fan_in, fan_out] matrix.
        fan_in, fan_out = float(self.rows * ranks), float(self.dim)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[spec["mode"]]
        scale = spec["scale"] / max(1.0, fan)
        if spec["distribution"] == "uniform":
            limit = math.sqrt(3.0 * scale)
            return "uniform", -limit, limit
        if spec["distribution"] == "untruncated_normal":
            return "normal", 0.0, math.sqrt(scale)
        # A normal cut at two standard deviations has this standard deviation; divided out, as Keras does.
        return "truncated_normal", 0.0, math.sqrt(scale) / 0.87962566103423978

    def label(self):
        """What all ranks must agree on, in one line."""
        return "table '{}' V={} D={} {} {} initializer={}".format(
            self.name, self.rows, self.dim, "hash" if self.use_hashtable else "direct", self.key_dtype,
            self.initializer["kind"])
