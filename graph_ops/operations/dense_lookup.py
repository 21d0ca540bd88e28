"""All2AllDenseEmbedding's lookup: one row per key, and its gradient. How keys and rows travel: exchanges/all2all.py."""
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Positions
from sok1x.graph_ops.exchanges.lookup import SAVED_DTYPES, Gradient, Lookup
from sok1x.graph_ops.exchanges.training import training_inputs
from sok1x.graph_ops.groups import dense_lookup as groups
from sok1x.graph_ops.operations import distinct_rows, lookup_gradient
from sok1x.graph_ops.operations.lookup_gradient import Backward, OfLookup
from sok1x.graph_ops.operations.second_order import Spread
from sok1x.graph_ops.stores import figures, row_checks
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CONTENT, Held, TableVariables


class Saved(NamedTuple):
    """What forward leaves for backward, after the embeddings: see `SAVED_DTYPES`.

    Attributes:
      counts: int64 [2N + 1], keys sent to each rank, keys received from each, and the exchange's number (ties.py), in
        host memory; [4N + 1] by hosts (by_hosts.py); empty where nothing was exchanged.
    """

    inverse: Any
    rows: Any
    requested: Any
    relayed: Any
    counts: Any


class ForwardConfig(NamedTuple):
    """Attributes:
      table, held: the table, and all of its variables.
      label: what must be equal on all ranks.
      dtype: of the embeddings, 'float32' or 'float16'.
      training: whether the lookup trains; None: the last host input says.
      rows_known: see `lookup_gradient.rows_are_known`.
      filtered: whether it draws which new keys get rows: see `Forgetting.filter_ratio`."""

    table: Table
    held: Held
    label: str
    dtype: str
    training: Optional[bool]
    rows_known: bool
    filtered: bool


class BackwardConfig(NamedTuple):
    """Attributes:
      table, label, rows_known: as of the forward op."""

    table: Table
    label: str
    rows_known: bool


class SpreadConfig(NamedTuple):
    """Attributes:
      table, label, rows_known: as of the backward op.
      dtype: of what it gives, the dtype of the embeddings."""

    table: Table
    label: str
    rows_known: bool
    dtype: str


class DenseLookup(Lookup):
    """See `Lookup`."""

    Saved = Saved
    tells_sizes = False  # there is one exchange

    def start(self) -> None:
        """See `Lookup.start`."""
        self.keys = self.request.inputs[0]
        self.layout = Positions(self.table.dim, self.keys.size)

    def check(self) -> None:
        """See `Lookup.check`: keys may have any shape."""

    def place_of(self, position: int) -> str:
        """See `Lookup.place_of`: with the sample, where the op knows it."""
        place = super().place_of(position)
        if len(self.request.inputs) < 2:
            return place
        return "{}, sample {}".format(place, int(self.request.inputs[1].read()[position, 0]))

    def embeddings(self) -> Any:
        """See `Lookup.embeddings`."""
        return self.request.output(0, self.config.dtype, self.keys.shape + (self.table.dim,))

    def look_up(self, store: Store, at: Any, out: Any) -> bool:
        """See `Lookup.look_up`."""
        if not self.training and store.evaluate(self.keys, at, out):
            return True
        return store.look_up(self.keys, at, out) == 0


