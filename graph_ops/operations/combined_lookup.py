"""DistributedEmbedding's lookup: the rows of a slot's keys combined into one, and its gradient.

Two exchanges give the same result, and the headers that all ranks see decide which one a step uses: see
exchanges/choice.py.
"""
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from sok1x.cuda_kernels import backend
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Bags
from sok1x.graph_ops.exchanges.lookup import SAVED_DTYPES, Gradient, Lookup, row_bytes
from sok1x.graph_ops.exchanges.training import training_inputs
from sok1x.graph_ops.groups import combined_lookup as groups
from sok1x.graph_ops.operations import distinct_rows, lookup_gradient
from sok1x.graph_ops.operations.lookup_gradient import Backward, OfLookup
from sok1x.graph_ops.operations.second_order import Spread
from sok1x.graph_ops.operations.sparse_batch import SparseBatch
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import CONTENT, Held, TableVariables


class Saved(NamedTuple):
    """What forward leaves for backward, after the embeddings: see `SAVED_DTYPES`.

    Attributes:
      route: int64, the exchange's number in choice.py, what it has counted, and the exchange's number in ties.py; in
        host memory; empty where nothing was exchanged.
    """

    inverse: Any
    offsets: Any
    rows: Any
    requested: Any
    all_offsets: Any
    route: Any


class ForwardConfig(NamedTuple):
    """Attributes:
      table, held: the table, and all of its variables.
      label: what must be equal on all ranks.
      slot_num: S; None: samples have no slots, and embeddings are [B, D].
      max_nnz: the most keys a slot may have. combiner: 'sum' or 'mean'.
      exchange: 'all2all', 'reduce_scatter' or 'auto'.
      dtype: of the embeddings, 'float32' or 'float16'.
      training: whether the lookup trains; None: the last host input says.
      rows_known: see `lookup_gradient.rows_are_known`.
      filtered: whether it draws which new keys get rows: see `Forgetting.filter_ratio`."""

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

    @property
    def slots(self) -> int:
        """Bags of a sample."""
        return self.slot_num or 1


class BackwardConfig(NamedTuple):
    """Attributes:
      table, label, combiner, rows_known: as of the forward op."""

    table: Table
    label: str
    combiner: str
    rows_known: bool


class SpreadConfig(NamedTuple):
    """Attributes:
      table, label, combiner, rows_known: as of the backward op.
      dtype: of what it gives, the dtype of the embeddings."""

    table: Table
    label: str
    combiner: str
    rows_known: bool
    dtype: str


