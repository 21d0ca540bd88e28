"""Gradients of gradients: what a lookup's gradient passes back to the gradient that it was made from.

A backward op is linear in the embeddings' gradient: the value of a row is the sum of the gradients of all positions, of
all ranks, that have it. So its own gradient is a lookup's spread: each owner's upstream values w [u, D], one for each
row in the order of the backward op's values, go the way that the rows have come, and every position gets its row's (a
bag its rows', combined). A row that the gradient has left out, of a key without a row, gives zeros. The gradient of
the spread is the backward op again; so there is one of any order.

As in the other direction, what travels is of the embeddings' dtype, rounded once where it leaves its owner.
"""
from typing import Any, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.exchanges import ties
from sok1x.graph_ops.exchanges.row_sums import Kept
from sok1x.graph_ops.operations.of_lookup import OfLookup


class Spread(OfLookup):
    """inputs: w float32 [u, D], then what the lookup has saved.

    Output: of the config's dtype, [K, D], or [B * S, D] of bags.
    """

    backward, BackwardConfig = "", None  # type: Any, Any  # the operation whose gradient it is, and its config

    def prepare(self, request: Any, config: Any, world: Any) -> np.ndarray:
        """See `Operation.prepare`."""
        table, back = config.table, self.taken(request, config, world)
        kept = Kept(request, back.saved.rows, config.rows_known)
        if back.given.shape != (kept.count, table.dim):
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got a gradient of shape {} for the values of a lookup's gradient, "
                "expected [{}, {}]").format(table.name, world.name, list(back.given.shape), kept.count, table.dim))
        request.state = back, kept
        return ties.header(world, request.host_inputs[0].numpy(), self.before_counts)

    def run(self, request: Any, config: Any, world: Any, headers: np.ndarray) -> None:
        """See `Operation.run`."""
        back, kept = request.state
        out = request.output(0, config.dtype, (back.layout.count, config.table.dim))
        self.exchange(request, world).spread(back, kept, headers, out)

    def gradient(self, op: tf.Operation, config: Any, grads: Sequence[Any]) -> List[Any]:
        """See `Operation.gradient`: `backward` again."""
        outputs = 1 if config.rows_known else 2
        values = library.call(self.backward, self.BackwardConfig(*config[:-1]), [grads[0], *op.inputs[1:-1]],
                              [tf.float32, tf.int32][:outputs], [op.inputs[0].shape, [None]][:outputs],
                              host_inputs=[op.inputs[-1]], name="lookup_gradient")[0]
        return [values] + [None] * (len(op.inputs) - 1)
