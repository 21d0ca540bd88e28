"""Training in float16 with scaled losses."""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.tf.keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizer

__all__ = ["LossScaleOptimizer"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"LossScaleOptimizer": "loss_scale_optimizer"})
