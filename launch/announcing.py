"""How this rank tells rank 0 of ops that are ready: as few messages as possible, and what rank 0 must know first."""
from typing import Any, Dict, List, Sequence, Set

from . import bundles
from .announcements import Ready
from .messages import Announce


class Announcer:
    """Makes messages of Readies, and keeps what rank 0 has been told of this rank's sessions and plans."""

    def __init__(self) -> None:
        self._told: Dict[int, int] = {}  # session -> how many ops of its plan rank 0 has been told
        self._met: Set[int] = set()      # sessions in which something has run: rank 0 knows them

    def met(self, contexts):
        """Something has run in these sessions (an iterable of int)."""
        self._met.update(contexts)

    def forget(self, context):
        """The session with this number is gone."""
        self._told.pop(context, None)
        self._met.discard(context)

    def messages(self, ticket: int, readies: Sequence[Ready]) -> List[Any]:
        """The messages that announce these, in this order; the first has this ticket.

        Neighbours of one session.run go into one Bundle, except those with an error, or of which rank 0 must be told
        more: an Announce each.
        """
        said: List[Any] = []
        at = 0
        while at < len(readies):
            message = self._bundle(ticket + at, readies[at:] if at else readies)
            if message is None:
                said.append(self._announce(ticket + at, readies[at]))
                at += 1
            else:
                said.append(message)
                at += message.count
        return said

    def _bundle(self, ticket, readies):
        """The Bundle of as many as can go into one, from the first on; None if that one cannot."""
        context, step, signature = readies[0].op.context, readies[0].step, readies[0].instance.signature
        told = self._told.get(context, 0) if context in self._met else 0
        places, runs, names, headers = [], [], [], []
        for op, name, header, error, own_step, instance, *_ in readies:
            own_context, index, digest = op
            tie, frame, iteration, own_signature = instance
            if (index >= told or error is not None or own_step != step or own_context != context
                    or own_signature != signature):
                break
            places += index, digest
            runs += tie, frame, iteration
            names.append(name)
            headers.append(bundles.header_bytes(header))
        if not names:
            return None
        return bundles.bundle(ticket, context, step, signature, names, places, runs, headers)

    def _announce(self, ticket, ready):
        return Announce(ticket, ready.step, ready.op, ready.instance, ready.name, self._introduction(ready),
                        bundles.header_bytes(ready.header), ready.error)

    def _introduction(self, ready):
        """What rank 0 may not know yet of an op's session and plan: see plans.py. None where it knows all."""
        context = ready.op.context
        told = self._told.get(context, 0)
        if context in self._met and ready.op.index < told:
            return None
        entries = [] if ready.plan is None else ready.plan.entries[told:]
        self._told[context] = max(told + len(entries), ready.op.index + 1)
        return {"first": told, "entries": entries, "graphs": ready.graphs, "rivals": list(ready.rivals),
                "alike": list(ready.alike)}
