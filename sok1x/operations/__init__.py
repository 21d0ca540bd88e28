"""Operations on tensors that optimizers of tables need, under SOK's dotted names."""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.operations.distinct import unique
    from sok1x.operations.segments import unsorted_segment_sum

__all__ = ["unique", "unsorted_segment_sum"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {"unique": "distinct", "unsorted_segment_sum": "segments"})
