"""`sok.OptimizerWrapper`, by which scripts for SOK 2.x train their embedding variables."""
from typing import Any, Iterable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import newer_optimizers
from sok1x.core.no_copies import NoCopies
from sok1x.graph_ops.bridge.tensorflow_versions import Trackable
from sok1x.optimizers import building
from sok1x.optimizers.own_state import with_own_state


class OptimizerWrapper(NoCopies, Trackable):
    """An optimizer for embedding variables, made of one of TensorFlow's or of ours.

    It steps exactly as the optimizer that it is given, which may itself go on to train TensorFlow's variables: the two
    share neither slots nor steps (`iterations`, `beta1_power`), so that each is as if it were alone. Hyperparameters
    they share: a learning rate that is a variable, a tensor, a callable or a schedule is the same object, and
    `optimizer.learning_rate = 0.1` on a tf.keras optimizer counts for both.

    Gradients of lookups are summed over the ranks and complete on the rank that has the rows; they are applied there
    as they come. TensorFlow's variables may be among those of one `apply_gradients`: then they are trained here, with
    slots and steps of the wrapper, by the gradients that are given, which are averaged over no ranks.

    Args:
        optimizer: of tf.train, tf.contrib.opt, tf.keras.optimizers, or ours.

    Attributes:
        optimizer: the one that was given.

    Raises:
        TypeError: it is no such optimizer, one of tf.contrib.opt that cannot train tables, or one that scales losses.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
        ...         embedding_initializer="ones")
        ...     weights = tf.get_variable("weights", initializer=1.0)
        ...     loss = weights * tf.reduce_sum(layer(tf.constant([[[7]]], tf.int64)))
        ...     tables, others = sok.filter_variables(tf.trainable_variables())
        ...     optimizer = tf.train.AdamOptimizer(0.5)
        ...     wrapped = sok.OptimizerWrapper(optimizer)
        ...     step = tf.group(wrapped.apply_gradients(zip(tf.gradients(loss, tables), tables)),
        ...                     optimizer.apply_gradients(zip(tf.gradients(loss, others), others)))
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     row, weight = session.run([tables[0][0], weights])
        >>> row.round(3).tolist(), float(weight.round(3))
        ([0.5, 0.5, 0.5, 0.5], 0.5)
        >>> wrapped.get_slot_names()
        ['m', 'v']
    """

    def __init__(self, optimizer: Any) -> None:
        if isinstance(optimizer, OptimizerWrapper):
            raise TypeError("OptimizerWrapper: got an OptimizerWrapper, expected the optimizer that it was made of")
        self.optimizer = optimizer
        self._own = with_own_state(optimizer)
        self._track_trackable(self._own, "own_state")  # for tf.train.Checkpoint, as any optimizer
        self._trained: List[Any] = []

    def __dir__(self) -> List[str]:
        # A tf.train.Checkpoint takes for an optimizer what lists this name, and saves its slots: `_own` has them.
        return [name for name in super().__dir__() if name != "get_slot_names"]

    def __copy__(self) -> Any:
        raise self._no_copy("copy.copy")

    def _no_copy(self, caller: str) -> TypeError:
        """See `NoCopies`."""
        return TypeError("OptimizerWrapper: got {} of one, or of an object that has it, expected another one: its "
                         "slots belong to tables, of which there are no copies. Make a second OptimizerWrapper of "
                         "another {}".format(caller, type(self.optimizer).__name__))

    def apply_gradients(self, grads_and_vars: Iterable[Any], global_step: Any = None,
                        name: Optional[str] = None) -> tf.Operation:
        """An op that takes one step.

        Args:
            grads_and_vars: pairs (gradient, variable): float tensors of the variable's shape, tf.IndexedSlices, or
                None, which is passed over.
            global_step: a variable to count the step in, by one, once it is taken.
            name: of the op.

        Returns:
            A tf.Operation.

        Raises:
            ValueError: no variable has a gradient.
        """
        every = list(grads_and_vars)
        pairs = [(gradient, variable) for gradient, variable in every if gradient is not None]
        if not pairs:
            raise ValueError("OptimizerWrapper.apply_gradients: got no gradient for any variable: {}".format(
                ", ".join(str(getattr(variable, "name", variable)) for _, variable in every) or "no variables at all"))
        # Keras' newer ones have slots of what their first step names, with a gradient or without, and of nothing else.
        named = every if newer_optimizers.is_one(self._own) and not self._own._built else pairs
        if isinstance(self._own, tf.train.Optimizer):
            step = self._own.apply_gradients(pairs, global_step=global_step, name=name)
        elif global_step is None:
            step = self._own.apply_gradients(named, name=name)
        else:
            with tf.control_dependencies([self._own.apply_gradients(named)]):
                step = tf.assign_add(global_step, tf.ones_like(global_step), name=name).op
        self._prepare_dumps([variable for _, variable in pairs])
        return step

    def build(self, var_list: Iterable[Any]) -> None:
        """Makes what it keeps for variables before the first step, so that a checkpoint can be restored into it then.

        Eagerly `sok1x.CheckpointManager.restore` needs it where no step has been taken. Nothing is made twice.

        Args:
            var_list: the variables that it is to train.

        Raises:
            TypeError: one is a table that the optimizer cannot train.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
            ...     wrapped = sok.OptimizerWrapper(tf.train.AdamOptimizer())
            ...     wrapped.build([shard])
            ...     [str(wrapped.get_slot(shard, name).shape) for name in wrapped.get_slot_names()]
            ['(8, 4)', '(8, 4)']
        """
        variables = list(var_list)
        building.build(self._own, variables)
        self._prepare_dumps(variables)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Puts the averages of an optimizer of Keras with use_ema=True in the place of variables, as that does.

        The averages are those of this wrapper's steps: the optimizer that it was given has none of them. With any other
        optimizer it does nothing.

        Args:
            var_list: variables that it trains.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> print(sok.OptimizerWrapper(tf.train.AdamOptimizer()).finalize_variable_values([]))
            None
        """
        if newer_optimizers.is_one(self._own):
            self._own.finalize_variable_values(var_list)

    @property
    def lr(self) -> Any:
        """The learning rate: what the optimizer was given or, of a tf.keras optimizer that has stepped, its variable.

        Returns:
            A number, a tensor, a variable, a callable or a schedule.

        Raises:
            AttributeError: the optimizer has none.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.5)).lr
            0.5
        """
        for name in ("_learning_rate", "_lr") if isinstance(self._own, tf.train.Optimizer) else ("lr",):
            if hasattr(self._own, name):
                return getattr(self._own, name)
        raise AttributeError("OptimizerWrapper: a {} has no learning rate".format(type(self._own).__name__))

    def get_slot_names(self) -> List[str]:
        """The names of the slots made so far.

        Returns:
            A list of str.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.OptimizerWrapper(tf.train.AdamOptimizer()).get_slot_names()
            []
        """
        if newer_optimizers.is_one(self._own):
            return sorted(newer_optimizers.slots_of(self._own))
        return list(self._own.get_slot_names())

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """A slot of a variable.

        Args:
            var: a variable that it trains.
            slot_name: one of `get_slot_names`.

        Returns:
            The variable [V, D], which belongs to this rank as the rows do; None where there is none.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
            ...     sok.OptimizerWrapper(tf.train.AdamOptimizer()).get_slot(shard, "m") is None
            True
        """
        if isinstance(self._own, tf.train.Optimizer):
            return self._own.get_slot(var, slot_name)
        if newer_optimizers.is_one(self._own):
            return newer_optimizers.slots_of(self._own, var).get(slot_name)
        try:
            return self._own.get_slot(var, slot_name)
        except KeyError:  # Keras', of a variable without slots
            return None

    def variables(self) -> List[tf.Variable]:
        """What it has made in the default graph: slots, and what counts steps. Hyperparameters are the optimizer's.

        Returns:
            A list of variables.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
            ...     wrapped = sok.OptimizerWrapper(tf.keras.optimizers.Adam())
            ...     step = wrapped.apply_gradients([(tf.ones([8, 4]), shard)])
            ...     [variable.op.name for variable in wrapped.variables()]
            ['Adam/iter', 'Adam/EmbeddingVariable/m', 'Adam/EmbeddingVariable/v']
        """
        made = self._own.variables
        return list(made() if callable(made) else made)

    def trains(self, var: Any) -> bool:
        """Whether `apply_gradients` has been given a gradient of a variable.

        Args:
            var: a variable.

        Returns:
            A bool.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     shard = sok.EmbeddingVariable(rows=8, dim=4)
            ...     sok.OptimizerWrapper(tf.train.AdamOptimizer()).trains(shard)
            False
        """
        return any(one is var for one in self._trained)

    def _prepare_dumps(self, variables: List[Any]) -> None:
        """Makes what `sok.dump` and `sok.load` of slots need, for by then the graph may be finalized."""
        from sok1x.dump_load import transfers  # which need this module
        for variable in variables:
            if isinstance(variable, EmbeddingVariable) and not eager.is_on():
                transfers.of(variable, self)
        self._trained += [variable for variable in variables if not self.trains(variable)]
