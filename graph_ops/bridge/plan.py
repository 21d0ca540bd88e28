"""The plan of collectives: what each graph's communicating ops are, in the order in which they were built.

Ranks know an op by a hash of the plan up to it (`digest`), which the op carries in its config: so all ranks must build
the same ops in the same order, as far as they run them, and whatever a rank builds besides, later or in other graphs,
disturbs nobody. The coordinator shows the plans where ops cannot be paired.
"""
import hashlib
import re
import threading
import uuid
import weakref

from sok1x.graph_ops.bridge import configs, op_types

PROCESS = uuid.uuid4().hex  # tells ops built here from ops of a graph that another process wrote

_plans = weakref.WeakKeyDictionary()  # graph -> Plan
_by_number = weakref.WeakValueDictionary()
_made = 0
_unordered = None
_filled = 0
_had = {}  # an op's digest -> how many graphs have had the op
_lock = threading.Lock()
_NUMBERS = re.compile("[0-9]+")


class Plan:
    """The communicating ops of one graph.

    Attributes:
      number: tells it from other plans in this process.
      entries: what the ops are, a text each.
      told: session -> what its tables have been told there of the global step: told_step.py. once_told: the highest
        step that they have been told in sessions that are gone.
      shown: the highest step that its tables that forget have shown, by the table's name: stores/shown_steps.py.
      counted: whether `graphs` counts it; not where the library has the graph for itself.
      met: whether something of it has run together with other ranks.
      slots: of tables that grow, by the table's name: stores/known_slots.py.
    """

    def __init__(self, number):
        self.number = number
        self.entries = []
        self.told = {}
        self.once_told = 0
        self.shown = {}
        self.counted = True
        self.met = False
        self.slots = {}
        self._digests = []
        self._before = []

    def add(self, description):
        """Appends an op; returns (its number, its digest)."""
        global _filled
        _filled += self.counted and not self.entries
        before = self._digests[-1] if self._digests else 0
        hashed = hashlib.blake2b(before.to_bytes(8, "little") + description.encode(), digest_size=8)
        self.entries.append(description)
        self._put(len(self._digests), int.from_bytes(hashed.digest(), "little"))
        return len(self.entries) - 1, self._digests[-1]

    def _put(self, index, digest):
        """Notes an op's digest, and how many graphs have had the op before."""
        before = _had.get(digest, 0)
        self._digests[index:index + 1] = [digest]
        self._before[index:index + 1] = [before]
        if self.counted:
            _had[digest] = before + 1

    def has(self, index, digest):
        """Whether the op with this number has this digest."""
        return index < len(self._digests) and self._digests[index] == digest

    def alike(self, index, digest):
        """What tells an op's graph from others that have the very op: (how many had it before, in this process; how
        many that are there have it, too, and have not met other ranks yet)."""
        others = [plan for plan in all_of()
                  if plan is not self and plan.counted and not plan.met and plan.has(index, digest)]
        return (self._before[index] if self.has(index, digest) else 0), len(others)

    def adopt(self, graph):
        """Takes in the ops that `graph` has already, from a graph that was imported into it."""
        ours = [op for op in graph.get_operations() if op_types.is_ours(op)]
        places = [configs.place_of(op) for op in ours]
        for place in sorted((place for place in places if place.op is not None), key=lambda place: place.op[0]):
            index, digest = place.op
            while len(self.entries) <= index:  # what was left out when the graph was written has no text
                self.add("")
            self.entries[index] = place.described
            self._put(index, digest)


class Unordered(Plan):
    """The ops of eager execution, and of the bodies of functions that are called from there.

    Ranks build such bodies again as they please, one rank alone even, and call them in an order of their own. So an op
    is known by what it is, by the function or thread whose it is, and by the how-manieth of its kind it is in its body:
    0 of what runs at once.
    """

    def __init__(self, number):
        super().__init__(number)
        self.counted = False
        self._bodies = weakref.WeakKeyDictionary()  # body -> {description: how many there are}

    def add_to(self, body, description):
        """(number, digest) of an op. body: the graph of a function; None: it runs at once."""
        place = 0
        if body is not None:
            with _lock:
                kinds = self._bodies.setdefault(body, {})
                place = kinds[description] = kinds.get(description, -1) + 1
        hashed = hashlib.blake2b(place.to_bytes(8, "little") + (_caller(body) + description).encode(), digest_size=8)
        digest = int.from_bytes(hashed.digest(), "little")
        return digest >> 1, digest

    def has(self, index, digest):
        """As of a plan: nothing tells that it has not."""
        return False


def _caller(body):
    """Whose op it is, as all ranks know it: a function's, or a thread's of the program's own, by its name. Numbers
    in names are TensorFlow's and Python's, which may differ from rank to rank."""
    return _NUMBERS.sub("", thread() if body is None else getattr(body, "name", None) or "")


def thread():
    """The name of the thread that calls; '' of the main one."""
    current = threading.current_thread()
    return "" if current is threading.main_thread() else current.name


def unordered():
    """The one plan of this kind."""
    global _made, _unordered
    with _lock:
        if _unordered is None:
            _unordered = _by_number[_made] = Unordered(_made)
            _made += 1
    return _unordered


def of(graph):
    """The plan of a graph, made when first asked for."""
    global _made
    with _lock:
        plan = _plans.get(graph)
        if plan is None:
            plan = _plans[graph] = Plan(_made)
            _by_number[_made] = plan
            _made += 1
            plan.adopt(graph)
        return plan


def get(number):
    """The plan with this number, or None where its graph is gone."""
    return _by_number.get(number)


def all_of():
    """The plans whose graphs are there. Other threads may build graphs meanwhile: `values` would fail."""
    return [plan for plan in (reference() for reference in _by_number.valuerefs()) if plan is not None]


def graph_of(number):
    """The graph of the plan with this number, or None where it is gone."""
    with _lock:
        return next((graph for graph, plan in _plans.items() if plan.number == number), None)


def graphs():
    """How many graphs with communicating ops this process has built."""
    return _filled
