"""For `fit` of tf.keras on several ranks: equal dense variables, and equal metrics."""
from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session.ranks import Ranks
from sok1x.core import broadcast
from sok1x.core.eagerly import eager


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks one rank's dense variables when `fit` begins, the optimizer's included.

    Tables, and their optimizer slots, stay with their ranks: see `sok1x.broadcast_global_variables`. As each step takes
    all ranks, they must make equally many: that is checked too.

    In eager execution `fit` may make variables in its first step, as of layers that have not been called before. The
    ranks get those too, before that step computes anything; with `run_eagerly`, right after it.

    Args:
        root_rank: the rank whose values all get.
        device: where the values pass through, as for `tf.device`; '' leaves the choice to TensorFlow.

    Raises:
        TypeError: root_rank is no integer.
        ValueError: root_rank is negative; (of `fit`, on all ranks) the ranks' batches or epochs differ in number.

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
        self.params: Dict[str, Any] = {}  # `fit` sets it
        self.root_rank = root_rank
        self.device = device
        self._ranks: Optional[Ranks] = None
        self._everywhere: Optional[tf.Operation] = None
        self._graph: Optional[tf.Graph] = None
        self._variables: List[Any] = []  # the graph's, of which it was made

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Broadcasts; called by `fit`, which in a graph has made all variables by then.

        Args:
            logs: unused.

        Raises:
            ValueError: the ranks' batches or epochs differ in number.
        """
        session, made = _session(), self._trained() if eager.is_on() else []
        told = self._made(session.graph).exchange(session, _length(self.params) + [len(some) for some in made])
        for place, what in enumerate(("batches an epoch", "epochs")):
            numbers = [one[place] for one in told]
            if len(set(numbers)) > 1:
                raise ValueError("fit: got {} {} on the ranks in turn, expected one number, as each step takes all "
                                 "ranks: give every rank equally many samples, or the same steps_per_epoch".format(
                                     numbers, what))
        if self._everywhere is not None:
            session.run(self._everywhere)
            return
        # Some may have called the model before `fit`, and others not.
        variables = [variable for some, *numbers in zip(made, *(one[2:] for one in told)) if len(set(numbers)) == 1
                     for variable in some]
        self._broadcast(variables)
        self._watch_first_step(variables)

    def _trained(self) -> List[List[Any]]:
        """What eager `fit` trains, as far as it is made, which is in no graph's list: the model's, the optimizer's."""
        optimizer = self.model.optimizer
        if not hasattr(optimizer, "variables"):  # Keras' cover of one of TensorFlow 1's
            optimizer = optimizer.optimizer
        made = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        try:
            return [list(self.model.variables), list(made)]
        except ValueError:  # of a model that must be built before Keras tells
            return [[], list(made)]

    def _broadcast(self, variables: List[Any]) -> None:
        with tf.init_scope(), tf.device(self.device):
            broadcast.of_variables(variables, self.root_rank)

    def _watch_first_step(self, known: List[Any]) -> None:
        """Has `fit`'s next call of its function broadcast what that call makes; later ones are Keras' own again."""
        model, step = self.model, getattr(self.model.train_function, "_sok1x_step", self.model.train_function)
        if step is None:
            return  # a loop of the user's own, in which `fit` has not been

        def broadcast_new() -> None:
            self._broadcast([one for some in self._trained() for one in some if not any(one is of for of in known)])

        def first(iterator: Any) -> Any:
            model.train_function = step
            traced = hasattr(step, "get_concrete_function") and not tf.config.functions_run_eagerly()
            if traced:  # which makes all variables, and computes nothing
                step.get_concrete_function(iterator)
                broadcast_new()
            logs = step(iterator)
            if not traced:
                broadcast_new()
            return logs

        first._sok1x_step = step  # type: ignore[attr-defined]  # which a `fit` without steps leaves there
        model.train_function = first

    def _made(self, graph: tf.Graph) -> Ranks:
        """Has the ops be those for the graph's variables: made again where some have been made since the last time."""
        with graph.as_default():
            if self._ranks is None or self._graph is not graph:
                self._ranks, self._graph, self._everywhere = Ranks("fit"), graph, None
            now = tf.global_variables()
            same = len(now) == len(self._variables) and all(one is of for one, of in zip(now, self._variables))
            if not eager.is_on() and not (same and self._everywhere is not None):
                with tf.device(self.device):
                    self._everywhere, self._variables = broadcast.broadcast_global_variables(self.root_rank), now
        return self._ranks


def _session() -> Any:
    return eager.session() if eager.is_on() else tf.keras.backend.get_session()


def _length(params: Dict[str, Any]) -> List[Optional[int]]:
    """How much `fit` is about to do, as far as Keras knows: batches an epoch, and epochs."""
    batches, samples, size = (params.get(what) for what in ("steps", "samples", "batch_size"))
    if batches is None and samples is not None and size:
        batches = -(-samples // size)
    return [None if number is None else int(number) for number in (batches, params.get("epochs"))]


class MetricAverageCallback(tf.keras.callbacks.Callback):
    """Averages an epoch's loss and metrics, those of validation too, over the ranks.

    What Keras computes is of this rank's samples alone. In the list of callbacks it stands before all that look at
    metrics, such as EarlyStopping or ReduceLROnPlateau, so that they decide alike on all ranks. Each rank counts as
    much as any other.

    Raises:
        ValueError: (of `fit`, on all ranks) the ranks have different metrics.

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
        self._ranks: Optional[Ranks] = None
        self._graph: Optional[tf.Graph] = None

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Averages; called by `fit`.

        Args:
            epoch: unused.
            logs: the metrics, numbers by name; replaced by their averages.

        Raises:
            ValueError: the ranks have different metrics.

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
        logs = {} if logs is None else logs
        session = _session()
        if self._ranks is None or self._graph is not session.graph:
            with session.graph.as_default():
                self._ranks, self._graph = Ranks("metrics"), session.graph
        mine = {name: float(value) for name, value in logs.items() if np.ndim(value) == 0}
        told = self._ranks.exchange(session, mine)
        if any(set(theirs) != set(mine) for theirs in told):
            raise ValueError("fit: got the metrics {} on the ranks in turn, expected the same on all: give every rank "
                             "the same model, and validation_data to all or to none".format(
                                 [sorted(theirs) for theirs in told]))
        logs.update((name, float(np.mean([theirs[name] for theirs in told]))) for name in mine)
