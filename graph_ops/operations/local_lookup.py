"""A lookup in this rank's shard alone, whoever owns the keys: `tf.nn.embedding_lookup` of a `sok.DynamicVariable`.

No other rank takes part, neither in the lookup nor in its gradient; new keys get rows here. What it leaves for its
gradient is where the ops that follow look for it: the row of each position stands under `inverse` on one rank, and
under `requested` on several.
"""
import copy
from typing import Any, List, Sequence

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.registry import register
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.layouts import Positions
from sok1x.graph_ops.exchanges.lookup import NOTHING, Gradient
from sok1x.graph_ops.exchanges.row_sums import sum_by_row
from sok1x.graph_ops.operations import dense_lookup
from sok1x.graph_ops.operations.lookup_gradient import check_gradient
from sok1x.graph_ops.stores.table_variables import TableVariables
from sok1x.launch.local_communicator import LocalCommunicator


class _LocalLookup(dense_lookup.DenseLookup):
    """See the module's text."""

    def leave(self, name: str, length: int) -> Any:
        """See `Lookup.leave`."""
        if self.world.size > 1:
            name = {"inverse": "requested", "requested": "inverse"}.get(name, name)
        return super().leave(name, length)

    def leave_rest(self) -> None:
        """See `Lookup.leave_rest`: names as they are."""
        for name in self.Saved._fields[:-1]:
            if name not in self._left:
                super().leave(name, 0)
        self.request.host_output(0, "int64", (0,))


@register
class _Forward(dense_lookup._Forward):
    """As of `operations.dense_lookup.forward`."""

    name = "operations.local_lookup.forward"
    kind = "Lookup"
    communicates = False
    group = None
    Lookup = _LocalLookup
    backward = "operations.local_lookup.backward"

    def run(self, request: Any, config: Any, world: Any, headers: Any) -> None:
        alone = copy.copy(world)  # whose ranks do not agree on anything
        alone.communicator = LocalCommunicator()
        choice.ALONE.forward(_LocalLookup(request, config, alone), NOTHING)


@register
class _Backward(dense_lookup._Backward):
    """As of `operations.dense_lookup.backward`."""

    name = "operations.local_lookup.backward"
    kind = "Gradient"
    communicates = False
    group = None

    def run(self, request: Any, config: Any, world: Any, headers: Any) -> None:
        saved = dense_lookup.Saved(*request.inputs[1:] + request.host_inputs)
        places = saved.inverse if world.size == 1 else saved.requested
        layout = Positions(config.table.dim, places.size)
        check_gradient(config.table, world, request.inputs[0], layout.count)
        back = Gradient(request, config, world, saved, layout, NOTHING)
        sum_by_row(back, back.given, layout, places)

    def gradient(self, op: tf.Operation, config: Any, grads: Sequence[Any]) -> List[Any]:
        raise LookupError("table '{}': a lookup by tf.nn.embedding_lookup has no gradient of a gradient; look it up by "
                          "sok1x.all2all_dense_embedding".format(config.table.name))


def lookup(variables: TableVariables, keys: tf.Tensor, name: str = "local_lookup") -> tf.Tensor:
    """float32 keys.shape + [D]: the rows that keys have in this rank's shard; new ones get one. keys: of its dtype."""
    return dense_lookup.lookup(variables, keys, True, "float32", name, function="operations.local_lookup.forward")
