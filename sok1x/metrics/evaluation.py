"""What an Estimator's `evaluate` gives, over the samples of all ranks.

`tf.metrics` add up what their values are computed from in local variables; the loss, of which an Estimator takes the
mean, is one of them. A hook replaces these sums by those of all ranks when the last batch has been counted, before the
Estimator reads the values; and so it writes and returns the same on all ranks.
"""
import re
import sys
from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core import alike
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import ESTIMATORS
from sok1x.graph_ops.operations import collectives
from sok1x.graph_ops.stores import figures
from sok1x.launch import launcher
from sok1x.metrics.accumulators import OVER_RANKS

# What variables of tf.metrics and tf.keras.metrics are called that are sums over samples.
_SUMS = re.compile("(total|count|(true|false)_(positives|negatives)|total_confusion_matrix|total_compute_iou|"
                   "(total|count)_tensor|(true|false)_(positive|negative)_at(_([0-9]+|k))?(_class[0-9]+)?)[0-9]*$")
_SPECS = "tensorflow_estimator.python.estimator.model_fn"
_OWNER = "_sok1x_metric"  # the attribute of a variable of tf.keras.metrics which says whose it is


def watch() -> None:
    """From now on `tf.estimator.Estimator.evaluate` gives results over all ranks, where these run its graph alike.

    Example:
        >>> from sok1x.metrics import evaluation
        >>> evaluation.watch()
    """
    module: Any = sys.modules.get(ESTIMATORS)  # else no Estimator calls us
    kind = getattr(module, "Estimator", None)
    if kind is not None:
        wrapping.wrap(kind, "_evaluate_run", _over_ranks)
    if hasattr(sys.modules.get(_SPECS), "_validate_eval_metric_ops"):
        wrapping.wrap(sys.modules[_SPECS], "_validate_eval_metric_ops", _noting_owners)


def _over_ranks(stock: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate_run(self: Any, checkpoint_path: Any, scaffold: Any, update_op: Any, eval_dict: Any, all_hooks: Any,
                     output_dir: Any) -> Any:
        if alike.is_so():
            all_hooks = [*(all_hooks or []), OverRanksHook()]
        with figures.aside():  # training may go on after it, as in train_and_evaluate
            return stock(self, checkpoint_path, scaffold, update_op, eval_dict, all_hooks, output_dir)

    return evaluate_run


def _noting_owners(stock: Callable[..., Any]) -> Callable[..., Any]:
    def validate(eval_metric_ops: Any) -> Any:
        # Here an EstimatorSpec lets go of a metric itself. Names of its variables have no scope that tells.
        for key, metric in eval_metric_ops.items() if isinstance(eval_metric_ops, dict) else ():
            if isinstance(metric, tf.keras.metrics.Metric):
                for variable in metric.variables:
                    setattr(variable, _OWNER, "eval_metric_ops[{!r}]".format(key))
        return stock(eval_metric_ops)

    return validate


class OverRanksHook(tf.train.SessionRunHook):
    """At the end of a session, has what tf.metrics have counted be what they have counted on all ranks.

    All ranks come to the end alike. Metrics of `sok1x.metrics` are left alone, for they are over all ranks themselves;
    and those of others that do not add up (their variables' names tell), of which a warning says so.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.metrics.evaluation import OverRanksHook
        >>> with tf.Graph().as_default():
        ...     value, update = tf.metrics.mean([1.0, 3.0])
        ...     with tf.train.MonitoredTrainingSession(hooks=[sok.InitHook(), OverRanksHook()]) as session:
        ...         float(session.run(update))
        2.0
    """

    def __init__(self) -> None:
        self._assign: List[tf.Operation] = []

    def begin(self) -> None:
        """Makes the ops."""
        if not _several_ranks():
            return
        variables = [variable for variable in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
                     if not getattr(variable, OVER_RANKS, False)]
        # An EstimatorSpec adds those of tf.keras.metrics out of a set, in another order on each rank.
        variables.sort(key=lambda variable: str(variable.op.name))
        others = {_scope(variable) for variable in variables if not _is_sum(variable)}
        if others:
            tf.logging.warning("Metrics of this rank's samples alone, since they do not add up: %s. Take those of "
                               "tf.metrics or sok1x.metrics for values over all ranks.", ", ".join(sorted(others)))
        sums = [variable for variable in variables if _scope(variable) not in others]
        with tf.name_scope("metrics_over_ranks"):
            with tf.device("/device:CPU:0"):  # in float64, so that counts stay whole numbers
                added = collectives.all_reduce([tf.cast(variable, tf.float64) for variable in sums], average=False)
            self._assign = [tf.assign(variable, tf.cast(value, variable.dtype.base_dtype)).op
                            for variable, value in zip(sums, added)]

    def end(self, session: tf.Session) -> None:
        """Adds up, before the values are read.

        Args:
            session: has run the last step.

        Raises:
            tf.errors.OpError: a rank has failed.

        Example:
            >>> from sok1x.metrics.evaluation import OverRanksHook
            >>> OverRanksHook().end(None)
        """
        if self._assign:
            session.run(self._assign)


def _several_ranks() -> bool:
    world = launch.current()
    if world is not None:
        return bool(world.size > 1)
    try:
        return bool(launcher.started_ranks() > 1)
    except launch.LaunchError:  # told when the ranks join
        return False


def _scope(variable: Any) -> str:
    """Which metric a variable is of."""
    return getattr(variable, _OWNER, None) or str(variable.op.name.rpartition("/")[0] or variable.op.name)


def _name(variable: Any) -> str:
    """What tf.metrics call it: TensorFlow adds numbers."""
    return re.sub("_[0-9]+$", "", variable.op.name.rpartition("/")[2])


def _is_sum(variable: Any) -> bool:
    if _SUMS.match(_name(variable)) is not None:
        return True
    # average_precision_at_k divides two sums, of which this one is of what precision could be at most.
    added = variable.op.name + "/batch_max"
    return _name(variable) == "max" and any(op.name == added for op in variable.graph.get_operations())