@register
class _Forward(Operation):
    """inputs: keys [...] of any shape; there may be int64 [K, 2] too, of keys [K] the samples, in the first column.

    Host inputs: training bool [], unless the config has it.

    Outputs: embeddings of the config's dtype, float32 or float16 [..., D], then `Saved`, its last in host memory.
    """

    name = "operations.dense_lookup.forward"
    kind = "Lookup"
    communicates = True
    Config = ForwardConfig
    group = groups.Forward()
    Lookup = DenseLookup
    backward = "operations.dense_lookup.backward"
    waits_of = staticmethod(figures.waits_of)

    def prepare(self, request: Any, config: ForwardConfig, world: Any) -> np.ndarray:
        row_checks.check_whole(request, config, world)
        request.state = self.Lookup(request, config, world)
        return choice.of_keys(world).prepare(request.state)

    def run(self, request: Any, config: ForwardConfig, world: Any, headers: np.ndarray) -> None:
        choice.of_keys(world).forward(request.state, headers)

    def gradient(self, op: tf.Operation, config: ForwardConfig, grads: Sequence[Any]) -> List[Any]:
        saved = Saved(*op.outputs[1:])
        found = distinct_rows.find(op, config, distinct_rows.Rows(saved.inverse, saved.rows, saved.requested))
        handle, = config.held.pick(op.inputs, "rows")
        made = lookup_gradient.slices(config, handle, found.rows, lambda dtypes, shapes: library.call(
            self.backward, BackwardConfig(config.table, config.label, config.rows_known),
            [grads[0], *found, saved.relayed], dtypes, shapes, host_inputs=[saved.counts], name="lookup_gradient"))
        return [made] + [None] * (len(op.inputs) - 1)


class _Dense(OfLookup):
    """See `OfLookup`: of a dense lookup."""

    def exchange(self, request: Any, world: Any) -> Exchange:
        return choice.of_keys(world)

    def taken(self, request: Any, config: Any, world: Any) -> Gradient:
        saved = Saved(*request.inputs[1:] + request.host_inputs)
        return Gradient(request, config, world, saved, Positions(config.table.dim, saved.inverse.size),
                        saved.counts.numpy()[:-1])


@register
class _Backward(_Dense, Backward):
    """See `Backward`."""

    name = "operations.dense_lookup.backward"
    kind = "Gradient"
    Config = BackwardConfig
    group = groups.Backward()
    spread, SpreadConfig = "operations.dense_lookup.spread", SpreadConfig
    waits_of = staticmethod(figures.waits_of)


@register
class _Spread(_Dense, Spread):
    """See `Spread`."""

    name = "operations.dense_lookup.spread"
    kind = "Gradient"
    Config = SpreadConfig
    backward, BackwardConfig = "operations.dense_lookup.backward", BackwardConfig


def position_sums(config: Any, gradient: tf.Tensor, found: distinct_rows.Rows, relayed: tf.Tensor, counts: tf.Tensor,
                  dtypes: List[tf.DType], shapes: List[Any]) -> tf.Tensor:
    """The values of a gradient, as `lookup_gradient.slices` has them, from a gradient for each key.

    Args:
      config: of the lookup's gradient, with `table`, `label` and `rows_known`.
      gradient: [K, D]. found, relayed, counts: what the lookup has left.
    """
    back = BackwardConfig(config.table, config.label, config.rows_known)
    return library.call("operations.dense_lookup.backward", back, [gradient, *found, relayed], dtypes, shapes,
                        host_inputs=[counts], name="lookup_gradient")[0]


def lookup(variables: TableVariables, keys: tf.Tensor, training: Any, dtype: str, name: str,
           samples: Optional[tf.Tensor] = None, filtered: bool = False,
           function: str = "operations.dense_lookup.forward") -> tf.Tensor:
    """Rows of `keys`: keys.shape + [D], of `dtype`. See `embedding.lookup_dense`. function: the operation."""
    table = variables.table
    # The batch is left out: it may differ from rank to rank.
    beside = "..." if keys.shape.rank is None else ", ".join(map(str, keys.shape.as_list()[1:]))
    label = "{} keys=[B, {}] {}{}".format(table.label(), beside, dtype, " filtered" if filtered else "")
    held, handles = variables.resources(*CONTENT)
    trains, host_inputs = training_inputs(training)
    config = ForwardConfig(table, held, label, dtype, trains, lookup_gradient.rows_are_known(table, training),
                           filtered)
    saved = [tf.as_dtype(SAVED_DTYPES[field]) for field in Saved._fields[:-1]]
    inputs = [keys] if samples is None else [keys, samples]
    return library.call(function, config, inputs, [tf.as_dtype(dtype)] + saved,
                        [keys.shape.concatenate([table.dim])] + [[None]] * len(saved), resources=handles,
                        host_inputs=host_inputs, host_dtypes=[tf.int64], host_shapes=[[None]], name=name)[0]
