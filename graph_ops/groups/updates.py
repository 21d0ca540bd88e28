"""Optimizers' steps on many tables' rows at once, by C++ (update_run.cc).

Only for gradients that are a lookup's as it was made, whose rows are distinct and have been stamped; all others, and
whatever does not fit, the operation does by itself. Bits are the same.
"""
import ctypes
import functools
from typing import Any, Dict, NamedTuple

import numpy as np

from sok1x.cuda_kernels import group_steps
from sok1x.graph_ops.bridge import bulk, devices
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.groups import lane
from sok1x.graph_ops.groups.form import GroupForm
from sok1x.graph_ops.groups.lane import UPDATE_FACTS
from sok1x.graph_ops.groups.run import Run
from sok1x.graph_ops.stores import kept_sums, known_distinct

_TEAMS_REMEMBERED = 1000
_WHY = {kept_sums.NO_MEMORY: "got no scratch memory; use a smaller batch, or leave TensorFlow more memory",
        kept_sums.TOO_MANY: "have more than 2**31 - 1 gradients in all; use a smaller batch"}

_teams: Dict[Any, Any] = {}
_functions: Dict[str, Any] = {}


class _Kernel(ctypes.Structure):
    """UpdateKernel there."""

    _fields_ = [("scalars", ctypes.c_int64), ("slots", ctypes.c_int64), ("move", ctypes.c_void_p),
                ("sum_and_move", ctypes.c_void_p), ("device", ctypes.c_void_p)]


class Step(NamedTuple):
    """A step of `group_steps` that moves rows: its name, and how many scalars and slots it takes."""

    name: str
    scalars: int
    slots: int


DESCEND, LAZY_ADAM = Step("descend", 1, 0), Step("lazy_adam", 6, 2)


class Updates(GroupForm):
    """Steps of one optimizer's kind.

    Args:
      step: its `Step`.
    """

    def __init__(self, step: Step) -> None:
        self._step = step

    def fixed_key(self, config):
        """See GroupForm.fixed_key."""
        return (config.global_step,) if config.from_lookup else None

    def key(self, taken, world):
        """See GroupForm.key."""
        return self.fixed_key(taken.config)

    def serves_one(self, taken, world):
        """See GroupForm.serves_one."""
        return True

    def lane(self, request, call, world):
        """See GroupForm.lane."""
        if not call.config.from_lookup:
            return None
        with devices.use(request):  # whose context a GPU's kernels are loaded into
            kernel = ctypes.addressof(_kernel(self._step, request.gpu))
        return lane.LaneOp(lane.UPDATE, (call.config.global_step, request.host_input_count), request, call, world,
                           (_facts_of(call.config), kernel))

    def run(self, members, world):
        """See GroupForm.run."""
        run = UpdateRun(members)
        run.move(self._step)
        return run


class UpdateRun(Run):
    """Members whose rows are moved at once: see Run.

    Attributes:
      apart: whether all members are left to their operation, for who wants to see each kernel as Python launches it.
    """

    apart = False
    _group: Any = None

    def move(self, step: Step) -> None:
        """Has the members' rows moved by the kernel of a `Step`.

        Raises:
          CallError: RESOURCE_EXHAUSTED or INVALID_ARGUMENT where gradients that are still to be added up take more
            memory than there is or are too many, INTERNAL where the GPU's driver reports an error.
        """
        members, first = self.members, self.members[0].request
        if self.apart:
            self.left = members
            return
        facts, launched = _team(members, step)
        handles = (ctypes.c_void_p * len(members))(*[taken.request.handle for taken in members])
        places = (ctypes.c_int64 * (2 * len(members)))()
        _functions["rows"](handles, len(members), places)
        places = places[:]
        left = (ctypes.c_uint8 * len(members))(*[
            size > 0 and not known_distinct.noted_at(taken.request, taken.config.table.name, at, size)
            for taken, at, size in zip(members, places[::2], places[1::2])])
        group = self._group = bulk.RequestGroup(first.library, [taken.request for taken in members])
        group.begin()
        code = _functions["run"](group.handle, facts, launched, first.host_input_count, left)
        if code:
            raise CallError(kept_sums.STATUS.get(code, INTERNAL), "{} steps of '{}' that run together {}".format(
                len(members), members[0].call.name, _WHY.get(code, "failed with CUDA's error {}".format(code))))
        self.leave(left)

    def _finish_all(self) -> None:
        """See Run."""
        self._group.finish()


def _team(members, step):
    """(the address of the members' FACTS, that of their `_Kernel`), made when they first run together."""
    kernels = tuple([taken.request.kernel for taken in members])
    team = _teams.get(kernels)
    if team is None:
        if len(_teams) >= _TEAMS_REMEMBERED:  # of sessions long closed
            _teams.clear()
        if not _functions:
            _declare(members[0].request.library.loaded)
        facts = np.array([_facts_of(taken.config) for taken in members], UPDATE_FACTS)
        kernel = _kernel(step, members[0].request.gpu)
        team = _teams[kernels] = facts.ctypes.data, ctypes.addressof(kernel), facts, kernel
    return team[:2]


def _facts_of(config):
    table, held = config.table, config.held
    return table.dim, held.names.index("rows"), len(held.names)


@functools.lru_cache(None)
def _kernel(step, gpu):
    moves = [ctypes.cast(getattr(group_steps.steps(), name), ctypes.c_void_p).value
             for name in (step.name, "sum_" + step.name)]
    return _Kernel(step.scalars, step.slots, *moves, group_steps.device(gpu))


def _declare(loaded):
    """Types the functions of the bridge's library."""
    for name, here in (("facts", UPDATE_FACTS.itemsize), ("kernel", ctypes.sizeof(_Kernel))):
        there = getattr(loaded, "sok1x_update_{}_bytes".format(name))
        there.restype = ctypes.c_int64
        assert there() == here, (name, there(), here)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (("rows", None, [pointer, number, pointer]),
                                    ("run", number, [pointer, pointer, pointer, number, pointer])):
        function = getattr(loaded, "sok1x_update_" + name)
        function.restype, function.argtypes = result, arguments
        _functions[name] = function
