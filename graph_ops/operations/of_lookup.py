"""What follows a lookup: ops that are given something, then what the lookup has saved, the last in host memory."""
from typing import Any

from sok1x.graph_ops.bridge.registry import Operation
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.lookup import Gradient


class OfLookup(Operation):
    """An op that goes a lookup's ways again: its gradient, and the gradient of that."""

    communicates = True
    before_counts = 0  # numbers that the lookup has saved before its counts

    def tie(self, request: Any) -> int:
        """See `Operation.tie`."""
        return request.last_number(0)  # what ties.py saves

    def exchange(self, request: Any, world: Any) -> Exchange:
        """What the lookup has exchanged by."""
        raise NotImplementedError

    def taken(self, request: Any, config: Any, world: Any) -> Gradient:
        """The request as exchanges see it."""
        raise NotImplementedError
