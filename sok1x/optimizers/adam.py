"""SOK's own Adam: for embedding variables, each step one pass over the shard."""
import numbers
from typing import Any, Dict, Iterable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge.tensorflow_versions import Variable
from sok1x.tf.keras.optimizers import adam


class Adam(adam.Adam):
    """`tf.keras.optimizers.Adam` for embedding variables alone, under the name and with the ways of SOK 1.x.

    The arithmetic is TensorFlow's for sparse gradients: at every step m and v of all rows decay, and all rows move.
    A step is one pass over the shard, which reads and writes row, m and v of each row once, and so moves 24 V D bytes
    however small the batch; `sok.tf.keras.optimizers.LazyAdamOptimizer` touches only the batch's rows.

    Learning rates are as TensorFlow's: a number is kept in a variable, which `optimizer.learning_rate = 0.1` changes
    under a Keras session; a tensor or a schedule is computed at every step; a callable is called when the graph is
    built and gives a number or a tensor. Slots have TensorFlow's names, `m` and `v`, and are saved and restored with
    the variable `iter`, which counts steps.

    Args:
        learning_rate: a number, a scalar float32 tensor of shape [], a schedule of
            `tf.keras.optimizers.schedules`, or a callable.
        beta_1, beta_2: decay of the gradients' mean and of their squares' mean; a number, a scalar float32 tensor of
            shape [], or a callable.
        epsilon: added to the root of v; a number.
        name: prefix of the slots' names.
        lr: another name for learning_rate, which it overrides.
        **kwargs: `clipnorm`, `clipvalue`, `decay`.

    Raises:
        ValueError: a hyperparameter is negative.
        TypeError: an unknown keyword.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
        ...         embedding_initializer="ones")
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]], [[7]]], tf.int64)))
        ...     variables = [layer.embedding_variable]
        ...     optimizer = sok.optimizers.Adam(learning_rate=0.5)
        ...     step = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run([tf.global_variables_initializer(), optimizer.initializer])
        ...     _ = session.run(step)
        ...     rows = session.run(layer.embedding_variable)
        >>> rows[0].round(3).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, learning_rate: Any = 0.001, beta_1: Any = 0.9, beta_2: Any = 0.999, epsilon: Any = 1e-7,
                 name: str = "Adam", lr: Any = None, **kwargs: Any) -> None:
        if lr is not None:
            learning_rate = lr
        for what, value in (("learning_rate", learning_rate), ("beta_1", beta_1), ("beta_2", beta_2)):
            if isinstance(value, numbers.Real) and value < 0:
                raise ValueError("sok1x.optimizers.Adam: {}: got {}, expected 0 or more".format(what, value))
        if "amsgrad" in kwargs:
            raise TypeError("sok1x.optimizers.Adam: got the keyword amsgrad, which only sok1x.tf.keras.optimizers.Adam "
                            "takes")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name, **kwargs)
        self._promised: Optional[tf.Operation] = None  # the initializer that was asked for before there were slots

    @property
    def initializer(self) -> tf.Operation:
        """An op that gives this optimizer's variables their first values: m, v, the steps taken, hyperparameters.

        It may run in the same `session.run` as the variables' initializers, and be asked for before
        `apply_gradients` as well as after. `tf.global_variables_initializer()` made after `apply_gradients` includes
        all that it does.

        Returns:
            A tf.Operation; in eager execution None, for there they have values as soon as they are made.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.optimizers.Adam().initializer.type
            'NoOp'
        """
        with tf.init_scope():
            made = self._initializers()
            if made:
                return tf.group(*made, name="init_" + self._name)
            if self._promised is None or self._promised.graph is not tf.get_default_graph():
                self._promised = tf.no_op(name="init_" + self._name)
            return self._promised

    def apply_gradients(self, grads_and_vars: Iterable[Any], name: Optional[str] = None, **kwargs: Any) -> tf.Operation:
        """An op that takes one step.

        Args:
            grads_and_vars: pairs (gradient, variable): float32 tensors [V, D] or tf.IndexedSlices with values
                [u, D], and embedding variables.
            name: of the op.
            **kwargs: what TensorFlow 2's Keras optimizers take besides, as its loss scaling gives it.

        Returns:
            A tf.Operation.

        Raises:
            ValueError: a variable is no embedding variable, or no variable has a gradient.
        """
        pairs = list(grads_and_vars)
        for _, variable in pairs:
            if not isinstance(variable, EmbeddingVariable):
                raise ValueError(
                    "sok1x.optimizers.Adam: got the variable '{}', which is no embedding variable; give that one to an "
                    "optimizer of TensorFlow (sok1x.split_embedding_variable_from_others tells them apart)".format(
                        getattr(variable, "name", variable)))
        known = set(self._initializers())
        step = super().apply_gradients(pairs, name=name, **kwargs)
        if self._promised is not None and self._promised.graph is tf.get_default_graph():
            self._promised._add_control_inputs([op for op in self._initializers() if op not in known])
        return step

    def get_config(self) -> Dict[str, Any]:
        """What makes an equal optimizer, without its state.

        Returns:
            A dict of keyword arguments.

        Example:
            >>> import sok1x as sok
            >>> sorted(sok.optimizers.Adam(0.5).get_config())
            ['beta_1', 'beta_2', 'decay', 'epsilon', 'learning_rate', 'name']
        """
        config = super().get_config()
        del config["amsgrad"]
        return config

    def _initializers(self) -> List[tf.Operation]:
        """Of the variables made so far in the default graph."""
        variables = self.weights + [value for value in self._hyper.values() if isinstance(value, Variable)]
        graph = tf.get_default_graph()
        # An eager variable has no graph, and its value from the start.
        return [variable.initializer for variable in variables if getattr(variable, "graph", None) is graph]
