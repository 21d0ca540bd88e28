"""The rows of a bag's keys combined into one, and its gradient: DistributedEmbedding's lookup, and `lookup_sparse`'s.

Two exchanges give the same result; what ranks tell each other decides which one a step uses: see
exchanges/choice.py. With weights (operations/bag_weights.py) rows always go by all2all.
"""
from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import backend, dense, gather, row_numbers
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INTERNAL, INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import tensor_util
from sok1x.graph_ops.exchanges import choice, sizes
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Bags, Positions, WeightedBags, divided_by
from sok1x.graph_ops.exchanges.lookup import SAVED_DTYPES, Gradient, Lookup, row_bytes
from sok1x.graph_ops.exchanges.training import training_inputs
from sok1x.graph_ops.groups import combined_lookup as groups
from sok1x.graph_ops.operations import bag_weights, dense_lookup, distinct_rows, lookup_gradient
from sok1x.graph_ops.operations.combined_config import (
    KEPT,
    BackwardConfig,
    ForwardConfig,
    Saved,
    SpreadConfig,
    WeightedSaved,
)
from sok1x.graph_ops.operations.lookup_gradient import Backward, OfLookup
from sok1x.graph_ops.operations.second_order import Spread
from sok1x.graph_ops.operations.sparse_batch import RaggedBatch, SparseBatch
from sok1x.graph_ops.stores import figures, row_checks
from sok1x.graph_ops.stores.base_store import Store
from sok1x.graph_ops.stores.table_variables import CONTENT, TableVariables


