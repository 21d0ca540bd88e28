"""The lookups that the layers call.

Memory of a rank, in bytes. A table: 4 V D for its rows, 8 V + 8 for their stamps, and with an index of C slots 16 C +
8, where C is a power of two from 1.5 V to 3 V. A table that grows has that of its V; while V doubles, for a moment half
of its largest variable more, and 12 for each row in use. A lookup, until its gradient has run, at most (K keys, U of
them distinct, R keys that all ranks ask of this one; W bags of this rank, A bags of all ranks, P keys of all ranks that
this one owns; E bytes of a number of the result, 4 of a float32, 2 of a float16):

  one row a key, forward    E K D + E D (U + R) + 44 K + 24 U + 64 R + 24 N
  one row a key, backward   E D (U + R) + 4 D u + 16 u + 48 K, u rows of which gradients come back; float16: and 4 D U
  combined, all2all         forward E W D + 8 W in place of E K D; backward the same
  with weights              forward 4 K more for means, and E K D where a gradient to weights is asked for
  combined, reduce_scatter  forward E D (W + A + N W) + 8 (W + A) + 80 K + 24 U + 64 P + 24 N;
                            backward E D (A + W) + 4 D u + 16 P + 48 K

Lookups that run together take the sum of this, until the last of them has finished; on several ranks one that needs
rows inserted, or reads initial values, takes E D (U + R) + 16 (U + R) in its forward once more.

On a GPU kernels order keys and sources in scratch memory: at most 36 (K + R) + 16 (U + u) + 8192 more, forward and
backward each (P in place of R where pairs travel). There a lookup that trains makes its rows distinct itself
(groups/ahead.h): 12 K on one rank, 12 R on several, until its gradient has begun, or the table's next lookup. An op
takes its temporary part in blocks (bridge/arena.py), the first as large as that of its previous run; a piece begins at
a multiple of 256 bytes.

On one rank nothing is asked of others: R = 0, and E D U, E D (A + N W), 64 P and what float16 has besides fall away. Of
the temporary part, up to 128 MB stay for the next step; nothing else stays between steps.
"""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import configs, op_types, registry
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.operations import combined_lookup, dense_lookup, distinct_rows
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import TableVariables

_DISTINCT = distinct_rows.outputs_of(["operations.dense_lookup.backward", "operations.combined_lookup.backward",
                                        "operations.local_lookup.backward"])


def from_lookup(indices: Any, table: Table) -> bool:
    """Whether a tensor is the indices of a gradient of a lookup of `table` as they come from here: distinct.

    So says the graph; what is fed in their place is another matter.
    """
    return looked_up(indices) == table.name


def looked_up(indices: Any) -> Optional[str]:
    """The name of the table of whose lookup's gradient a tensor is the indices, distinct; else None."""
    if isinstance(indices, tf.Tensor) and not hasattr(indices, "graph"):  # eager: it has come from no op
        return shard_gradients.distinct_of(indices)
    while isinstance(indices, tf.Tensor) and indices.op.type == "Identity":
        indices = indices.op.inputs[0]
    if not isinstance(indices, tf.Tensor) or not op_types.is_ours(indices.op):
        return None
    function = indices.op.get_attr("function").decode()
    if (function, indices.value_index) not in _DISTINCT:
        return None
    config = configs.of_op(registry.get(function).Config, indices.op)
    # Where not every key has a row, the rows that are found are not yet the gradient's.
    return config.table.name if function != _DISTINCT[0][0] or config.rows_known else None


def are_distinct(indices: Any, variable: Any) -> bool:
    """Whether a gradient's indices are those of a lookup of `variable`: distinct rows of it.

    Where they are, nothing can be fed in their place from now on: ops of TensorFlow that take this word for it would
    not notice.
    """
    table = getattr(variable, "table", None)
    if table is None or not from_lookup(indices, table):
        return False
    if not hasattr(indices, "graph"):  # eager: nothing is fed
        return True
    while indices.op.type == "Identity":
        indices.graph.prevent_feeding(indices)
        indices = indices.op.inputs[0]
    indices.graph.prevent_feeding(indices)
    return True


@tf.autograph.experimental.do_not_convert
def lookup_dense(variables: TableVariables, keys: tf.Tensor, training: Any, dtype: str = "float32",
                 name: str = "lookup", samples: Optional[tf.Tensor] = None, filtered: bool = False) -> tf.Tensor:
    """One row for every key.

    Args:
      variables: the table's `TableVariables`.
      keys: int64, int32 or uint32 of any shape [...].
      training: bool or scalar bool tensor. True: unseen keys get rows. False: they read their initial values.
      dtype: 'float32' or 'float16': of the result, and of what travels between ranks.
      samples: of keys [K], int64 [K, 2] whose first column says which sample each key is of, for messages.
      filtered: whether new keys get rows with the table's `filter_ratio` only.

    Returns:
      [..., D], of `dtype`. Its gradient for the table's rows is `tf.IndexedSlices` with distinct indices: values
      float32 [u, D], indices int32 [u], dense_shape [V, D], summed in float32 over all ranks.
    """
    return dense_lookup.lookup(variables, keys, training, dtype, name, samples, filtered)


@tf.autograph.experimental.do_not_convert
def lookup_combined(variables: TableVariables, ids: Any, slot_num: Optional[int], max_nnz: int, combiner: str,
                    training: Any, exchange: str = "auto", dtype: str = "float32", name: str = "lookup",
                    filtered: bool = False, weights: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The rows of each slot's keys, combined.

    Args:
      variables: the table's `TableVariables`.
      ids: `tf.SparseTensor` of dense_shape [B * S, max_nnz], or `tf.RaggedTensor` [B * S, ...] with int64 row splits.
      slot_num: S; None: one bag a sample. max_nnz: the most keys a slot may have.
      combiner: 'sum', 'mean' or, with weights, 'sqrtn'.
      training: as for `lookup_dense`.
      exchange: 'all2all', 'reduce_scatter', or 'auto': whichever moves fewer bytes in a step that trains.
      dtype: as for `lookup_dense`. filtered: likewise.
      weights: float32 [K], what the row of each key is multiplied with, if anything: a mean is then divided by the sum
        of the slot's weights, and rows go by all2all. There is a gradient for them.

    Returns:
      [B, S, D], without slots [B, D], of `dtype`; zeros for a slot without keys. The gradient is as for `lookup_dense`.
    """
    return combined_lookup.lookup(variables, ids, slot_num, max_nnz, combiner, training, exchange, dtype, name,
                                  filtered, weights)
