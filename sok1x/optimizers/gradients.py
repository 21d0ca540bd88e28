"""Averages of dense gradients over the ranks."""
import sys
from typing import Any, List, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.shard_variable import ShardVariable
from sok1x.graph_ops import collectives

Pairs = List[Tuple[Any, tf.Variable]]
_DTYPES = (tf.float16, tf.float32, tf.float64)
# Marks the tensors that have been averaged, so that an optimizer does not average them again.
_AVERAGED = "sok1x_averaged_gradients"


def average(grads_and_vars: Any, mean: bool = True) -> Pairs:
    """Averages the gradients of dense variables over all ranks, at graph construction.

    Over Horovod where it is imported and initialized by now, else over sok1x's own communicator, all in one op. A
    gradient that comes from averaged ones already, for instance by clipping, is taken as it is.

    Args:
        grads_and_vars: pairs (gradient, variable): tensors or tf.IndexedSlices of float16, float32 or float64, or
            None.
        mean: True averages over the ranks; False sums, for a loss that already divides by the global batch.

    Returns:
        The pairs with the dense variables' gradients averaged. None, and the gradients of embedding variables,
        which are complete on their owner, are passed through. tf.IndexedSlices stay tf.IndexedSlices, of the rows
        that any rank has touched.

    Raises:
        TypeError: a gradient of another dtype.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.optimizers import gradients
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     pairs = gradients.average([(tf.constant([3.0, 4.0]), weights)])
        ...     len(pairs)
        1
    """
    pairs = list(grads_and_vars)
    known = set(tf.get_collection(_AVERAGED))
    seen: set = set()
    chosen = [i for i, (gradient, variable) in enumerate(pairs)
              if gradient is not None and not isinstance(variable, ShardVariable)
              and not (known and _comes_from(gradient, known, seen))]
    for i in chosen:
        if pairs[i][0].dtype not in _DTYPES:
            raise TypeError("DistributedOptimizer: got a gradient of dtype {} for variable '{}', expected one of {}"
                            .format(pairs[i][0].dtype.name, pairs[i][1].name, ", ".join(d.name for d in _DTYPES)))
    if chosen:
        horovod = _initialized_horovod()
        with tf.name_scope("average_gradients"):
            gradients = [pairs[i][0] for i in chosen]
            averaged = _by_horovod(horovod, gradients, mean) if horovod else _by_own(gradients, mean)
        for i, gradient in zip(chosen, averaged):
            pairs[i] = (gradient, pairs[i][1])
            tf.add_to_collection(_AVERAGED, _values(gradient).op.name)
    return pairs


def _initialized_horovod() -> Any:
    """Horovod, if the script uses it; it is never imported here."""
    horovod = sys.modules.get("horovod.tensorflow")
    return horovod if horovod is not None and horovod.is_initialized() else None


def _by_horovod(horovod: Any, gradients: List[Any], mean: bool) -> List[Any]:
    operation = horovod.Average if mean else horovod.Sum
    return [horovod.allreduce(gradient, op=operation) for gradient in gradients]


def _by_own(gradients: List[Any], mean: bool) -> List[Any]:
    sent: List[tf.Tensor] = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            sent += _dense(gradient)
        else:
            sent.append(gradient)
    received = iter(collectives.all_reduce(sent, average=mean, name="all_reduce"))
    return [_slices(gradient, next(received), next(received)) if isinstance(gradient, tf.IndexedSlices)
            else next(received) for gradient in gradients]


def _dense(slices: tf.IndexedSlices) -> List[tf.Tensor]:
    """A sparse gradient as the whole matrix, and how often each of its rows was touched."""
    rows = slices.dense_shape[0]
    return [tf.math.unsorted_segment_sum(slices.values, slices.indices, rows),
            tf.math.unsorted_segment_sum(tf.ones_like(slices.indices, tf.float32), slices.indices, rows)]


def _slices(like: tf.IndexedSlices, matrix: tf.Tensor, touched: tf.Tensor) -> tf.IndexedSlices:
    """Back to the touched rows: optimizers such as LazyAdam and Momentum treat the others differently."""
    indices = tf.cast(tf.where(touched > 0)[:, 0], like.indices.dtype)
    return tf.IndexedSlices(tf.gather(matrix, indices), indices, like.dense_shape)


def _values(gradient: Any) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _comes_from(gradient: Any, known: set, seen: set) -> bool:
    """Whether an op named in `known` is among those that a gradient is computed from.

    `seen`: ops found not to lead there; shared by the gradients of one call, so that a graph is walked once.
    """
    waiting = [_values(gradient).op]
    visited = set()
    while waiting:
        op = waiting.pop()
        if op.name in known:
            return True
        if op.name in seen or op.name in visited:
            continue
        visited.add(op.name)
        waiting.extend(tensor.op for tensor in op.inputs)
    seen |= visited
    return False
