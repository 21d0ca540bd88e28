"""The plan of collectives: what each graph's communicating ops are, in the order in which they were built.

An op's number in that order is its name between ranks, so all ranks must build the same ops in the same order. The
coordinator compares a digest of the whole plan when an op first runs, and shows the plans where they differ.
"""
import hashlib
import threading
import uuid
import weakref

PROCESS = uuid.uuid4().hex  # tells ops built here from ops of a graph that another process wrote

_plans = weakref.WeakKeyDictionary()  # graph -> Plan
_by_number = weakref.WeakValueDictionary()
_count = 0
_lock = threading.Lock()


class Plan:
    """The communicating ops of one graph."""

    def __init__(self, number):
        self.number = number
        self.entries = []
        self.step = 0, 0  # the last run that trained by the graph's global step, and that step: see stamps.py
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, description):
        """Appends an op; returns its number."""
        self.entries.append(description)
        self._hash.update(description.encode() + b"\n")
        return len(self.entries) - 1

    @property
    def digest(self):
        """64 bits that two plans share only if they are the same."""
        return int.from_bytes(self._hash.digest(), "little")

    @property
    def text(self):
        """The plan for people, one op a line."""
        return "\n".join("  {}: {}".format(i, entry) for i, entry in enumerate(self.entries))


def add(graph, description):
    """Numbers the next communicating op of `graph`: [graph's number, op's number]."""
    global _count
    with _lock:
        plan = _plans.get(graph)
        if plan is None:
            plan = _plans[graph] = Plan(_count)
            _by_number[_count] = plan
            _count += 1
        return [plan.number, plan.add(description)]


def get(number):
    """The plan of graph `number`, or None where the graph is gone."""
    return _by_number.get(number)
