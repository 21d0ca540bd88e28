"""What Keras' optimizers are scaled by: TensorFlow 1.15's own class, and for TensorFlow 2 one in its place."""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend, loss_scale_weights


class WrappedOptimizer(tf.keras.optimizers.Optimizer):
    """A Keras optimizer around another, with a `tf.train.experimental.LossScale`, as TensorFlow 1.15 has it.

    TensorFlow 2's own LossScaleOptimizer holds a loss scale of its own, which looks at one rank's gradients.

    Args:
        opt: a Keras optimizer without clipnorm, clipvalue and global_clipnorm.
        loss_scale: a `tf.train.experimental.LossScale`.

    Raises:
        ValueError: the optimizer clips.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.tf.keras.mixed_precision import keras_base
        >>> with tf.Graph().as_default():
        ...     made = keras_base.WrappedOptimizer(
        ...         tf.keras.optimizers.SGD(0.5), tf.train.experimental.FixedLossScale(8.0))
        >>> made.get_slot_names()
        []
    """

    _HAS_AGGREGATE_GRAD = True  # asked by Keras' fit, which then leaves gradients as they are

    def __init__(self, opt: Any, loss_scale: Any) -> None:
        for clip in ("clipnorm", "clipvalue", "global_clipnorm"):
            if getattr(opt, clip, None) is not None:
                raise ValueError("LossScaleOptimizer does not support wrapping optimizers with a {0}. Optimizer {1} "
                                 "has {0} {2}".format(clip, opt, getattr(opt, clip)))
        object.__setattr__(self, "_hyper", {})
        self._optimizer = opt
        self._loss_scale = loss_scale
        for weight in loss_scale_weights(loss_scale):
            keras_backend.track_variable(weight)
        self._track_trackable(opt, "base_optimizer")
        self._track_trackable(loss_scale, "loss_scale")

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> Any:
        options = {} if tape is None else {"tape": tape}
        if tape is None:
            loss = self.get_scaled_loss(loss)
        else:
            with tape:  # where the loss was computed
                loss = self.get_scaled_loss(loss)
        pairs = self._optimizer._compute_gradients(loss, var_list, grad_loss, **options)
        return list(zip(self.get_unscaled_gradients([gradient for gradient, _ in pairs]),
                        [variable for _, variable in pairs]))

    def get_gradients(self, loss: Any, params: Any) -> Any:
        """The wrapped optimizer's, of the scaled loss, and scaled back."""
        return self.get_unscaled_gradients(self._optimizer.get_gradients(self.get_scaled_loss(loss), params))

    def get_scaled_loss(self, loss: Any) -> Any:
        """The loss times the loss scale."""
        return loss * tf.cast(self._loss_scale(), loss.dtype)

    def get_unscaled_gradients(self, grads: Any) -> List[Any]:
        """Gradients over the loss scale."""
        return [None if gradient is None else gradient / tf.cast(self._loss_scale(), gradient.dtype)
                for gradient in grads]

    def get_slot_names(self) -> List[str]:
        """The wrapped optimizer's."""
        return list(self._optimizer.get_slot_names())

    def variables(self) -> List[Any]:
        """The wrapped optimizer's, and the loss scale's."""
        return list(self._optimizer.variables()) + loss_scale_weights(self._loss_scale)

    @property
    def weights(self) -> List[Any]:
        """As `variables`."""
        return self.variables()

    def get_config(self) -> Any:
        """Is refused, as by TensorFlow 1.15's: a loss scale has no configuration of Keras'."""
        raise NotImplementedError("get_config() is not yet implemented for LossScaleOptimizers")


def _of_wrapped(name: str) -> property:
    def get(self: Any) -> Any:
        return getattr(self._optimizer, name)

    def put(self: Any, value: Any) -> None:
        setattr(self._optimizer, name, value)

    return property(get, put)


for _name in ("iterations", "learning_rate", "lr"):
    setattr(WrappedOptimizer, _name, _of_wrapped(_name))

KerasLossScaleOptimizer: Any = tensorflow_versions.KerasLossScaleOptimizer or WrappedOptimizer
