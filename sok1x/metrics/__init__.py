"""Metrics over the samples of all ranks, called as `tf.metrics`' are.

    averages      `mean` and `accuracy`
    areas         `auc`
    accumulators  what a metric counts on a rank, and the sums of all ranks
    evaluation    an Estimator's results, of tf.metrics and the loss, over all ranks
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.metrics.areas import auc
    from sok1x.metrics.averages import accuracy, mean

__all__ = ["accuracy", "auc", "mean"]
__getattr__, __dir__ = lazy.exports(globals(), {"accuracy": "averages", "auc": "areas", "mean": "averages"})
