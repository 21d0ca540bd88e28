"""What a combined lookup and its gradients are told when they are built, and what the lookup leaves for them."""
from typing import Any, NamedTuple, Optional

from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held


class Saved(NamedTuple):
    """What forward leaves for backward, after the embeddings: see `SAVED_DTYPES` in exchanges/lookup.py.

    Attributes:
      route: int64, the exchange's number in choice.py, what it has counted, and the exchange's number in ties.py; in
        host memory; empty where nothing was exchanged.
    """

    inverse: Any
    offsets: Any
    rows: Any
    requested: Any
    all_offsets: Any
    relayed: Any
    route: Any


class WeightedSaved(NamedTuple):
    """The same of bags with weights. The gradient takes `scales` in the place that they have here.

    Attributes:
      kept: of the embeddings' dtype [K, D], the rows of the keys, in the order of their bags, for a gradient to
        weights; [0, D] where nobody asks for them.
    """

    inverse: Any
    offsets: Any
    rows: Any
    requested: Any
    all_offsets: Any
    relayed: Any
    scales: Any
    order: Any
    kept: Any
    route: Any


KEPT = 1 + WeightedSaved._fields.index("kept")  # which output


class ForwardConfig(NamedTuple):
    """Attributes:
      table, held: the table, and all of its variables.
      label: what must be equal on all ranks.
      slot_num: S; None: samples have no slots, and embeddings are [B, D].
      max_nnz: the most keys a slot may have. combiner: 'sum', 'mean' or, with weights, 'sqrtn'.
      exchange: 'all2all', 'reduce_scatter' or 'auto', of which bridge_signature.cc makes 'settled'.
      dtype: of the embeddings, 'float32' or 'float16'.
      training: whether the lookup trains; None: the last host input says.
      rows_known: see `lookup_gradient.rows_are_known`.
      filtered: whether it draws which new keys get rows: see `Forgetting.filter_ratio`.
      form: of the keys, 'sparse' or 'ragged'. weighted: whether each key has a weight.
      kept: the output with the keys' rows, 0 where nobody asks for them: bridge_signature.cc knows it in a session."""

    table: Table
    held: Held
    label: str
    slot_num: Optional[int]
    max_nnz: int
    combiner: str
    exchange: str
    dtype: str
    training: Optional[bool]
    rows_known: bool
    filtered: bool
    form: str
    weighted: bool
    kept: int

    @property
    def slots(self) -> int:
        """Bags of a sample."""
        return self.slot_num or 1


class BackwardConfig(NamedTuple):
    """Attributes:
      table, label, combiner, rows_known, weighted: as of the forward op."""

    table: Table
    label: str
    combiner: str
    rows_known: bool
    weighted: bool


class SpreadConfig(NamedTuple):
    """Attributes:
      table, label, combiner, rows_known, weighted: as of the backward op.
      dtype: of what it gives, the dtype of the embeddings."""

    table: Table
    label: str
    combiner: str
    rows_known: bool
    weighted: bool
    dtype: str
