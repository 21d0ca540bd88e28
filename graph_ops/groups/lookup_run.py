"""Runs of the lookups' groups in C++ (lookup_run.h), as Python decides them."""
import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from sok1x import launch
from sok1x.cuda_kernels import group_steps, row_init
from sok1x.cuda_kernels.backend import KEY_TYPES
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import CallError
from sok1x.graph_ops.exchanges.layouts import divided_by
from sok1x.graph_ops.groups.run import Run
from sok1x.graph_ops.stores import clock, known_slots
from sok1x.launch.by_hosts import ALL

# What is known of a member before it runs: LookupFacts in lookup_facts.h.
FACTS = np.dtype([(name, np.int64) for name in (
    "dim", "rows", "hashed", "key_type", "half", "global_step", "count_at", "stamps_at", "clock_at", "parts", "first",
    "keys", "by_bag", "slots", "most", "mean", "ragged", "weighted", "exchange", "kept", "near_parts", "near_first",
    "seed", "identity", "kind", "used_at", "free_at", "counters_at", "frequency_at", "filters", "slots_of",
    "has_absent")] + [(name, np.float64) for name in ("a", "b", "absent")])
# When new rows are stamped: NewRows in lookup_facts.h.
NEW = np.dtype([("ahead", np.int64), ("at_least", np.int64)])

_EXCHANGES = {"all2all": 0, "reduce_scatter": 1, "auto": 2, "settled": 4}  # kAll2All and so on in lookup_facts.h

TOO_MANY_DIMENSIONS = -1  # what a function returns where keys have more than embeddings could

GONE = "the variables of a table were there when its lookup was prepared, and are gone"  # as LookupRun::Gone

_TEAMS_REMEMBERED = 1000
_KERNELS_REMEMBERED = 10000
_TEXT = 1000  # bytes of an error's text

_teams: Dict[Tuple[int, ...], "Team"] = {}
_facts: Dict[int, Tuple[int, ...]] = {}  # kernel -> its FACTS
_functions: Dict[str, Any] = {}

# What makes an argument of an array's memory: a third of what `array.ctypes.data` costs.
_first_byte, _pointer = ctypes.c_char.from_buffer, ctypes.byref

_I, _P, _I64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
_DECLARED = {
    "open": (_P, [_P, _I, _P, _P, _P, _P, _P, _P]), "close": (None, [_P]), "unlock": (None, [_P]),
    "finish": (None, [_P]), "scratch_bytes": (_I64, [_P]), "output_bytes": (_I64, [_P, _I, _I]),
    "error": (_I, [_P, ctypes.c_char_p, _I]),
    "forward_alone": (_I, [_P, _I, _P, _P]), "forward_insert": (_I, [_P, _P, _P]), "backward_alone": (_I, [_P, _P]),
    "weights_gradient": (_I, [_P, _P]),
    "distinct": (_I, [_P, _I, _P, _P, _P, _P, _P]), "prepare": (_I, [_P, _I, _I, _I] + [_P] * 4),
    "forward_ask": (_I, [_P, _I, _I] + [_P] * 5 + [_I] + [_P] * 3),
    "forward_answer": (_I, [_P, _I] + [_P] * 5), "forward_take": (_I, [_P, _P]),
    "backward_headers": (_I, [_P, _I, _P, _P]), "backward_send": (_I, [_P, _I, _I, _I, _P, _I] + [_P] * 4),
    "backward_take": (_I, [_P]),
    "pairs_count": (_I, [_P, _I, _P, _P]), "pairs_ask": (_I, [_P, _I] + [_P] * 6),
    "pairs_answer": (_I, [_P, _I] + [_P] * 5), "sums_take": (_I, [_P, _P]),
    "gradients_send": (_I, [_P, _I, _I, _I, _I] + [_P] * 4), "gradients_take": (_I, [_P]),
    "near_ask": (_I, [_P, _I] + [_P] * 4 + [_I] + [_P] * 3), "near_relay": (_I, [_P] * 4),
    "near_answer": (_I, [_P] * 4), "near_sum": (_I, [_P] * 4)}


class Said:
    """Where C++ says what is to be exchanged, and what it has found: for all runs of a team, one after the other.

    Attributes:
      pointers: int64 [3], to what is given, to what is taken, and the bytes of a unit. gives, takes: int64 [N], units.
      missing, fresh: int64 [T].
      exchange_at: addresses of the first three. found_at: of the others.
    """

    def __init__(self, size: int, ranks: int) -> None:
        parts = np.split(np.zeros(3 + 2 * (ranks + size), np.int64), np.cumsum([3, ranks, ranks, size]))
        self.pointers, self.gives, self.takes, self.missing, self.fresh = parts
        at = [part.ctypes.data for part in parts]
        self.exchange_at, self.found_at = at[:3], at[3:]


