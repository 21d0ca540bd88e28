"""C++'s part in the order of collectives, as the executor sees it (groups/lane_ranks.h): what it is told, and gives.

It announces, decides and runs what has run before; all else comes out of it as events.
"""
import contextlib
import ctypes
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from sok1x.graph_ops.bridge.bridge import RequestInfo
from sok1x.graph_ops.bridge.bulk import REQUEST
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.bridge.op_functions import declare
from sok1x.launch.direct import Direct
from sok1x.launch.lane import Lane

# The kinds of events: EventKind there.
HELD, MESSAGE, LEFT, FAILED, SEND = range(1, 6)

_NAME_BYTES = 1000
_I, _I64, _P = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
_ALL_TO_ALL = ctypes.CFUNCTYPE(_I, _I64, ctypes.c_char_p, _I64, _P, _I64, _P, _I64, _I64)
_ALL_GATHER = ctypes.CFUNCTYPE(_I, _I64, ctypes.c_char_p, _I64, _I64, _P, _I64)
_ANY_RANK = ctypes.CFUNCTYPE(_I, _P, _I64)
_TELL = ctypes.CFUNCTYPE(None, _I, _P, _I64)
_ENDED = ctypes.CFUNCTYPE(_I, _I64)


class _Ways(ctypes.Structure):
    _fields_ = [("all_to_all", _ALL_TO_ALL), ("all_gather", _ALL_GATHER), ("any_rank", _ANY_RANK),
                ("any_rank_answer", _ANY_RANK), ("ended", _ENDED)]


class _Standing(ctypes.Structure):
    _fields_ = [(name, _I64) for name in (
        "rank", "ranks", "announces", "decides", "spin_us", "told", "pending", "short_headers", "local")]


class _EventInfo(ctypes.Structure):
    _fields_ = [("kind", _I64), ("count", _I64), ("requests", _P), ("numbers", _P), ("headers", _P), ("width", _I64),
                ("source", _I64), ("data", _P), ("bytes", _I64), ("code", _I64)]


class Event(NamedTuple):
    """What is Python's.

    Attributes:
      kind: HELD: requests that have been announced, and wait; LEFT: that have been decided and are left to be run by
        themselves; FAILED: that have failed in the midst of it. MESSAGE: what another rank has said. SEND: what is to
        be sent to another.
      rows: of the requests, as `Intake.rows`. numbers: tickets of those that are held; else the decisions'.
      headers: int64 [T, N, width] of those that are left.
      source, data: of a message, its rank and bytes, or to whom it is to be sent; of a failure `data` says what, in
        code `code`.
      error: the exception instead, where it was one of Python's.
    """

    kind: int
    rows: List[Tuple[int, ...]]
    numbers: List[int]
    headers: np.ndarray
    source: int
    data: bytes
    code: int
    error: Optional[BaseException]


class Meeting(Lane):
    """C++'s part in what rank 0's leader does (groups/meeting.h): see launch/lane.py.

    Args:
      loaded: the bridge's library as ctypes has it. size: number of ranks. address: where C++ has it.
    """

    def __init__(self, loaded: Any, size: int, address: int) -> None:
        self._loaded, self._size, self.address = loaded, size, address
        numbers = ctypes.POINTER(_I64)
        declare(loaded, ("meeting_agree", None, [_P, numbers, _P]), ("meeting_disagree", None, [_P]),
                ("meeting_give_up", None, [_P, _I, _I64]),
                ("meeting_undo", _I64, [_P, _I64, numbers, ctypes.c_char_p, _I64]))

    def agree(self, contexts: Sequence[int], signatures: Sequence[int]) -> None:
        """See Lane.agree."""
        self._loaded.sok1x_meeting_agree(self.address, (_I64 * self._size)(*contexts),
                                         (ctypes.c_uint64 * self._size)(*signatures))

    def disagree(self) -> None:
        """See Lane.disagree. What waits there must have been taken out."""
        self._loaded.sok1x_meeting_disagree(self.address)

    def give_up(self, rank: int, step: int) -> None:
        """See Lane.give_up."""
        self._loaded.sok1x_meeting_give_up(self.address, rank, step)

    def undo(self, number: int) -> Tuple[Optional[str], Sequence[int]]:
        """See Lane.undo."""
        steps, name = (_I64 * self._size)(), ctypes.create_string_buffer(_NAME_BYTES)
        length = self._loaded.sok1x_meeting_undo(self.address, number, steps, name, _NAME_BYTES)
        return (None, ()) if length < 0 else (name.raw[:length].decode("utf-8", "replace"), steps[:])


