"""`sok.SGD`."""
from typing import Any, Iterable, Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import Variable
from sok1x.optimizers.wrapper import OptimizerWrapper


class SGD:
    """Gradient descent for embedding variables: a row loses its gradient times the learning rate.

    Args:
        lr: the learning rate: a number, or a scalar float32 variable or tensor of shape [].

    Attributes:
        lr: the variable that has the learning rate, made here for a number; else what was given.

    Raises:
        TypeError: lr is none of these.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     table = sok.EmbeddingVariable(rows=2, dim=2, use_hashtable=False, initializer="ones")
        ...     optimizer = sok.SGD(lr=0.5)
        ...     step = optimizer.apply_gradients([(tf.ones([2, 2]), table)])
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     optimizer.lr.load(1.0, session)
        ...     _ = session.run(step)
        ...     session.run(table).tolist()
        [[-0.5, -0.5], [-0.5, -0.5]]
    """

    def __init__(self, lr: Any) -> None:
        if not isinstance(lr, (Variable, tf.Tensor)):
            if isinstance(lr, (str, bytes, bool)) or not hasattr(lr, "__float__"):
                raise TypeError("sok1x.SGD: lr: got {!r} of type {}, expected a number".format(lr, type(lr).__name__))
            with tf.init_scope():
                lr = tf.Variable(float(lr), trainable=False, dtype=tf.float32, use_resource=True,
                                 name="SGD/learning_rate")
        self.lr = lr
        self._wrapper = OptimizerWrapper(tf.train.GradientDescentOptimizer(lr))

    def apply_gradients(self, grads_and_vars: Iterable[Any], global_step: Any = None,
                        name: Optional[str] = None) -> tf.Operation:
        """An op that takes one step.

        Args:
            grads_and_vars: pairs (gradient, variable) as for `OptimizerWrapper.apply_gradients`.
            global_step: a variable to count the step in.
            name: of the op.

        Returns:
            A tf.Operation.

        Raises:
            ValueError: no variable has a gradient.
        """
        return self._wrapper.apply_gradients(grads_and_vars, global_step, name)
