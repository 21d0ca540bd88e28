"""The gradients to the weights of many lookups by bag as one (operations/bag_weights.py)."""
import numpy as np

from sok1x.graph_ops.groups import lane
from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.groups.lookup_run import LookupRun


class Gradient(GroupForm):
    """See the module's text."""

    def key(self, taken, world):
        """See GroupForm.key."""
        return ("weights",)

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        return lane.LaneOp(lane.WEIGHTS, (), request, call, world)

    def run(self, members, world):
        """See GroupForm.run."""
        run, left = LookupRun(members), np.empty(len(members), np.uint8)
        run.call("weights_gradient", left)
        return run.leave(left.tolist())
