"""Estimators that TF_CONFIG makes tasks of a cluster, on several ranks: refused before they wait for each other.

Such a task that is no chief neither saves nor initializes, and a ps or an evaluator never builds the model, while ranks
do all of it alike.
"""
import sys
from typing import Any

from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import ESTIMATORS
from sok1x.graph_ops.gradients import provenance


def refuse(table_name: str) -> None:
    """Does nothing, but where such an Estimator is about to have a table.

    A chief that is alone in its cluster trains, saves and initializes as an Estimator without a cluster, and may.

    Args:
        table_name: for the message.

    Raises:
        ValueError: it is one, and there are several ranks.

    Example:
        >>> from sok1x.core.frameworks import estimator_clusters
        >>> estimator_clusters.refuse("items")
    """
    estimator: Any = getattr(sys.modules.get(ESTIMATORS), "Estimator", None)
    if estimator is None or provenance.ranks() == 1:
        return
    model_fn = estimator._call_model_fn.__code__  # which has the RunConfig in a local variable
    config = next((frame.f_locals["config"] for frame in callers.frames() if frame.f_code is model_fn), None)
    if config is None or config.is_chief and config.num_worker_replicas + config.num_ps_replicas <= 1:
        return
    raise ValueError(
        "table '{}': got an Estimator whose TF_CONFIG makes this rank the {} {} of a cluster of several tasks, "
        "expected none: mpiexec's ranks are the workers. Unset TF_CONFIG, and have every rank call the Estimator alike "
        "(docs/from_parameter_server.md)".format(table_name, config.task_type, config.task_id))
