"""The lookups that the layers call."""
import tensorflow.compat.v1 as tf

from sok1x.graph_ops import combined_lookup, dense_lookup


@tf.autograph.experimental.do_not_convert
def lookup_dense(table, keys, training, name="lookup"):
    """One row for every key.

    Args:
      table: a `Table` with handles.
      keys: int64, int32 or uint32 of any shape [...].
      training: bool or scalar bool tensor. True: unseen keys get rows. False: they read their initial values.

    Returns:
      float32 [..., D]. Its gradient for the table's rows is `tf.IndexedSlices` with distinct indices: values [u, D],
      indices int32 [u], dense_shape [V, D], summed over all ranks.
    """
    return dense_lookup.lookup(table, keys, training, name)


@tf.autograph.experimental.do_not_convert
def lookup_combined(table, sparse_keys, slot_num, max_nnz, combiner, training, exchange="auto", name="lookup"):
    """The rows of each slot's keys, combined.

    Args:
      table: a `Table` with handles.
      sparse_keys: `tf.SparseTensor` of dense_shape [B * S, max_nnz].
      slot_num: S. max_nnz: the most keys a slot may have. combiner: 'sum' or 'mean'.
      training: as for `lookup_dense`.
      exchange: 'all2all', 'reduce_scatter', or 'auto': whichever moves fewer bytes in a step.

    Returns:
      float32 [B, S, D]; zeros for a slot without keys. The gradient is as for `lookup_dense`.
    """
    return combined_lookup.lookup(table, sparse_keys, slot_num, max_nnz, combiner, training, exchange, name)
