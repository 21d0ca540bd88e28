"""Learners without gradients, which the collective strategy cannot make right on several ranks: refused by name.

They change what they learn from sums over a batch, in ops of their own; a rank has its own batch and no optimizer that
would average anything.
"""
from typing import Any

from sok1x import launch

# Ops of a training graph -> who makes them.
_LEARNERS = {
    "BoostedTreesTrainingPredict": "tf.estimator's BoostedTrees estimators",
    "GrowTreeEnsemble": "tf.contrib.boosted_trees",
    "KmeansPlusPlusInitialization": "a KMeans estimator",
    "SdcaOptimizer": "a linear estimator by SDCA",
    "SdcaOptimizerV2": "a linear estimator by SDCA",
}


def refuse(graph: Any) -> None:
    """Called where a training session begins.

    Args:
        graph: what it runs.

    Raises:
        ValueError: there are several ranks, and the graph has a learner without gradients.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.deeprec import unfit_learners
        >>> sok.init()
        >>> unfit_learners.refuse(tf.Graph())
    """
    world = launch.current()
    if world is None or world.size == 1:
        return
    for op in graph.get_operations():
        if op.type in _LEARNERS:
            raise ValueError(
                "sok1x.deeprec: strategy 'collective': got a training graph of {} (op '{}'), which learns from a "
                "batch's sums and not by gradients: each of the {} ranks would learn from its own batches alone. "
                "Expected a model that an optimizer trains; train this one in one process, without mpiexec".format(
                    _LEARNERS[op.type], op.name, world.size))
