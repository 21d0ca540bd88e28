"""The dense lookup of many tables on one rank: keys found and rows copied for all of them at once; and its gradient.

Bits are those of the single lookup: a row is copied, and row numbers are the index's. A member of which a key has no
row is left to the operation itself, which inserts, reads initial values, or says what is wrong.
"""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups.dense_run import DenseRun


def key(taken: Any) -> Any:
    """What members of a group must have in common on one rank: whether they train."""
    return "training", training_of(taken.request, taken.config)


def forward(members: List[Any]) -> DenseRun:
    """The forward of `members`. Returns its run."""
    run, left = DenseRun(members), np.zeros(len(members), np.uint8)
    run.call("forward_alone", training_of(members[0].request, members[0].config), left)
    return run.leave(left)


def backward(members: List[Any]) -> DenseRun:
    """The gradients of `members`, summed by row. Returns its run."""
    run, left = DenseRun(members), np.zeros(len(members), np.uint8)
    run.call("backward_alone", left)
    return run.leave(left)
