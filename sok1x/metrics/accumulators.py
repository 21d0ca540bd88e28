"""What a metric counts on this rank, and the sums of all ranks."""
import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.operations import collectives

OVER_RANKS = "_sok1x_over_ranks"  # the attribute of an accumulator whose metric is over all ranks by itself


@contextlib.contextmanager
def scope(function: str, name: Optional[str], tensors: Sequence[Any]) -> Iterator[None]:
    """Where a metric's ops are made: on the CPU, since they are few and small.

    Args:
        function: the metric's own name. name: the caller's, or None. tensors: what it is of.

    Raises:
        RuntimeError: eager execution is on.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.metrics import accumulators
        >>> with tf.Graph().as_default(), accumulators.scope("mean", None, []):
        ...     tf.constant(1.0).name
        'mean/Const:0'
    """
    if tf.executing_eagerly():
        raise RuntimeError("sok1x.metrics.{} makes ops in a tf.Graph: got eager execution; remove "
                           "tf.enable_eager_execution()".format(function))
    with tf.variable_scope(name, function, list(tensors)), tf_ops.colocate_with(None, ignore_existing=True), \
            tf.device("/device:CPU:0"):
        yield


def stream(of_batch: Sequence[Tuple[str, tf.Tensor]], compute: Callable[..., tf.Tensor],
           metrics_collections: Any, updates_collections: Any) -> Tuple[tf.Tensor, tf.Tensor]:
    """A metric that is computed from sums, made inside `scope`.

    Sums are float64 local variables, also in `tf.GraphKeys.METRIC_VARIABLES`: counts are exact.

    Args:
        of_batch: (name, float64 tensor) of what this batch adds to each sum; its static shape is known.
        compute: gives the metric from as many sums.
        metrics_collections, updates_collections: lists of collections for the two tensors, or None.

    Returns:
        (value, update_op) as `tf.metrics` give them: see `sok1x.metrics.mean`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.metrics import accumulators
        >>> with tf.Graph().as_default(), tf.Session() as session, accumulators.scope("samples", None, []):
        ...     value, update = accumulators.stream(
        ...         [("count", tf.constant(3.0, tf.float64))], lambda count: count, None, None)
        ...     session.run([sok.Init(global_batch_size=1), tf.local_variables_initializer()])[0]
        ...     [session.run(update) for _ in range(2)], session.run(value)
        b'OK'
        ([3.0, 6.0], 6.0)
    """
    sums = [_accumulator(name, tensor.shape) for name, tensor in of_batch]
    with tf.name_scope("over_ranks"):
        value = tf.identity(compute(*collectives.all_reduce(
            [variable.read_value() for variable in sums], average=False)), name="value")
    # All or none: at the end of the data a step fails, and a count may not depend on them.
    with tf.name_scope("update"), tf.control_dependencies([tensor for _, tensor in of_batch]):
        update = tf.identity(compute(*[variable.assign_add(tensor, read_value=True) for variable, (_, tensor) in
                                       zip(sums, of_batch)]), name="update_op")
    for tensor, collections in ((value, metrics_collections), (update, updates_collections)):
        for collection in collections or []:
            tf.add_to_collection(collection, tensor)
    return value, update


def _accumulator(name: str, shape: tf.TensorShape) -> Any:
    made = tf.Variable(lambda: tf.zeros(shape, tf.float64), trainable=False, use_resource=True, name=name,
                       collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES])
    setattr(made, OVER_RANKS, True)
    return made
