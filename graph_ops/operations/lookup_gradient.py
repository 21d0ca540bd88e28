"""The gradient of any lookup: the op that makes it, and the `tf.IndexedSlices` in the graph."""
from typing import Any, Callable, List, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.tensorflow_versions import gen_resource_variable_ops
from sok1x.graph_ops.exchanges import ties
from sok1x.graph_ops.gradients import shard_gradients, table_means
from sok1x.graph_ops.operations.of_lookup import OfLookup
from sok1x.graph_ops.stores.table import Table


class Backward(OfLookup):
    """inputs: gradient of the embeddings, float32 or float16, then what the lookup has saved.

    Outputs: values float32 [u, D] and, unless the config's `rows_known`, indices int32 [u] (exchanges/row_sums.py).
    """

    spread, SpreadConfig = "", None  # type: Any, Any  # the operation that is its gradient, and its config: this one's, and a dtype

    def prepare(self, request: Any, config: Any, world: Any) -> np.ndarray:
        """See `Operation.prepare`."""
        back = request.state = self.taken(request, config, world)
        check_gradient(config.table, world, back.given, back.layout.count)
        self.exchange(request, world).prepare_backward(back)
        saved = ties.header(world, request.host_inputs[0].numpy(), self.before_counts)
        # Gradients run together where this is so on all ranks; a graph may know it on some.
        return np.concatenate([[config.rows_known], saved]).astype(np.int64)

    def run(self, request: Any, config: Any, world: Any, headers: np.ndarray) -> None:
        """See `Operation.run`."""
        self.exchange(request, world).backward(request.state, headers[:, 1:])

    def gradient(self, op: tf.Operation, config: Any, grads: Sequence[Any]) -> List[Any]:
        """See `Operation.gradient`: that of the indices, if there are any, counts for nothing."""
        given, saved, host = op.inputs[0], op.inputs[1:-1], op.inputs[-1]
        spread, = library.call(
            self.spread, self.SpreadConfig(*config, given.dtype.name), [tf.convert_to_tensor(grads[0]), *saved],
            [given.dtype], [[None, config.table.dim]], host_inputs=[host], name="second_order")
        return [tf.reshape(spread, tf.shape(given))] + [None] * (len(op.inputs) - 1)


def check_gradient(table: Table, world: Any, gradient: Any, count: int) -> None:
    """Raises where a lookup's gradient was given an `Array` that does not have the embeddings' `count` rows."""
    if gradient.size != count * table.dim or gradient.dtype not in ("float16", "float32"):
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got a gradient of {} and shape {} for a lookup's embeddings, expected "
            "as many numbers as these have, {} x {}, of float16 or float32").format(
                table.name, world.name, gradient.dtype, list(gradient.shape), count, table.dim))


def rows_are_known(table: Table, training: Any) -> bool:
    """Whether, as the graph shows already, every key that is looked up has a row.

    Then the rows that the forward op found are the gradient's indices as they are, and what optimizers do with
    indices alone (as TensorFlow's making them distinct) need not wait for the gradient.
    """
    admits_all = table.forgetting is None or not table.forgetting.filters
    return not table.hashed or (training is True and admits_all)


def slices(config: Any, variable: tf.Tensor, rows: tf.Tensor,
           call: Callable[..., List[tf.Tensor]]) -> tf.IndexedSlices:
    """The `tf.IndexedSlices` of a lookup's gradient.

    Args:
      config: the lookup's. variable: the handle of the table's rows. rows: its distinct rows, int32 [u], for backward.
      call: makes the backward op, given its outputs' dtypes and shapes: values, and indices where they are not known.
    """
    table, dtypes, shapes = config.table, [tf.float32, tf.int32], [[None, config.table.dim], [None]]
    if config.rows_known:
        values, = call(dtypes[:1], shapes[:1])
        indices = tf.identity(rows, name="rows")  # may be fed, which the rows that backward works with may not
    else:
        values, indices = call(dtypes, shapes)
    values = table_means.of_sum(values)
    shard_gradients.add(table.name, values, indices, distinct=True)
    # int32, as of TensorFlow's own gather: in a branch it is merged with TensorFlow's zeros of the other branch.
    if not table.grows:
        shape = tf.constant([table.rows, table.dim], tf.int32)
    else:
        with tf.control_dependencies([indices]):  # a lookup of this run may give the table more rows
            shape = gen_resource_variable_ops.variable_shape(variable, out_type=tf.int32)
    shard_gradients.mark_shape(shape, table.name)
    return tf.IndexedSlices(values, indices, shape)
