"""What a tf.function takes a table for that it is given as an argument: each table for itself.

TensorFlow has one trace serve all variables of compatible shapes. A trace with a table has the table's index, name and
placement in it, so that with another's handle it would look keys up in one table and read, or train, the rows of the
other; and a table that grows has a shape that is compatible with any variable's.
"""
import itertools
from typing import Any

from sok1x.graph_ops.bridge.tensorflow_versions import V2, resource_variable_ops

_numbers = itertools.count(1)


def of(shard: Any, context: Any) -> Any:
    """The trace type of a table's variable.

    Args:
        shard: the variable.
        context: as `__tf_tracing_type__` is given it.

    Returns:
        What TensorFlow has for a variable of this shape, but of this table alone.
    """
    spec = resource_variable_ops.ResourceVariable.__tf_tracing_type__(shard, context)
    if "_trace_number" not in shard.__dict__:
        shard._trace_number = next(_numbers)
    return _TableSpec(spec.shape, spec.dtype, spec.trainable, spec.alias_id, shard._trace_number)


if V2:
    class _TableSpec(resource_variable_ops.VariableSpec):
        """A `VariableSpec` that equals, and stands for, those of the same table.

        Args:
            shape, dtype, trainable, alias_id: as of `VariableSpec`.
            number: the table's, one that no other has had in this process.
        """

        __slots__ = ["number"]

        def __init__(self, shape: Any, dtype: Any, trainable: bool, alias_id: Any, number: int) -> None:
            super().__init__(shape, dtype=dtype, trainable=trainable, alias_id=alias_id)
            self.number = number

        def _serialize(self) -> Any:
            return super()._serialize() + (self.number,)

        def __hash__(self) -> int:
            return hash((super().__hash__(), self.number))
