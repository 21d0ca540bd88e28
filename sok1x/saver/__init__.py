"""Tables in SparseOperationKit's files, under SOK's dotted names."""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.saver.saver import Saver

__all__ = ["Saver"]
# TensorFlow is loaded when it is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"Saver": "saver"})
