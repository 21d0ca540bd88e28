"""For `fit` of tf.keras on several ranks: equal dense variables, and equal metrics."""
from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core import broadcast
from sok1x.graph_ops import collectives

_UNKNOWN = -1


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks one rank's dense variables when `fit` begins, the optimizer's included.

    Tables, and their optimizer slots, stay with their ranks: see `sok1x.broadcast_global_variables`. As a step takes
    all ranks, they need equally many batches an epoch: that is checked too.

    Args:
        root_rank: the rank whose values all get.
        device: where the values pass through, as for `tf.device`; '' leaves the choice to TensorFlow.

    Raises:
        TypeError: root_rank is no integer.
        ValueError: root_rank is negative; (of `fit`) this rank has another number of batches or epochs than root_rank.

    Example:
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
        ...     model.compile("sgd", "mse")
        ...     _ = tf.keras.backend.get_session().run(sok.Init(global_batch_size=8))
        ...     history = model.fit(np.ones([8, 2]), np.ones([8, 1]), verbose=0, callbacks=[
        ...         sok.BroadcastGlobalVariablesCallback(0)])
        >>> len(history.history["loss"])
        1
    """

    def __init__(self, root_rank: int = 0, device: str = "") -> None:
        super().__init__()
        broadcast.check_rank(root_rank)
        self.root_rank = root_rank
        self.device = device

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Broadcasts; called by `fit`, which has made all variables by then.

        Args:
            logs: unused.

        Raises:
            ValueError: this rank has another number of batches or epochs than root_rank.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     weights = tf.keras.backend.variable([1.0, 2.0])
            ...     _ = session.run(sok.Init(global_batch_size=8))
            ...     sok.BroadcastGlobalVariablesCallback().on_train_begin()
        """
        session = tf.keras.backend.get_session()
        # Variables may have been made since the last time, so that the op is made each time.
        with session.graph.as_default(), tf.device(self.device):
            length = tf.constant(_length(self.params or {}), tf.int64)
            expected = collectives.broadcast([length], int(self.root_rank))[0]
            everywhere = broadcast.broadcast_global_variables(self.root_rank)
        self._check(session.run(length), session.run(expected))
        session.run(everywhere)

    def _check(self, got: np.ndarray, expected: np.ndarray) -> None:
        for what, here, there in zip(("batches an epoch", "epochs"), got, expected):
            if here != there and _UNKNOWN not in (here, there):
                raise ValueError(
                    "fit: got {} {} on rank {}, expected {} as on rank {}: every step takes all ranks; give each rank "
                    "equally many samples, or the same steps_per_epoch".format(
                        here, what, launch.current().rank, there, self.root_rank))


def _length(params: Dict[str, Any]) -> List[int]:
    """How much `fit` is about to do: batches an epoch, and epochs."""
    batches, samples, size = (params.get(what) for what in ("steps", "samples", "batch_size"))
    if batches is None and samples is not None and size:
        batches = -(-samples // size)
    return [_UNKNOWN if number is None else number for number in (batches, params.get("epochs"))]


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Averages an epoch's loss and metrics, those of validation too, over the ranks.

    What Keras computes is of this rank's samples alone. In the list of callbacks it stands before all that look at
    metrics, such as EarlyStopping or ReduceLROnPlateau, so that they decide alike on all ranks. Each rank counts as
    much as any other; all must have the same metrics.

    Example:
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])])
        ...     model.compile("sgd", "mse")
        ...     _ = tf.keras.backend.get_session().run(sok.Init(global_batch_size=8))
        ...     history = model.fit(np.ones([8, 2]), np.ones([8, 1]), verbose=0, callbacks=[
        ...         sok.MetricAverageCallback(), tf.keras.callbacks.EarlyStopping("loss")])
        >>> len(history.history["loss"])
        1
    """

    def __init__(self) -> None:
        super().__init__()
        self._average: Any = None

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Averages; called by `fit`.

        Args:
            epoch: unused.
            logs: the metrics, numbers by name; replaced by their averages.

        Raises:
            tf.errors.InvalidArgumentError: the ranks have different numbers of metrics.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     _ = session.run(sok.Init(global_batch_size=8))
            ...     metrics = {"loss": 0.5, "accuracy": 0.75}
            ...     sok.MetricAverageCallback().on_epoch_end(0, metrics)
            >>> metrics
            {'loss': 0.5, 'accuracy': 0.75}
        """
        if not logs:
            return
        names = sorted(name for name in logs if np.ndim(logs[name]) == 0)
        session = tf.keras.backend.get_session()
        if self._average is None or self._average[0].graph is not session.graph:
            with session.graph.as_default():
                mine = tf.placeholder(tf.float64, [None], name="metrics")
                self._average = mine, collectives.all_reduce([mine], name="average_metrics")[0]
        mine, average = self._average
        logs.update(zip(names, session.run(average, {mine: [float(logs[name]) for name in names]}).tolist()))
