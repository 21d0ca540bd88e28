"""Whether a run of a lookup trains: known when the graph is built, or fed; one value on all ranks."""
from typing import Any, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores.table import Table


def training_inputs(training: Any) -> Tuple[Optional[bool], List[tf.Tensor]]:
    """(`training` of a lookup's config, its last host inputs) from a bool, or a tensor that each run has."""
    if isinstance(training, bool):
        return training, []
    return None, [tf.convert_to_tensor(training, tf.bool)]


def training_of(request: Any, config: Any) -> bool:
    """Whether this run trains."""
    if config.training is not None:
        return config.training
    given = request.host_inputs[-1]
    if given.size != 1:
        raise CallError(INVALID_ARGUMENT, "embedding table '{}': got training of shape {}, expected a scalar".format(
            config.table.name, list(given.shape)))
    return bool(given.numpy().reshape(()))


def check_training(table: Table, flags: np.ndarray) -> None:
    """Raises, on all ranks alike, where some train and others evaluate. flags: int64 [N], 1 for a rank that trains."""
    if flags.min() != flags.max():
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}': got training=True on ranks {} and training=False on ranks {}; expected one value "
            "on all ranks in one step").format(
                table.name, np.flatnonzero(flags).tolist(), np.flatnonzero(flags == 0).tolist()), agreed=True)
