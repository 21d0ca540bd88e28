"""What C++ learns of an op, to run its requests without Python (lane.h)."""
import ctypes
from typing import Any, Dict, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import group_steps
from sok1x.graph_ops.bridge import told_step
from sok1x.graph_ops.groups import lookup_run
from sok1x.graph_ops.stores import clock_numbers, figures, known_distinct

# The kinds of ops that it can run: LaneKind in lane_op.h.
FORWARD, DISTINCT, BACKWARD, UPDATE, WEIGHTS, SUMS = range(6)

# What is known of an optimizer's step before it runs: UpdateFacts in update_run.h.
UPDATE_FACTS = np.dtype([(name, np.int64) for name in ("dim", "rows_at", "slots_at")])

# LaneOp in lane_op.h.
_OP = np.dtype([(name, np.int64) for name in ("kind", "team", "training", "alone", "note", "table")] + [
    ("facts", lookup_run.FACTS), ("update", UPDATE_FACTS)] + [
        (name, np.int64) for name in (
            "kernel", "host_inputs", "counted", "figures", "graph", "stream", "event", "context", "device",
            "ranks", "met", "one", "went", "place", "digest", "session", "loops", "tied", "average", "label")])

_teams: Dict[Tuple[Any, ...], int] = {}
_begun = False


class LaneOp:
    """What is known of an op, a node in one session.

    Args:
      kind: FORWARD, DISTINCT, BACKWARD, UPDATE, WEIGHTS or SUMS, which has no table.
      together: what ops must have in common to run together, besides operation and device.
      request: a request of it. call: its Call.
      update: of an optimizer's step: its `UPDATE_FACTS`, and where C++ has its kernel for as long as the process lives.

    Attributes:
      address: where C++ finds it, as long as this lives.
    """

    def __init__(self, kind: int, together: Tuple[Any, ...], request: Any, call: Any, world: Any,
                 update: Optional[Tuple[Any, int]] = None) -> None:
        _begin(request.library)
        config, gpu = call.config, call.gpu
        training = getattr(config, "training", False)
        self._op = op = np.zeros(1, _OP)
        op["kind"] = kind
        op["team"] = _teams.setdefault((call.operation.name, gpu) + together, len(_teams))
        op["training"] = -1 if training is None else training
        op["alone"] = world.size == 1
        if kind == SUMS:
            op["average"] = config.average
        elif update is None:
            op["facts"] = lookup_run.facts_of(request, config)
        else:
            op["update"], op["kernel"] = update
            op["host_inputs"] = request.host_input_count
        if kind != SUMS:
            self._has_table(op, config, request)
        if call.op is not None and world.size > 1:
            op["ranks"] = world.size
            op["one"] = call.operation.group.serves_one(call, world)
            op["place"], op["digest"] = call.op.index, lookup_run.signed(call.op.digest)
            op["session"], op["loops"], op["tied"] = call.op.context, call.place.loops, call.tied
        if gpu is not None:
            with gpu.active():
                op["device"] = group_steps.device(gpu)
            op["stream"], op["event"], op["context"] = gpu.stream, gpu.event, gpu.context
        if call.label:
            self._label = ctypes.create_string_buffer(call.label.encode())
            op["label"] = ctypes.addressof(self._label)
        self.address = op.ctypes.data

    def _has_table(self, op: Any, config: Any, request: Any) -> None:
        name = config.table.name
        op["note"], op["table"] = getattr(config, "rows_known", False), known_distinct.number(name)
        self._counted, self._told = clock_numbers.counted(name), told_step.of(request)
        op["counted"] = ctypes.addressof(self._counted)
        op["figures"] = ctypes.addressof(figures.of(name))
        op["graph"] = 0 if self._told is None else self._told.address

    def met(self) -> None:
        """It has run on all ranks: rank 0 knows the op."""
        self._op["met"] = 1

    def went(self, exchange: int) -> None:
        """Its bags have last gone by the exchange of this number: those that will go by the same are prepared together.

        On all ranks alike, whether C++ runs them there or Python.
        """
        self._op["went"] = exchange


def _begin(library: Any) -> None:
    """Gives C++ the steps of groups, once."""
    global _begun
    if not _begun:
        there = library.loaded.sok1x_lane_op_bytes()
        assert there == _OP.itemsize, (there, _OP.itemsize)
        library.loaded.sok1x_lane_begin(ctypes.c_void_p(group_steps.functions()))
        _begun = True