class Team:
    """The kernels (nodes in one session) of members that have run together before, in their order.

    Attributes:
      facts: `FACTS` [T]. names: the tables', a list of str. by_bag: whether they are lookups by bag, or gradients of
        such. hashed: whether any of them has an index. begins: whether what keys without a row read is a function of
        the keys, for all of them. by_hosts: whether their exchanges go by hosts: of all of them, or of none.
    """

    def __init__(self, members: List[Any]) -> None:
        self.facts = np.array([facts_of(taken.request, taken.config) for taken in members], FACTS)
        self.names = [taken.config.table.name for taken in members]
        self.by_bag = bool(self.facts["by_bag"][0])
        self.hashed = bool(self.facts["hashed"].any())
        self.by_hosts = bool(self.facts["near_parts"][0])
        self.begins = not (self.facts["hashed"] & (self.facts["kind"] < 0)).any()
        self._expected = np.zeros(1, np.int64)  # bytes of scratch memory that their last run took
        self.addresses = self.facts.ctypes.data, self._expected.ctypes.data
        self._said: Dict[int, Said] = {}

    def said(self, ranks: int) -> Said:
        """Its `Said`, with so many ranks."""
        if ranks not in self._said:
            self._said[ranks] = Said(len(self.names), ranks)
        return self._said[ranks]


def facts_of(request: Any, config: Any) -> Tuple[Any, ...]:
    """The `FACTS` of a request's kernel (a node in one session) with this config."""
    kernel = request.kernel
    if kernel not in _facts:
        if len(_facts) >= _KERNELS_REMEMBERED:
            _facts.clear()
        table = config.table
        held = config.held.names if hasattr(config, "held") else ()

        def place(*names: str) -> List[int]:
            return [held.index(name) if name in held else -1 for name in names]

        _facts[kernel] = (table.dim, table.rows, table.hashed, KEY_TYPES[table.key_dtype],
                          ITEM_BYTES[getattr(config, "dtype", "float32")] == 2, getattr(config, "global_step", False),
                          *place("count", "stamps", "clock"),
                          table.placement.rank is not None, table.placement.first, table.keys or 0,
                          hasattr(config, "combiner"), getattr(config, "slot_num", None) or 0,
                          getattr(config, "max_nnz", 0), _divided_by(config),
                          getattr(config, "form", "") == "ragged", getattr(config, "weighted", False),
                          _EXCHANGES[getattr(config, "exchange", "all2all")], getattr(config, "kept", 0),
                          *_near(table), *_beginning(table)[:3],
                          *_forgetting(request, config, place), *_beginning(table)[3:], _absent(table) or 0.0)
    return _facts[kernel]


def team_of(members: List[Any]) -> Team:
    """The Team of members (list of `together.Taken`), made when they first run together."""
    kernels = tuple([taken.request.kernel for taken in members])
    team = _teams.get(kernels)
    if team is None:
        if len(_teams) >= _TEAMS_REMEMBERED:  # of sessions long closed
            _teams.clear()
        team = _teams[kernels] = Team(members)
    return team


