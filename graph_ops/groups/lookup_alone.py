"""Lookups of many tables on one rank, by key or by bag: keys found, and rows copied or summed by bag, for all of them
at once; and their gradients.

Bits are those of the single lookup: a row is copied, a bag's rows are added up in the order of its keys, and row
numbers are the index's. New keys of a member that trains are inserted as there. What more there may be to do (initial
values to be read, bags to be brought in order, an error to be raised) is left to the operation itself.
"""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups.lookup_run import LookupRun


def key(taken: Any) -> Any:
    """What members of a group must have in common on one rank: whether they train."""
    return "training", training_of(taken.request, taken.config)


def forward(members: List[Any]) -> LookupRun:
    """The forward of `members`. Returns its run."""
    run, left, fresh = LookupRun(members), np.empty(len(members), np.uint8), np.empty(len(members), np.int64)
    run.call("forward_alone", training_of(members[0].request, members[0].config), left, fresh)
    run.insert(fresh.tolist(), left.tolist())
    return run.leave(left.tolist())


def backward(members: List[Any]) -> LookupRun:
    """The gradients of `members`, summed by row. Returns its run."""
    run, left = LookupRun(members), np.zeros(len(members), np.uint8)
    run.call("backward_alone", left)
    return run.leave(left.tolist())