class CombinedLookup(Lookup):
    """See `Lookup`."""

    Saved: Any = Saved
    _batch: Any

    def __init__(self, request: Any, config: ForwardConfig, world: Any) -> None:
        super().__init__(request, config, world)
        if config.weighted:
            self.Saved = WeightedSaved
        self._checked = False

    def start(self) -> None:
        """See `Lookup.start`. With weights the batch is waited for: it says which weight each key has."""
        made: Any = RaggedBatch if self.config.form == "ragged" else SparseBatch
        self._counts = backend.counts()
        self._batch = made(self.request, self.config, self.world, lambda bags: self.leave("offsets", bags + 1))
        self.keys = self._batch.keys
        if self.config.weighted:
            self._check_weights(self.keys.size)
            self.check()
        self._lay_out(self._batch.offsets, self._batch.order)

    def take_over(self, bags: int) -> None:
        """In place of `start` and `check`, where a group has found the offsets of a batch in order, of so many bags."""
        self.keys = self.request.inputs[1]
        self._lay_out(self.leave("offsets", bags + 1), None)

    def _check_weights(self, keys: int) -> None:
        weights = self.request.inputs[2]
        if weights.shape != (keys,):
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got weights of shape {} for {} keys, expected one for each "
                "key").format(self.table.name, self.world.name, list(weights.shape), keys))

    def _lay_out(self, offsets: Any, order: Any) -> None:
        mean, keys = divided_by(self.config.combiner, self.config.weighted), self.keys.size
        if not self.config.weighted:
            self.layout = Bags(self.table.dim, offsets, mean > 0)
            return
        weights, left = self.request.inputs[2], self.leave("order", 0 if order is None else keys)
        if order is not None:
            row_numbers.look_up(order, None, left)  # a copy
            sorted_weights = self.request.temporary("float32", keys)
            gather.gather(weights, order, sorted_weights)
            weights = sorted_weights
        scales = self.leave("scales", keys)
        if not mean:
            dense.copy(weights, scales)
        self.layout = WeightedBags(self.request, self.table.dim, offsets, mean, weights, scales)

    def keep(self, fill: Callable[[Positions, Any], None]) -> None:
        """See `Lookup.keep`."""
        if not self.config.weighted:
            return
        keys = self.keys.size if self.config.kept else 0
        kept = self.request.output(KEPT, self.config.dtype, (keys, self.table.dim))
        if self.config.kept:
            fill(Positions(self.table.dim, keys), kept)

    def check(self) -> None:
        """See `Lookup.check`."""
        if not self._checked:
            self._check(self._counts.read())

    def _check(self, faults: Sequence[int]) -> bool:
        """Whether keys had to be brought into another order."""
        self._checked = True
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
        if self._checked:
            pass
        # What the usual batch needs is enqueued before the counts have come that say whether this is one.
        elif store.start_look_up(self.keys, at, self._counts):
            self._counts.ask()
            self.layout.spread(store.rows, at, out)
            *faults, missing = self._counts.read()
            if self._check(faults):
                missing = None
        else:
            self.check()
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
    """inputs: a SparseTensor's indices int64 [K, 2], or a RaggedTensor's row splits int64 [B + 1]; values [K]; where
    the config says so weights float32 [K].

    Host inputs: a SparseTensor's dense_shape int64 [2]; training bool [], unless the config has it.
    Outputs: embeddings of the config's dtype, float32 or float16 [B, S, D] or [B, D], then `Saved` or `WeightedSaved`,
    its last in host memory.
    """

    name = "operations.combined_lookup.forward"
    kind = "Lookup"
    communicates = True
    Config = ForwardConfig
    group = groups.Forward()
    Lookup = CombinedLookup
    waits_of = staticmethod(figures.waits_of)

    def prepare(self, request: Any, config: ForwardConfig, world: Any) -> np.ndarray:
        row_checks.check_whole(request, config, world)
        request.state = self.Lookup(request, config, world)
        return choice.to_prepare(world, config.exchange).prepare(request.state)

    def run(self, request: Any, config: ForwardConfig, world: Any, headers: np.ndarray) -> None:
        lookup, moved = request.state, row_bytes(config.table, config.dtype)
        exchange = choice.to_run(world, config.exchange, moved, headers)
        if exchange is None:
            exchange = choice.settle(world, sizes.surplus(moved, world.size, lookup.layout.count, lookup.keys.size,
                                                          lookup.state.count))
        exchange.forward(lookup, headers)

    def gradient(self, op: tf.Operation, config: ForwardConfig, grads: Sequence[Any]) -> List[Any]:
        saved: Any = (WeightedSaved if config.weighted else Saved)(*op.outputs[1:])
        of_kept, of_scales = bag_weights.of_saved(saved, grads) if config.weighted else [None, None]  # second order
        of_weights = bag_weights.of_lookup(op, config, saved, grads, of_scales) if config.weighted else None
        found = distinct_rows.find(op, config, distinct_rows.Rows(saved.inverse, saved.rows, saved.requested))
        saved = saved._replace(**found._asdict())
        handle, = config.held.pick(op.inputs, "rows")
        back = BackwardConfig(config.table, config.label, config.combiner, config.rows_known, config.weighted)

        def make(dtypes: List[tf.DType], shapes: List[Any]) -> List[tf.Tensor]:
            made = library.call("operations.combined_lookup.backward", back,
                                [grads[0], *saved[:1 + (saved._fields.index("scales") if config.weighted else 5)]],
                                dtypes, shapes, host_inputs=[saved.route], name="lookup_gradient")
            if of_kept is not None:
                made[0] += dense_lookup.position_sums(back, of_kept, found, saved.relayed, saved.route[1:], dtypes,
                                                      shapes)
            return made

        made = lookup_gradient.slices(config, handle, found.rows, make)
        inputs: List[Any] = [made] + [None] * (len(op.inputs) - 1)
        if config.weighted:
            inputs[op.get_attr("Nr") + bag_weights.GIVEN] = of_weights
        return inputs


class _Combined(OfLookup):
    """See `OfLookup`: of a combined lookup."""

    before_counts = 1  # the exchange's number

    def exchange(self, request: Any, world: Any) -> Exchange:
        return choice.of_route(world, request.host_inputs[0].numpy())

    def taken(self, request: Any, config: Any, world: Any) -> Gradient:
        saved = Saved(*request.inputs[1:7] + request.host_inputs)
        if config.weighted:
            scales = request.inputs[7]
            if scales.size != saved.inverse.size:
                raise CallError(INTERNAL, "op '{}': got {} scales for {} keys".format(
                    request.name, scales.size, saved.inverse.size))
            layout: Bags = WeightedBags(request, config.table.dim, saved.offsets, 0, None, scales)
        else:
            layout = Bags(config.table.dim, saved.offsets, config.combiner == "mean")
        return Gradient(request, config, world, saved, layout, saved.route.numpy()[1:-1])