class LaneRanks(Meeting):
    """C++'s part in a world of several ranks.

    Args:
      library: the bridge's `Library`. world: the World.
    """

    def __init__(self, library: Any, world: Any) -> None:
        self._world, self._loaded = world, library.loaded
        self._declare()
        self._error: Optional[BaseException] = None
        self._answer: Any = None
        self._ways = _Ways(_ALL_TO_ALL(self._guarded(self._all_to_all)), _ALL_GATHER(self._guarded(self._all_gather)),
                           _ANY_RANK(self._guarded(self._any_rank)), _ANY_RANK(self._guarded(self._any_rank_answer)),
                           _ENDED(self._guarded(self._ended)))
        self._standing = _Standing(world.rank, world.size, 0, 0, world.coordinator.spin_microseconds, 0, 0,
                                   world.short_headers, world.by_hosts.local if world.by_hosts else 0)
        self._info = _EventInfo()
        host = getattr(world.communicator, "direct", None)
        tree = world.coordinator.tree
        self._loaded.sok1x_ranks_begin(ctypes.byref(self._ways), host and ctypes.byref(host),
                                       ctypes.byref(self._standing), -1 if tree.parent is None else tree.parent,
                                       (_I64 * world.size)(*tree.hops))
        self._stopped = self._has_gpu = False
        super().__init__(self._loaded, world.size, self._loaded.sok1x_ranks_meeting())
        world.coordinator.share(self.hear, self._plain, self)

    def stand(self) -> None:
        """Says what C++ may do until the next call."""
        coordinator = self._world.coordinator
        self._standing.announces, self._standing.decides = coordinator.may_announce, coordinator.may_decide
        self._standing.told = coordinator.decided
        if not self._has_gpu and self._world.gpu_communicator is not None:
            self._has_gpu, gpu = True, self._world.gpu_communicator.direct
            self._loaded.sok1x_ranks_gpu(gpu and ctypes.byref(gpu))

    def disagree(self) -> None:
        """See Lane.disagree."""
        self._loaded.sok1x_ranks_hand_over()
        super().disagree()

    def hear(self, came: Sequence[Tuple[int, bytes]]) -> None:
        """Takes messages that Python has received."""
        if self._stopped:
            self._world.coordinator.take(came)
            return
        for source, data in came:
            self._loaded.sok1x_ranks_hear(source, data, len(data))

    @property
    def pending(self) -> bool:
        """Whether C++ has to run something before what Python has been told to run."""
        return self._standing.pending > 0

    def stop(self) -> bool:
        """C++ goes on with nothing more. To be called until it returns False, with the events taken each time."""
        self._stopped = not self._loaded.sok1x_ranks_stop()
        return not self._stopped

    def events(self) -> Iterator[Event]:
        """What has become Python's, in order, until there is nothing."""
        info = self._info
        while self._loaded.sok1x_ranks_event(ctypes.byref(info)):
            count, headers = info.count, np.empty((0, 0, 0), np.int64)
            rows: List[Tuple[int, ...]] = []
            if count:
                memory = (RequestInfo * count).from_address(info.requests)
                rows = np.frombuffer(memory, REQUEST).tolist()
            if info.kind == LEFT:
                shape = count, self._world.size, info.width
                headers = np.frombuffer((_I64 * int(np.prod(shape))).from_address(info.headers),
                                        np.int64).reshape(shape).copy()
            error: Optional[BaseException] = None
            if info.kind == FAILED:
                error, self._error = self._error, None
            if info.code < 0 and error is None:
                error = CallError(INTERNAL, "an exchange on {} failed: its library reports an error".format(
                    self._world.name))
            yield Event(info.kind, rows, (_I64 * count).from_address(info.numbers)[:] if count else [], headers,
                        info.source, ctypes.string_at(info.data, info.bytes), info.code, error)

    def _plain(self, source: int, data: bytes) -> List[Tuple[int, bytes]]:
        plain: List[Tuple[int, bytes]] = []
        self._loaded.sok1x_ranks_plain(source, data, len(data), _TELL(
            lambda rank, at, length: plain.append((rank, ctypes.string_at(at, length)))))
        return plain

    def _guarded(self, method: Any) -> Any:
        """What C++ calls: an exception must not escape into it."""
        def guarded(*arguments: Any) -> int:
            try:
                method(*arguments)
            except BaseException as error:
                self._error = error
                return 1
            return 0
        return guarded

    def _communicator(self, gpu: int) -> Any:
        return self._world.gpu_communicator if gpu else self._world.communicator

    def _current(self, gpu: int) -> Any:
        """The GPU's context is the thread's current one inside, also for PyCUDA: C++ sets CUDA's alone."""
        return self._world.gpu_communicator.gpu.active() if gpu else contextlib.ExitStack()

    def _numbers(self, at: int) -> np.ndarray:
        return np.frombuffer((_I64 * self._world.size).from_address(at), np.int64)

    def _all_to_all(self, gpu: int, name: bytes, give: int, gives: int, take: int, takes: int, unit: int,
                    among: int) -> None:
        with self._current(gpu):
            self._named(gpu, name).all_to_all(give, self._numbers(gives), take, self._numbers(takes), unit, among)

    def _all_gather(self, gpu: int, name: bytes, give: int, take: int, takes: int, unit: int) -> None:
        with self._current(gpu):
            self._named(gpu, name).all_gather(give, take, self._numbers(takes), unit)

    def _named(self, gpu: int, name: bytes) -> Any:
        """The communicator, which knows what op exchanges."""
        communicator = self._communicator(gpu)
        communicator.op = self._world.communicator.op = name.decode("utf-8", "replace")
        return communicator

    def _any_rank(self, flags: int, count: int) -> None:
        self._answer = self._world.communicator.any_rank(ctypes.string_at(flags, count))

    def _any_rank_answer(self, flags: int, count: int) -> None:
        ctypes.memmove(flags, self._answer(), count)

    def _ended(self, gpu: int) -> None:
        communicator = self._communicator(gpu)
        if gpu:
            with self._current(gpu):
                communicator.ended()
        failure = communicator.failure
        if failure is not None:  # an exchange that was given up ends without its data
            raise failure

    def _declare(self) -> None:
        loaded, numbers = self._loaded, ctypes.POINTER(_I64)
        declare(loaded, ("ranks_bytes", None, [numbers]), ("ranks_begin", None, [_P, _P, _P, _I, numbers]),
                ("ranks_gpu", None, [_P]), ("ranks_hear", None, [_I, ctypes.c_char_p, _I64]), ("ranks_stop", _I, []),
                ("ranks_event", _I, [_P]), ("ranks_plain", None, [_I, ctypes.c_char_p, _I64, _TELL]),
                ("ranks_hand_over", None, []), ("ranks_meeting", _P, []))
        sizes = (_I64 * 4)()
        loaded.sok1x_ranks_bytes(sizes)
        here = [ctypes.sizeof(kind) for kind in (_Ways, _Standing, _EventInfo, Direct)]
        assert sizes[:] == here, (sizes[:], here)
