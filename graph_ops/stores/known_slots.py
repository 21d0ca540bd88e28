"""Which slots optimizers have made for tables that grow: those grow with the rows.

An op has its variables for good when it is built, and a lookup is built before the optimizer makes its slots. So a slot
is noted here when it is made, with its table, in its graph; and once more when its initializer runs, in the session,
for graphs that another process has built.
"""
import collections
import contextlib
import ctypes
import struct
import threading
from typing import Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import contexts, plan
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.stores.table import Table


class Slot(NamedTuple):
    """A variable [V, ...] beside a table's rows.

    Attributes:
      name, container: by which the session knows it. value: a new row's.
    """

    name: str
    container: str
    value: float


_of_sessions: Dict[int, Dict[str, Set[Slot]]] = {}  # session -> table's name -> slots
_python_only: Set[Tuple[int, str]] = set()  # (session, table's name)
_told: Dict[str, Dict[Tuple[int, Optional[int]], "_Told"]] = {}  # table's name -> by session, and plan's number
_gone: Deque[Tuple[str, Slot]] = collections.deque()  # (table's name, slot): eager ones that are to be forgotten
_lock = threading.RLock()  # graphs are built while others run


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Inside, this thread alone looks at all this, and what is gone has been forgotten."""
    with _lock:
        while _gone:
            table, slot = _gone.popleft()
            for known in [plan.unordered().slots, *_of_sessions.values()]:
                known.get(table, set()).discard(slot)
            _tell(table)
        yield


def note_made(graph: tf.Graph, table: str, slot: Slot) -> None:
    """Notes a slot that has been made in a graph; table: a name."""
    with _locked():
        plan.of(graph).slots.setdefault(table, set()).add(slot)
        _tell(table)


def note_eager(table: str, slot: Slot) -> None:
    """As `note_made`, of eager execution."""
    with _locked():
        plan.unordered().slots.setdefault(table, set()).add(slot)
        _tell(table)


def forget(table: str, slot: Slot) -> None:
    """An eager slot is gone.

    Called wherever Python collects garbage, so it takes no lock, which this thread may hold, `plan`'s too. Until
    somebody asks, C++ may look for the slot, and finds none of its name.
    """
    _gone.append((table, slot))


def note_initialized(request: Any, table: str, *slots: Slot) -> None:
    """Notes slots that a request initializes, or, without any, that the table's rows are being initialized."""
    with _locked():
        _of_sessions.setdefault(request.session, {}).setdefault(table, set()).update(slots)
        _tell(table, request.session)


def of(request: Any, table: Table) -> List[Slot]:
    """The slots of a table in a request's graph and session, of which some may have no value yet; in order of names.

    Raises:
      CallError: FAILED_PRECONDITION where they cannot be known.
    """
    with _locked():
        slots = _known(request.session, request.plan, table.name)
    if slots is None:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{}' cannot get more rows in this session: its graph was built by another process, and "
            "has been restored without its initializers, so that the optimizer's slots are not known. Run "
            "tf.global_variables_initializer() before the Saver, or build the model anew, by its code: what "
            "tf.saved_model.load gives has the rows that it was saved with, and no more").format(table.name))
    return slots


def _known(session: int, plan_number: Optional[int], table: str) -> Optional[List[Slot]]:
    of_graph, initialized = plan.get(plan_number), _of_sessions.get(session, {}).get(table)
    if of_graph is None and initialized is None:
        return None
    return sorted(set(initialized or ()) | (set() if of_graph is None else of_graph.slots.get(table, set())))


def address(request: Any, table: Table) -> int:
    """Where C++ finds what `of` gives (SlotsOf* in groups/lookup_facts.h), and null as long as that raises."""
    key = request.session, request.plan
    with _locked():
        of_table = _told.setdefault(table.name, {})
        if key not in of_table:
            of_table[key] = _Told()
            of_table[key].tell(_to_tell(*key, table.name))
        return ctypes.addressof(of_table[key].pointer)


def end_session(session: int) -> None:
    """Forgets a session whose ops are gone: nobody has an `address` of it any more."""
    with _locked():
        for table in [*_of_sessions.pop(session, {}), *_told]:
            _python_only.discard((session, table))
        for table, of_table in list(_told.items()):
            for key in [key for key in of_table if key[0] == session]:
                del of_table[key]
            if not of_table:
                del _told[table]


contexts.on_end.append(end_session)


def _tell(table: str, session: Optional[int] = None) -> None:
    """What is known of a table, in one session alone where that is given, has changed; to be called with the lock."""
    for key, told in _told.get(table, {}).items():
        if session is None or key[0] == session:
            told.tell(_to_tell(*key, table))


def _to_tell(session: int, plan_number: Optional[int], table: str) -> Optional[List[Slot]]:
    return None if (session, table) in _python_only else _known(session, plan_number, table)


def leave_to_python(session: int, table: str, leave: bool) -> None:
    """Whether C++ is to leave a table's new keys to Python, as where the slots are not known; table: its name."""
    with _locked():
        (_python_only.add if leave else _python_only.discard)((session, table))
        _tell(table, session)


class _Told:
    """What C++ has been told of a table in a session and a graph.

    Attributes:
      pointer: to the slots. C++ may be reading those that have been told before, so all of them stay.
    """

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self._last: Optional[List[Slot]] = None
        self._kept: List[Any] = []

    def tell(self, slots: Optional[List[Slot]]) -> None:
        """Has the pointer point to slots; None: to nothing."""
        if slots == self._last:
            return
        self._last = slots
        if slots is None:
            self.pointer.value = None
            return
        names = [(ctypes.c_char_p(slot.container.encode()), ctypes.c_char_p(slot.name.encode())) for slot in slots]
        said = struct.pack("q", len(slots)) + b"".join(
            struct.pack("PPd", *[ctypes.cast(text, ctypes.c_void_p).value for text in texts], slot.value)
            for texts, slot in zip(names, slots))
        block = ctypes.create_string_buffer(said, len(said))
        self._kept.append((names, block))
        self.pointer.value = ctypes.addressof(block)
