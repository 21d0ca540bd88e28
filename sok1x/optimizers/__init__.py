"""SOK's own optimizer, and what optimizers need to know about embedding variables, under SOK's dotted names."""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.optimizers.adam import Adam

__all__ = ["Adam"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"Adam": "adam"})
