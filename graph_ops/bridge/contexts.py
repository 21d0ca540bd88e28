"""The sessions in which our ops run, numbered in the order in which each first ran one of them.

The coordinator pairs the sessions of different ranks (launch/pairing.py); this tells it what it needs to know of ours.
"""
from sok1x.graph_ops.bridge import plan

_first = {}  # the bridge's number of a session -> that of the first exchange in it: see `first_exchange`
on_end = []  # what is called with the bridge's number of each session that is gone, kernels, variables and all


class Context:
    """A session. number: of this process. plans: number -> Plan of the graphs that its ops come from, None if gone.
    met: whether something has run in it together with other ranks."""

    __slots__ = ("number", "plans", "met", "_session")

    def __init__(self, number, session):
        self.number = number
        self.plans = {}
        self.met = False
        self._session = session

    def meet(self, exchange):
        """Something runs in it together with other ranks, as the exchange of this number."""
        if not self.met:
            _first[self._session] = exchange
            self.met = True


class Contexts:
    """The sessions that are there, by the bridge's number of a session."""

    def __init__(self):
        self._known = {}
        self._count = 0

    def of(self, session, plan_number):
        """The Context of a session in which an op of a plan is about to run; plan_number: None for a foreign graph."""
        context = self._known.get(session)
        if context is None:
            context = self._known[session] = Context(self._count, session)
            self._count += 1
        if plan_number not in context.plans:
            context.plans[plan_number] = plan.get(plan_number)
        return context

    def end(self, session):
        """Forgets a session. Returns its Context, or None where it ran nothing of ours."""
        _first.pop(session, None)
        return self._known.pop(session, None)

    def rivals(self, context, index, digest):
        """Numbers of the sessions begun before `context` on a graph of its own that has the op: these could run it."""
        plans = [number for number, one in context.plans.items() if one is not None and one.has(index, digest)]
        return tuple(other.number for other in self._known.values()
                     if other.number < context.number and any(number in other.plans for number in plans))


def first_exchange(session):
    """The number of the first exchange in a session, by the bridge's number of it: alike on all ranks, which number
    their sessions each for itself, and no other session's. None where nothing has run in it with other ranks."""
    return _first.get(session)
