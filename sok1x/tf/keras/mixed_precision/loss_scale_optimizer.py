"""Loss scaling on any number of ranks: a step that one rank cannot take, none takes."""
import functools
from typing import Any, Callable, Iterable, List, Optional, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import KerasOptimizer, NewKerasOptimizer, loss_scale_weights
from sok1x.graph_ops.bridge.tensorflow_versions import loss_scales as scales
from sok1x.graph_ops.bridge.tensorflow_versions import train_loss_scale_optimizer as train
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.operations import finite
from sok1x.optimizers import distributed_optimizer
from sok1x.tf.keras.mixed_precision import scaling
from sok1x.tf.keras.mixed_precision.keras_base import KerasLossScaleOptimizer

Gradient = Union[None, tf.Tensor, tf.IndexedSlices]


class LossScaleOptimizer:
    """An optimizer for training in float16: the loss is scaled up, its gradients are scaled down again.

    Small gradients would be zero in float16; those of a loss many times as large are not. Where a gradient has an Inf
    or a NaN, the step is skipped: variables, slots and the step counter stay as they are. The ranks agree on this, so
    a rank that overflows has all ranks skip the step. A dynamic loss scale is then lowered, and raised after
    `increment_period` good steps in a row, as `tf.train.experimental.DynamicLossScale` defines; it is a variable, as
    is the number of good steps, and equal on all ranks. A step with a fixed scale is skipped likewise, which
    TensorFlow's optimizer does not do.

    What `tf.train` optimizers have (`minimize`, `compute_gradients`) and what Keras optimizers have (`minimize`,
    `get_gradients`, `get_updates`, `learning_rate`, use in `tf.keras.Model.compile`) scales and unscales by itself;
    gradients from `tf.gradients` need `get_scaled_loss` and `get_unscaled_gradients`. A loss is best a float32, which
    holds it when it is scaled. All variables of a step belong in one optimizer: two would each look at their own
    gradients alone.

    Args:
        opt: of `tf.train`, `tf.contrib.opt`, `tf.keras.optimizers` or `sok1x`, also what `sok1x.DistributedOptimizer`
            or Horovod has made of one. A Keras optimizer without clipnorm and clipvalue, which would clip what is
            still scaled.
        loss_scale: a number of 1 or more, 'dynamic', or a `tf.train.experimental.LossScale`.

    Raises:
        TypeError: opt is no optimizer, or loss_scale nothing of the kind.
        ValueError: a loss scale below 1, another word, an optimizer that clips, or eager execution.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
        ...         embedding_initializer="ones", dtype="float16")
        ...     loss = tf.reduce_sum(tf.cast(layer(tf.constant([[[7]], [[7]]], tf.int64)), tf.float32))
        ...     variables = [layer.embedding_variable]
        ...     optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(
        ...         tf.train.GradientDescentOptimizer(0.25), 1024)
        ...     scaled = tf.gradients(optimizer.get_scaled_loss(loss), variables)
        ...     step = optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(scaled), variables))
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run([tf.global_variables_initializer(), optimizer.initializer])
        ...     _ = session.run(step)
        ...     rows = session.run(layer.embedding_variable)
        >>> rows[0].tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    # As in the two classes of TensorFlow's, from one of which every instance derives too.
    _optimizer: Any
    _loss_scale: scales.LossScale
    _read: Optional[tf.Tensor] = None  # the scale, as the steps of the graph read it

    def __new__(cls, opt: Any, loss_scale: Any) -> "LossScaleOptimizer":
        """One that is also a `tf.train.Optimizer`, or a `tf.keras.optimizers.Optimizer`, as `opt` is."""
        if isinstance(opt, LossScaleOptimizer):
            raise TypeError("LossScaleOptimizer: got a LossScaleOptimizer, expected a plain optimizer")
        if isinstance(opt, tf.train.Optimizer):
            return super().__new__(_OfTrain)
        if isinstance(opt, KerasOptimizer):
            return super().__new__(_OfKeras)
        if NewKerasOptimizer is not None and isinstance(opt, NewKerasOptimizer):
            raise TypeError("LossScaleOptimizer: opt: got {!r} of type {}, one of Keras' newer optimizers; expected "
                            "one of tf.train or of tf.keras.optimizers.legacy (which tf.compat.v1.keras.optimizers "
                            "has); tf.keras.mixed_precision.LossScaleOptimizer takes the newer ones, and asks all ranks"
                            .format(opt, type(opt).__name__))
        raise TypeError("LossScaleOptimizer: opt: got {!r} of type {}, expected an optimizer of tf.train or "
                        "tf.keras.optimizers, or sok1x.DistributedOptimizer's of one (for tables in place of an "
                        "OptimizerWrapper, with average=False where gradients are averaged already)".format(
                            opt, type(opt).__name__))

    @property
    def loss_scale(self) -> scales.LossScale:
        """The loss scale.

        Returns:
            A `tf.train.experimental.LossScale`. Called, it gives the scale, a scalar float32 tensor of shape [].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default():
            ...     sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), 8.0).loss_scale
            FixedLossScale(8.0)
        """
        return self._loss_scale

    @property
    def initializer(self) -> tf.Operation:
        """An op that gives the loss scale's variables their first values.

        Where the wrapped optimizer has such an op too, it is included. It may run in the same `session.run` as the
        variables' initializers; `tf.global_variables_initializer()` includes what it does.

        Returns:
            A tf.Operation.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), "dynamic")
            ...     session.run(optimizer.initializer)
            ...     session.run(optimizer.loss_scale())
            32768.0
        """
        made = [variable.initializer for variable in loss_scale_weights(self._loss_scale)]
        own = getattr(self._optimizer, "initializer", None)
        return tf.group(*made, *([] if own is None else [own]), name="init_loss_scale")

    def get_scaled_loss(self, loss: Union[tf.Tensor, Callable[[], tf.Tensor]]) -> Any:
        """The loss times the loss scale.

        Args:
            loss: a float tensor of any shape, or a callable that gives one.

        Returns:
            The scaled loss: a tensor of the loss' shape and dtype, or a callable that gives one.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), 8)
            ...     session.run(optimizer.get_scaled_loss(tf.constant(0.5)))
            4.0
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        return loss * tf.cast(self._scale(), loss.dtype)

    def get_unscaled_gradients(self, grads: Iterable[Gradient]) -> List[Gradient]:
        """The gradients of a scaled loss over the loss scale: those of the loss itself.

        Args:
            grads: float tensors of any shape, tf.IndexedSlices, or None.

        Returns:
            A list of the same kinds and dtypes.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), 8)
            ...     dense, none = optimizer.get_unscaled_gradients([tf.constant([4.0]), None])
            ...     session.run(dense).tolist(), none
            ([0.5], None)
        """
        reciprocal = 1.0 / self._scale()
        return [None if gradient is None else scaling.times(gradient, reciprocal) for gradient in grads]

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Gradient, Any]], *args: Any,
                        **kwargs: Any) -> tf.Operation:
        """An op that takes one step if all gradients on all ranks are finite, and updates the loss scale.

        All ranks run it together.

        Args:
            grads_and_vars: pairs (gradient, variable): unscaled gradients, float tensors of the variable's shape,
                tf.IndexedSlices, or None.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            **kwargs: likewise: global_step and name of tf.train's, name of Keras'.

        Returns:
            A tf.Operation.

        Raises:
            ValueError: no variable has a gradient.

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> with tf.Graph().as_default(), tf.Session() as session:
            ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
            ...     number = tf.train.get_or_create_global_step()
            ...     optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(
            ...         tf.train.GradientDescentOptimizer(0.5), "dynamic")
            ...     step = optimizer.apply_gradients([(tf.constant([1.0, float("inf")]), weights)], global_step=number)
            ...     _ = session.run(sok.Init(global_batch_size=1))
            ...     _ = session.run(tf.global_variables_initializer())
            ...     _ = session.run(step)
            ...     session.run([optimizer.loss_scale(), number]), session.run(weights).tolist()
            ([16384.0, 0], [1.0, 2.0])
        """
        pairs = list(grads_and_vars)
        apply = self._optimizer.apply_gradients
        if isinstance(self._optimizer, distributed_optimizer._Distributed):
            # Nothing is left to communicate in a step that may be skipped.
            pairs = distributed_optimizer.prepare(self._optimizer, pairs)
            apply = functools.partial(distributed_optimizer.apply_prepared, self._optimizer)
        present = [tf.convert_to_tensor(shard_gradients.values_of(gradient)) for gradient, _ in pairs
                   if gradient is not None]
        if not present:
            return apply(pairs, *args, **kwargs)  # which raises, in its own words
        with tf.name_scope("loss_scale"):
            good = finite.all_finite(present)
            update = self._update(good)
        scope = tf.get_default_graph().get_name_scope()
        name = kwargs.get("name")
        if name:
            kwargs = dict(kwargs, name=name + "-wrapped")

        def take_step() -> tf.Operation:
            # Out of cond's name scope: slots have the same names as without us.
            with tf.name_scope(scope + "/" if scope else None):
                return tf.group(apply(pairs, *args, **kwargs))

        with scaling.train_op() as added:
            step = tf.group(tf.cond(good, take_step, tf.no_op), update, name=name or "loss_scaled_step")
            added.append(step)
        return step

    def _scale(self) -> tf.Tensor:
        """The loss scale: one tensor for all of a step, so that nobody reads it when the step has changed it."""
        graph = tf.get_default_graph()
        if graph.building_function or graph._get_control_flow_context() is not None:
            return self._loss_scale()  # of a loop, perhaps, in which it changes
        if self._read is None or self._read.graph is not graph:
            with tf.control_dependencies(None):
                self._read = self._loss_scale()
        return self._read

    def _update(self, good: tf.Tensor) -> tf.Operation:
        """An op that raises or lowers the scale. `good`: bool [], whether all gradients of all ranks are finite."""
        read = [] if self._read is None or self._read.graph is not good.graph else [self._read]
        with tf.device("/device:CPU:0"), tf.control_dependencies(read):
            # A loss scale looks at gradients itself, but only at this rank's: it gets one that says what was found.
            found = tf.where(good, tf.constant(0.0), tf.constant(np.nan, tf.float32))
            return self._loss_scale.update([found])[0]


class _OfTrain(LossScaleOptimizer, train.MixedPrecisionLossScaleOptimizer):
    def __init__(self, opt: tf.train.Optimizer, loss_scale: Any) -> None:
        train.MixedPrecisionLossScaleOptimizer.__init__(self, opt, scaling.loss_scale_of(loss_scale))

    def _scale_loss(self, loss: Any) -> Any:
        return self.get_scaled_loss(loss)

    def _unscale_grads(self, grads: Any) -> List[Gradient]:
        return self.get_unscaled_gradients(grads)

    def get_slot(self, var: Any, name: str) -> Any:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> List[str]:
        """The wrapped optimizer's."""
        return self._optimizer.get_slot_names()

    def variables(self) -> List[tf.Variable]:
        """The wrapped optimizer's, and the loss scale's."""
        return self._optimizer.variables() + list(loss_scale_weights(self._loss_scale))


class _OfKeras(LossScaleOptimizer, KerasLossScaleOptimizer):
    def __init__(self, opt: tf.keras.optimizers.Optimizer, loss_scale: Any) -> None:
        KerasLossScaleOptimizer.__init__(self, opt, scaling.loss_scale_of(loss_scale))
