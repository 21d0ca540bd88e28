"""One rank's dense variables on all ranks; shards, their indexes and their slots stay with their ranks."""
import contextlib
from typing import Any, Dict, Iterable, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.options.given_numbers import integer
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.operations import collectives

# Dtypes that travel as another of the same size, or (the pair) as two of them.
_CARRIERS: Dict[tf.DType, tf.DType] = {tf.bfloat16: tf.uint16, tf.complex64: tf.int64, tf.complex128: tf.int64}


def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """An op that gives all ranks rank `root_rank`'s values of the dense global variables.

    Tables are spread over the ranks, so their shards, indexes and optimizer slots are left alone. It travels over
    sok1x's own communicator, whether Horovod is there or not; run it after `Init` and the variables' initializers.
    All ranks must have made the same variables.

    Args:
        root_rank: the rank whose values all get.

    Returns:
        The tf.Operation.

    Raises:
        TypeError: root_rank is no integer, or a variable holds strings or resources.
        ValueError: root_rank is negative.
        tf.errors.InvalidArgumentError: (when run) there is no such rank, or a variable's shape differs.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     same_everywhere = sok.broadcast_global_variables(0)
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(same_everywhere)
        ...     session.run(weights).tolist()
        [1.0, 2.0]
    """
    check_rank(root_rank)
    with tf.name_scope("broadcast_global_variables"):
        return of_variables(tf.global_variables(), int(root_rank))


def of_variables(variables: Iterable[tf.Variable], root_rank: int) -> tf.Operation:
    """As `broadcast_global_variables`, of some variables.

    Args:
        variables: those that are a rank's own are left out.
        root_rank: the rank whose values all get.

    Returns:
        The tf.Operation.

    Raises:
        TypeError: a variable holds strings or resources.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import broadcast
        >>> with tf.Graph().as_default():
        ...     broadcast.of_variables([tf.get_variable("weights", initializer=[1.0, 2.0])], 0).type
        'NoOp'
    """
    dense = [variable for variable in variables if not isinstance(variable, ShardVariable)]
    if not dense:
        return tf.no_op()
    values = collectives.broadcast([_packed(variable) for variable in dense], root_rank)
    made = [_assignment(variable, value) for variable, value in zip(dense, values)]
    return tf.no_op() if tf.executing_eagerly() else tf.group(*made)


class BroadcastGlobalVariablesHook(tf.train.SessionRunHook):
    """Gives all ranks one rank's dense variables once a session's variables are initialized or restored.

    For `MonitoredTrainingSession` and estimators; see `broadcast_global_variables`.

    Args:
        root_rank: the rank whose values all get.
        device: where the values pass through, as for `tf.device`; '' leaves the choice to TensorFlow.

    Raises:
        TypeError: root_rank is no integer.
        ValueError: root_rank is negative.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     hooks = [sok.InitHook(global_batch_size=1), sok.BroadcastGlobalVariablesHook(root_rank=0)]
        ...     with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        ...         session.run(weights).tolist()
        [1.0, 2.0]
    """

    def __init__(self, root_rank: int = 0, device: str = "") -> None:
        check_rank(root_rank)
        self.root_rank = root_rank
        self.device = device
        self._broadcast: Optional[tf.Operation] = None

    def begin(self) -> None:
        """Makes the op, while the graph may still change; called by the session.

        Raises:
            TypeError: a variable holds strings or resources.
        """
        if self._broadcast is None or self._broadcast.graph is not tf.get_default_graph():
            with tf.device(self.device):
                self._broadcast = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Runs the op; called by the session when its variables have values.

        Args:
            session: the new session.
            coord: unused.

        Raises:
            tf.errors.InvalidArgumentError: there is no rank root_rank, or a variable's shape differs between ranks.
        """
        session.run(self._broadcast)


def check_rank(root_rank: Any) -> None:
    """Checks, at graph construction, what must be a rank's number.

    Args:
        root_rank: what was given.

    Raises:
        TypeError: it is no integer.
        ValueError: it is negative.

    Example:
        >>> from sok1x.core import broadcast
        >>> broadcast.check_rank(0)
    """
    integer("root_rank", root_rank, 0, expected="a rank's number, 0 or more")


def _packed(variable: tf.Variable) -> tf.Tensor:
    # Read here: what converts a variable may be as old as the variable. And where the variable is: TensorFlow sends a
    # reference to another device at once, before what this depends on, an initializer say, has run.
    with _beside(variable):
        value = variable.read_value()
    carrier = _CARRIERS.get(value.dtype)
    return value if carrier is None else tf.bitcast(value, carrier)


def _beside(variable: tf.Variable) -> Any:
    return contextlib.ExitStack() if tf.executing_eagerly() else tf_ops.colocate_with(variable.op)


def _assignment(variable: tf.Variable, value: tf.Tensor) -> tf.Operation:
    dtype = variable.dtype.base_dtype
    if dtype in _CARRIERS:
        value = tf.bitcast(value, dtype)
    # On several ranks a value's static shape is the variable's on each of them; ref variables insist on it.
    value.set_shape(variable.shape)
    assigned = variable.assign(value)
    return None if tf.executing_eagerly() else assigned.op