class LookupRun(Run):
    """Lookups, or gradients, that run at once, T of them: see Run.

    A member that is left is run by its operation, once this has unlocked: it has the outputs that this has made.

    Attributes:
      kept: what `lookup_ranks.prepare` leaves for the forward of the same members, or None.
    """

    def __init__(self, members: List[Any]) -> None:
        super().__init__(members)
        self.kept: Any = None
        self.ids: List[int] = []
        self.team = team_of(members)
        requests = [taken.request for taken in members]
        first = requests[0]
        if not _functions:
            _declare(first.library)
        handles = (ctypes.c_void_p * len(requests))(*[request.handle for request in requests])
        gpu = first.gpu
        facts, expected = self.team.addresses
        self._handle = _functions["open"](handles, len(requests), gpu and gpu.stream, gpu and gpu.event, facts,
                                          _functions["steps"], group_steps.device(gpu), expected)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):  # None where it was never made
            _functions["close"](self._handle)

    @property
    def by_bag(self) -> bool:
        """See Team."""
        return self.team.by_bag

    def prepared(self, whole: bool = True) -> None:
        """Ends a `prepare`: the members know this, and it no more them, so that both go as soon as they are done.

        Args:
          whole: whether it has prepared all of them: only then it goes on with them.
        """
        self.ids, self.members = [taken.request.id for taken in self.members] if whole else [], []

    def call(self, name: str, *arguments: Any) -> int:
        """One of lookup_run.h's functions. NumPy arrays, writable and not empty, are passed by their addresses.

        Returns:
          0, or TOO_MANY_DIMENSIONS, and nothing is done.

        Raises:
          CallError: with the status that the function returned.
        """
        code = _functions[name](self._handle, *[
            _pointer(_first_byte(argument)) if type(argument) is np.ndarray else argument for argument in arguments])
        if code > 0:
            text = ctypes.create_string_buffer(_TEXT)
            failed = _functions["error"](self._handle, text, _TEXT)
            said = text.value.decode("utf-8", "replace")
            _functions["unlock"](self._handle)
            raise CallError(code, said if failed < 0 else "op '{}': {}".format(
                self.members[failed].call.name, said))
        return code

    @staticmethod
    def exchange(communicator: Any, said: Said, among: int = ALL) -> None:
        """Exchanges what a function has said; among: see Communicator.all_to_all."""
        give, take, unit = said.pointers.tolist()
        communicator.all_to_all(give, said.gives, take, said.takes, unit, among)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory that it has taken until now."""
        return int(_functions["scratch_bytes"](self._handle))

    def output_bytes(self, number: int, index: int) -> int:
        """Bytes of output `index` of a member, 0 where it has none yet."""
        return int(_functions["output_bytes"](self._handle, number, index))

    def insert(self, fresh: Sequence[int], left: Sequence[int]) -> None:
        """Has the keys that a lookup has found to be new inserted, but for members that are left.

        Args:
          fresh: [T], how many new keys each has. left: [T], not 0 for those.
        """
        if not any(fresh):
            return
        rows = np.zeros(len(self.members), NEW)
        for number, taken in enumerate(self.members):
            if left[number] or not fresh[number]:
                continue
            rows[number] = clock.step_of_new(taken.request, taken.config.table.name)
        self.call("forward_insert", rows, bytes(left))

    def _finish_all(self) -> None:
        """See Run."""
        for taken in self.members:
            taken.request.ended()
        _functions["finish"](self._handle)


def _divided_by(config: Any) -> int:
    # Of what a lookup with weights has, the gradient to these knows nothing else.
    return divided_by(getattr(config, "combiner", "sum"), getattr(config, "weighted", True))


def _near(table: Any) -> Tuple[int, int]:
    """The ranks that this one asks where exchanges go by hosts, as `FACTS` say it."""
    hosts = table.placement.by_hosts(launch.current())
    return (0, 0) if hosts is None else (hosts.local, hosts.first)


def _beginning(table: Any) -> Tuple[Any, ...]:
    """How a table's rows begin, as the last of `FACTS` say it."""
    world = launch.current()
    kind, a, b = ("", 0.0, 0.0) if table.by_row else table.distribution(world.size)
    number = row_init.number_of(kind, table.initializer.pool) if kind else -1
    return signed(world.seed_of_rows()), signed(table.identity), number, a, b


def _absent(table: Any) -> Optional[float]:
    """What keys without a row read in all places, if that is not what their rows would begin with."""
    return None if table.forgetting is None else table.forgetting.absent


def _forgetting(request: Any, config: Any, place: Callable[..., List[int]]) -> Tuple[int, ...]:
    """Of a lookup, what `FACTS` say of a table that forgets."""
    table, forgetting = config.table, config.table.forgetting
    if forgetting is None or not hasattr(config, "filtered"):
        return -1, -1, -1, -1, 0, 0, 0
    filters = forgetting.admit_after > 1 or (config.filtered and forgetting.filter_ratio < 1)
    return (*place("used", "free", "counters", "frequency"), filters, known_slots.address(request, table),
            _absent(table) is not None)


def signed(number: int) -> int:
    """The int64 with the lowest 64 bits of a number."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def again(members: List[Any]) -> LookupRun:
    """The run that has prepared these members, if they are all of them and in its order; else another one."""
    prepared = members[0].prepared
    run = getattr(prepared, "memory", prepared)
    if not isinstance(run, LookupRun) or run.ids != [taken.request.id for taken in members]:
        return LookupRun(members)
    run.members = members
    return run


def _declare(library: Any) -> None:
    """Types the functions of the bridge's `Library`."""
    loaded = library.loaded
    for there, here in ((loaded.sok1x_lookup_facts_bytes, FACTS.itemsize),
                        (loaded.sok1x_lookup_new_bytes, NEW.itemsize),
                        # One of the two libraries may be older than its sources.
                        (loaded.sok1x_lookup_steps_bytes, ctypes.sizeof(group_steps.GroupSteps))):
        there.restype = ctypes.c_int64
        assert there() == here, (there(), here)
    for name, (result, arguments) in _DECLARED.items():
        function = getattr(loaded, "sok1x_lookup_" + name)
        function.restype, function.argtypes = result, arguments
        _functions[name] = function
    _functions["steps"] = group_steps.functions()
