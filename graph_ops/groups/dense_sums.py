"""Sums of dense tensors over ranks, as C++ runs them: one op by itself, which has as many tensors as a model has."""
from sok1x.graph_ops.groups import lane
from sok1x.graph_ops.groups.form import GroupForm

_SUMMED = ("float32", "float64")  # halves are summed in float32, by Python


class DenseSums(GroupForm):
    """See the module's text. What C++ leaves, and what it has not learned, the operation's own `run` does."""

    several = False

    def key(self, taken, world):
        """See GroupForm.key."""
        return None

    def serves_one(self, taken, world):
        """See GroupForm.serves_one."""
        return True

    def lane(self, request, call, world):
        """See GroupForm.lane: on several ranks. Of GPUs averages are Python's where NCCL's are not exact."""
        if world.size == 1 or any(array.dtype not in _SUMMED for array in request.inputs):
            return None
        if call.gpu is not None and call.config.average and world.size & (world.size - 1):
            return None
        return lane.LaneOp(lane.SUMS, (), request, call, world)

    def run(self, members, world):
        """See GroupForm.run: Python runs them by themselves."""
        raise NotImplementedError