class CombinedLookup(Lookup):
    """See `Lookup`."""

    Saved = Saved

    def start(self) -> None:
        """See `Lookup.start`."""
        self._counts = backend.counts()
        self._batch = SparseBatch(self.request, self.config, self.world, lambda bags: self.leave("offsets", bags + 1))
        self.keys = self._batch.keys
        self.layout = Bags(self.table.dim, self._batch.offsets, self.config.combiner == "mean")

    def take_over(self, bags: int) -> None:
        """In place of `start` and `check`, where a group has found the offsets of a batch in order, of so many bags."""
        self.keys = self.request.inputs[1]
        self.layout = Bags(self.table.dim, self.leave("offsets", bags + 1), self.config.combiner == "mean")

    def check(self) -> None:
        """See `Lookup.check`."""
        self._check(self._counts.read())

    def _check(self, faults: Sequence[int]) -> bool:
        """Whether keys had to be brought into another order."""
        anew = self._batch.check(*faults)
        self.keys = self._batch.keys
        return anew

    def place_of(self, position: int) -> str:
        """See `Lookup.place_of`: with the sample."""
        slots, bag = self.config.slots, self._batch.bag_of(position)
        slot = "slot {} of ".format(bag % slots) if slots > 1 else ""
        return "{}, {}sample {}".format(super().place_of(position), slot, bag // slots)

    def embeddings(self) -> Any:
        """See `Lookup.embeddings`."""
        count, slots = self.layout.count, self.config.slot_num
        shape = (count,) if slots is None else (count // slots, slots)
        return self.request.output(0, self.config.dtype, shape + (self.table.dim,))

    def look_up(self, store: Store, at: Any, out: Any) -> bool:
        """See `Lookup.look_up`."""
        missing: Optional[int] = None
        # What the usual batch needs is enqueued before the counts have come that say whether this is one.
        if store.start_look_up(self.keys, at, self._counts):
            self._counts.ask()
            self.layout.spread(store.rows, at, out)
            *faults, missing = self._counts.read()
        else:
            faults = self._counts.read()
        if self._check(faults):
            missing = None
        if missing is None:
            missing = store.look_up(self.keys, at, None)
            if missing == 0:
                self.layout.spread(store.rows, at, out)
        return missing == 0

    def leave_counts(self, exchange: int, counts: Sequence[Any]) -> None:
        """See `Lookup.leave_counts`."""
        super().leave_counts(exchange, [[exchange], *counts])


@register
class _Forward(Operation):
    """inputs: a SparseTensor's indices int64 [K, 2] and values [K].

    Host inputs: its dense_shape int64 [2]; training bool [], unless the config has it.
    Outputs: embeddings of the config's dtype, float32 or float16 [B, S, D] or [B, D], then `Saved`, its last in host
    memory.
    """

    name = "operations.combined_lookup.forward"
    communicates = True
    Config = ForwardConfig
    group = groups.Forward()
    Lookup = CombinedLookup

    def prepare(self, request: Any, config: ForwardConfig, world: Any) -> np.ndarray:
        request.state = self.Lookup(request, config, world)
        return choice.to_prepare(world, config.exchange).prepare(request.state)

    def run(self, request: Any, config: ForwardConfig, world: Any, headers: np.ndarray) -> None:
        moved = row_bytes(config.table, config.dtype)
        choice.to_run(world, config.exchange, moved, headers).forward(request.state, headers)

    def gradient(self, op: tf.Operation, config: ForwardConfig, grads: Sequence[Any]) -> List[Any]:
        saved = Saved(*op.outputs[1:])
        found = distinct_rows.find(op, config, distinct_rows.Rows(saved.inverse, saved.rows, saved.requested))
        saved = saved._replace(**found._asdict())
        handle, = config.held.pick(op.inputs, "rows")
        made = lookup_gradient.slices(config, handle, found.rows, lambda dtypes, shapes: library.call(
            "operations.combined_lookup.backward",
            BackwardConfig(config.table, config.label, config.combiner, config.rows_known),
            [grads[0], *saved[:-1]], dtypes, shapes, host_inputs=[saved.route], name="lookup_gradient"))
        return [made] + [None] * (len(op.inputs) - 1)


class _Combined(OfLookup):
    """See `OfLookup`: of a combined lookup."""

    def exchange(self, request: Any, world: Any) -> Exchange:
        return choice.of_route(world, request.host_inputs[0].numpy())

    def taken(self, request: Any, config: Any, world: Any) -> Gradient:
        saved = Saved(*request.inputs[1:] + request.host_inputs)
        return Gradient(request, config, world, saved,
                        Bags(config.table.dim, saved.offsets, config.combiner == "mean"), saved.route.numpy()[1:-1])


@register
class _Backward(_Combined, Backward):
    """See `Backward`."""

    name = "operations.combined_lookup.backward"
    Config = BackwardConfig
    group = groups.Backward()
    spread, SpreadConfig = "operations.combined_lookup.spread", SpreadConfig

    def prepare(self, request: Any, config: BackwardConfig, world: Any) -> np.ndarray:
        header = super().prepare(request, config, world)
        # Gradients run together where this is so on all ranks; a graph may know it on some.
        return np.concatenate([[config.rows_known], header]).astype(np.int64)

    def run(self, request: Any, config: BackwardConfig, world: Any, headers: np.ndarray) -> None:
        super().run(request, config, world, headers[:, 1:])


@register
class _Spread(_Combined, Spread):
    """See `Spread`."""

    name = "operations.combined_lookup.spread"
    Config = SpreadConfig
    backward, BackwardConfig = "operations.combined_lookup.backward", BackwardConfig


def lookup(variables: TableVariables, sparse_keys: tf.SparseTensor, slot_num: Optional[int], max_nnz: int,
           combiner: str, training: Any, exchange: str, dtype: str, name: str, filtered: bool = False) -> tf.Tensor:
    """[B, S, D], or [B, D], of `dtype`. See `embedding.lookup_combined`."""
    table = variables.table
    label = "{} slot_num={} max_nnz={} combiner={} exchange={} {}{}".format(
        table.label(), slot_num, max_nnz, combiner, exchange, dtype, " filtered" if filtered else "")
    held, handles = variables.resources(*CONTENT)
    trains, host_inputs = training_inputs(training)
    config = ForwardConfig(table, held, label, slot_num, max_nnz, combiner, exchange, dtype, trains,
                           lookup_gradient.rows_are_known(table, training), filtered)
    rows = tensor_util.constant_value(sparse_keys.dense_shape)
    batch = None if rows is None else int(rows[0]) // config.slots
    shape = [batch, table.dim] if slot_num is None else [batch, slot_num, table.dim]
    saved = [tf.as_dtype(SAVED_DTYPES[field]) for field in Saved._fields[:-1]]
    return library.call("operations.combined_lookup.forward", config, [sparse_keys.indices, sparse_keys.values],
                        [tf.as_dtype(dtype)] + saved, [shape] + [[None]] * len(saved),
                        resources=handles, host_inputs=[sparse_keys.dense_shape] + host_inputs,
                        host_dtypes=[tf.int64], host_shapes=[[None]], name=name)[0]
