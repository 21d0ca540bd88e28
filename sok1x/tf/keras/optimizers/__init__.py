"""TensorFlow's Adam and LazyAdam, with one kernel for an embedding variable's step."""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.tf.keras.optimizers.adam import Adam
    from sok1x.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer

__all__ = ["Adam", "LazyAdamOptimizer"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"Adam": "adam", "LazyAdamOptimizer": "lazy_adam"})
