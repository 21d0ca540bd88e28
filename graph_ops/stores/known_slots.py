"""Which slots optimizers have made for tables that grow: those grow with the rows.

An op has its variables for good when it is built, and a lookup is built before the optimizer makes its slots. So a slot
is noted here when it is made, with its table, in its graph; and once more when its initializer runs, in the session,
for graphs that another process has built.
"""
import ctypes
import struct
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import plan
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


_SESSIONS_REMEMBERED = 1000
_of_sessions: Dict[int, Dict[str, Set[Slot]]] = {}  # session -> table's name -> slots
_python_only: Set[Tuple[int, str]] = set()  # (session, table's name)
_told: Dict[Tuple[int, Optional[int], str], "_Told"] = {}  # by session, plan's number, and table's name
_lock = threading.RLock()  # graphs are built while others run


def note_made(graph: tf.Graph, table: str, slot: Slot) -> None:
    """Notes a slot that has been made in a graph; table: a name."""
    with _lock:
        plan.of(graph).slots.setdefault(table, set()).add(slot)
        _tell(table)


def note_eager(table: str, slot: Slot) -> None:
    """As `note_made`, of eager execution."""
    with _lock:
        plan.unordered().slots.setdefault(table, set()).add(slot)
        _tell(table)


def forget(table: str, slot: Slot) -> None:
    """An eager slot is gone."""
    with _lock:
        for known in [plan.unordered().slots, *_of_sessions.values()]:
            known.get(table, set()).discard(slot)
        _tell(table)


def note_initialized(request: Any, table: str, *slots: Slot) -> None:
    """Notes slots that a request initializes, or, without any, that the table's rows are being initialized."""
    with _lock:
        if len(_of_sessions) >= _SESSIONS_REMEMBERED and request.session not in _of_sessions:
            _of_sessions.clear()
        _of_sessions.setdefault(request.session, {}).setdefault(table, set()).update(slots)
        _tell(table)


def of(request: Any, table: Table) -> List[Slot]:
    """The slots of a table in a request's graph and session, of which some may have no value yet; in order of names.

    Raises:
      CallError: FAILED_PRECONDITION where they cannot be known.
    """
    slots = _known(request.session, request.plan, table.name)
    if slots is None:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{}' cannot get more rows in this session: its graph was built by another process, and "
            "has been restored without its initializers, so that the optimizer's slots are not known. Run "
            "tf.global_variables_initializer() before the Saver, or build the model anew, by its code: what "
            "tf.saved_model.load gives has the rows that it was saved with, and no more").format(table.name))
    return slots


def _known(session: int, plan_number: Optional[int], table: str) -> Optional[List[Slot]]:
    with _lock:
        of_graph, initialized = plan.get(plan_number), _of_sessions.get(session, {}).get(table)
        if of_graph is None and initialized is None:
            return None
        return sorted(set(initialized or ()) | (set() if of_graph is None else of_graph.slots.get(table, set())))


def address(request: Any, table: Table) -> int:
    """Where C++ finds what `of` gives (SlotsOf* in groups/lookup_facts.h), and null as long as that raises."""
    key = request.session, request.plan, table.name
    with _lock:
        if key not in _told:
            _told[key] = _Told()
            _told[key].tell(_to_tell(*key))
        return ctypes.addressof(_told[key].pointer)


def _tell(table: str) -> None:
    """What is known of a table has changed; to be called with the lock."""
    for key, told in _told.items():
        if key[2] == table:
            told.tell(_to_tell(*key))


def _to_tell(session: int, plan_number: Optional[int], table: str) -> Optional[List[Slot]]:
    return None if (session, table) in _python_only else _known(session, plan_number, table)


def leave_to_python(session: int, table: str, leave: bool) -> None:
    """Whether C++ is to leave a table's new keys to Python, as where the slots are not known; table: its name."""
    with _lock:
        (_python_only.add if leave else _python_only.discard)((session, table))
        _tell(table)


class _Told:
    """What C++ has been told of a table in a session and a graph.

    Attributes:
      pointer: to the slots. C++ may be reading those that have been told before, so all of them stay.
    """

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self._kept: List[Any] = []

    def tell(self, slots: Optional[List[Slot]]) -> None:
        """Has the pointer point to slots; None: to nothing."""
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
