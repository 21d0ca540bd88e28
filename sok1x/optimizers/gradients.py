"""Averages of dense gradients over the ranks."""
import sys
from typing import Any, List, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import kept_steps
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import in_plain_graph, is_eager_outside
from sok1x.graph_ops.gradients import provenance, shard_gradients
from sok1x.graph_ops.operations import collectives

Pairs = List[Tuple[Any, tf.Variable]]
_DTYPES = (tf.float16, tf.float32, tf.float64)


def average(grads_and_vars: Any, mean: bool = True, new: bool = False) -> Pairs:
    """Averages the gradients of dense variables over all ranks, at graph construction.

    Over Horovod where it is imported and initialized by now, else over sok1x's own communicator, all in one op. A
    gradient that has been averaged already, by us or by Horovod, and perhaps clipped or scaled since, is taken as it
    is. One that has only to do with averaged ones, as that of a loss in which they occur, is averaged.

    Args:
        grads_and_vars: pairs (gradient, variable): tensors or tf.IndexedSlices of float16, float32 or float64, or
            None.
        mean: True averages over the ranks; False sums, for a loss that already divides by the global batch.
        new: whether all of them are known to be this rank's own, because they have just been computed.

    Returns:
        The pairs with the dense variables' gradients averaged. None, and the gradients of embedding variables,
        which are complete on their owner, are passed through. tf.IndexedSlices stay tf.IndexedSlices, of the rows
        that any rank has touched.

    Raises:
        TypeError: a gradient of another dtype.
        ValueError: on several ranks, one that is clipped by a norm of this rank's rows of a table; or, if mean is
            False, one of which it cannot be told whether it has been summed.

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
    chosen = [i for i, (gradient, variable) in enumerate(pairs)
              if gradient is not None and not isinstance(variable, ShardVariable)
              and (new or not _is_averaged(gradient, variable, mean))]
    for i in chosen:
        if pairs[i][0].dtype not in _DTYPES:
            raise TypeError("DistributedOptimizer: got a gradient of dtype {} for variable '{}', expected one of {}"
                            .format(pairs[i][0].dtype.name, pairs[i][1].name, ", ".join(d.name for d in _DTYPES)))
    if chosen:
        horovod = _initialized_horovod()
        # Of a step that fails as its table grows nothing is exchanged: other ranks would take it.
        first = kept_steps.of_growing(pairs) if in_plain_graph() else []
        with tf.name_scope("average_gradients"), tf.control_dependencies(first):
            gradients = [pairs[i][0] for i in chosen]
            averaged = _by_horovod(horovod, gradients, mean) if horovod else _by_own(gradients, mean)
        for i, gradient in zip(chosen, averaged):
            pairs[i] = (gradient, pairs[i][1])
            if is_eager_outside():
                shard_gradients.mark_exchanged(shard_gradients.values_of(gradient))
    return pairs


def _is_averaged(gradient: Any, variable: Any, mean: bool) -> bool:
    """Whether a gradient has been averaged (or summed); raises where that cannot be told and would matter."""
    found = provenance.standing(gradient)
    if not found.exchanged:
        return False
    if not found.own or provenance.ranks() == 1:
        return True
    if found.scaled_by_table:
        raise ValueError(
            "DistributedOptimizer, or an optimizer of TensorFlow's whose gradients are averaged over the ranks: got "
            "for variable '{}' a gradient that is scaled by what this rank's rows of a table have for a gradient (op "
            "'{}'), as by a norm of one's own: each rank would scale it differently, and the replicas of the variable "
            "would drift apart. Use sok1x.clip_by_global_norm (which tf.clip_by_global_norm is under a collective "
            "strategy), whose norm is that of all ranks' rows, or DistributedOptimizer(..., clip_norm=...)".format(
                variable.name, found.scaled_by_table[0].name))
    if mean:  # what is equal on all ranks is its own average: it does no harm
        return False
    raise ValueError(
        "DistributedOptimizer(average=False): got for variable '{}' a gradient that is made of summed gradients and of "
        "what this rank alone has computed (op '{}'), so that it cannot be told whether it is still to be summed over "
        "the ranks. For the gradient of a loss, call this optimizer's compute_gradients, which sums it; what has been "
        "summed, and only changed since, apply by the optimizer that DistributedOptimizer was given".format(
            variable.name, found.own[0].name))


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
    received = iter(_side_by_side(collectives.all_reduce(sent, average=mean, name="all_reduce")))
    return [_slices(gradient, next(received), next(received)) if isinstance(gradient, tf.IndexedSlices)
            else next(received) for gradient in gradients]


def _side_by_side(averages: List[tf.Tensor]) -> List[tf.Tensor]:
    """The same tensors, as outputs of an op that TensorFlow runs at once.

    When an op of ours ends TensorFlow gives each op that waits for it to a thread of its own: here the steps of all
    dense variables, which on a GPU then wait for each other in the driver, 15 of them for 5 ms of the threads' time.
    What waits for an op that has run at once is run by its thread, one after the other, where it takes the CPU no time.
    """
    return averages if tf.executing_eagerly() else tf.identity_n(averages)


def _dense(slices: tf.IndexedSlices) -> List[tf.Tensor]:
    """A sparse gradient as the whole matrix, and how often each of its rows was touched."""
    if slices.dense_shape is None:
        raise ValueError("got a sparse gradient ('{}') without a dense_shape, which all ranks' cannot be added up by; "
                         "expected tf.IndexedSlices(values, indices, dense_shape)".format(slices.values.name))
    rows = slices.dense_shape[0]
    return [tf.math.unsorted_segment_sum(slices.values, slices.indices, rows),
            tf.math.unsorted_segment_sum(tf.ones_like(slices.indices, tf.float32), slices.indices, rows)]


def _slices(like: tf.IndexedSlices, matrix: tf.Tensor, touched: tf.Tensor) -> tf.IndexedSlices:
    """Back to the touched rows: optimizers such as LazyAdam and Momentum treat the others differently."""
    indices = tf.cast(tf.where(touched > 0)[:, 0], like.indices.dtype)
    return tf.IndexedSlices(tf.gather(matrix, indices), indices, like.dense_shape)