@register
class _Backward(_Combined, Backward):
    """See `Backward`."""

    name = "operations.combined_lookup.backward"
    kind = "Gradient"
    Config = BackwardConfig
    group = groups.Backward()
    spread, SpreadConfig = "operations.combined_lookup.spread", SpreadConfig
    waits_of = staticmethod(figures.waits_of)

    def gradient(self, op: tf.Operation, config: BackwardConfig, grads: Sequence[Any]) -> List[Any]:
        """See `Backward.gradient`. With weights it is that of the same, made of a gradient for each key."""
        if not config.weighted:
            return super().gradient(op, config, grads)
        given, (inverse, offsets, rows, requested, _, relayed, scales) = op.inputs[0], op.inputs[1:8]
        route = op.inputs[8]

        def same(given: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
            bags = bag_weights.bags_of(offsets, scales)
            positions = tf.gather(tf.cast(given, tf.float32), bags) * scales[:, tf.newaxis]
            return dense_lookup.position_sums(
                config, tf.cast(positions, given.dtype), distinct_rows.Rows(inverse, rows, requested), relayed,
                route[1:], [output.dtype for output in op.outputs], [output.shape for output in op.outputs])

        of_given, of_scales = bag_weights.differentiate(same, [given, scales], grads[0])
        return [of_given] + [None] * 6 + [of_scales, None]


@register
class _Spread(_Combined, Spread):
    """See `Spread`."""

    name = "operations.combined_lookup.spread"
    kind = "Gradient"
    Config = SpreadConfig
    backward, BackwardConfig = "operations.combined_lookup.backward", BackwardConfig


def lookup(variables: TableVariables, ids: Any, slot_num: Optional[int], max_nnz: int, combiner: str, training: Any,
           exchange: str, dtype: str, name: str, filtered: bool = False, weights: Any = None) -> tf.Tensor:
    """[B, S, D], or [B, D], of `dtype`. See `embedding.lookup_combined`."""
    table, weighted, ragged = variables.table, weights is not None, isinstance(ids, tf.RaggedTensor)
    if weighted:
        exchange = "all2all"
    label = "{} slot_num={} max_nnz={} combiner={} exchange={} {}{}".format(
        table.label(), slot_num, max_nnz, combiner, exchange, dtype, " filtered" if filtered else "")
    held, handles = variables.resources(*CONTENT)
    trains, host_inputs = training_inputs(training)
    config = ForwardConfig(table, held, label, slot_num, max_nnz, combiner, exchange, dtype, trains,
                           lookup_gradient.rows_are_known(table, training), filtered, "ragged" if ragged else "sparse",
                           weighted, KEPT if weighted else 0)
    if ragged:
        inputs, rows = [ids.row_splits, ids.values], tf.dimension_value(ids.row_splits.shape[0])
        rows = None if rows is None else rows - 1
    else:
        inputs, shape = [ids.indices, ids.values], tensor_util.constant_value(ids.dense_shape)
        rows, host_inputs = None if shape is None else int(shape[0]), [ids.dense_shape] + host_inputs
    batch = None if rows is None else rows // config.slots
    saved: Any = WeightedSaved if weighted else Saved
    dtypes = [tf.as_dtype(SAVED_DTYPES.get(field, dtype)) for field in saved._fields[:-1]]
    return library.call("operations.combined_lookup.forward", config, inputs + ([weights] if weighted else []),
                        [tf.as_dtype(dtype)] + dtypes,
                        [[batch, table.dim] if slot_num is None else [batch, slot_num, table.dim]] +
                        [[None, table.dim] if field == "kept" else [None] for field in saved._fields[:-1]],
                        resources=handles, host_inputs=host_inputs,
                        host_dtypes=[tf.int64], host_shapes=[[None]], name=name)[0]
