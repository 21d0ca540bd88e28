"""Gradients of tf.train's optimizers averaged over the ranks, in whichever optimizer a script makes."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.deeprec.patches import Patches
from sok1x.graph_ops.gradients import table_means
from sok1x.optimizers import gradients
from sok1x.optimizers.distinct_rows import KnowsDistinctRows


def watch(patches: Patches) -> None:
    """From now on gradients are means over the ranks: tables' as lookups make them, all others where an optimizer
    computes or applies them.

    Args:
        patches: what undoes the latter.
    """
    kind = tf.train.Optimizer
    compute, apply = kind.compute_gradients, kind.apply_gradients

    def compute_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = compute(self, *args, **kwargs)
        return pairs if _averages_itself(self) else gradients.average(pairs, new=True)

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        return apply(self, pairs if _averages_itself(self) else gradients.average(pairs), *args, **kwargs)

    compute_gradients.__doc__, apply_gradients.__doc__ = compute.__doc__, apply.__doc__
    vars(apply_gradients).update(vars(apply))
    patches.put(kind, "compute_gradients", compute_gradients)
    patches.put(kind, "apply_gradients", apply_gradients)
    table_means.make_means(True)


def stop() -> None:
    """Tables' gradients are sums again."""
    table_means.make_means(False)


def _averages_itself(optimizer: Any) -> bool:
    """Whether it is one of `sok.DistributedOptimizer`."""
    return isinstance(optimizer, KnowsDistinctRows) and hasattr(optimizer, "_sok1x_average")
