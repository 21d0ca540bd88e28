"""The way between this rank and rank 0: messages there, words back; on rank 0 itself, to the leader and from it.

In a large job it goes by way of other ranks (tree.py). A rank on the way passes everything on here, in the order in
which it comes, or has C++ do so (`through`). It passes a word on before it acts on it, and no word after one that it
has still to act on: a rank below that waits inside the exchange of the first could not take in a second, a long one.
"""
from . import envelopes, messages
from .bundles import Run
from .errors import LaunchError


class Channel:
    """Says and hears. What is said in one turn goes in one message.

    Args:
        tree: This rank's place: tree.Tree.
        transport: See coordinator.
        hear: Function (word), called for each word of rank 0.
        acts: Function giving whether something is decided here that is to be run.
        alarmed: Function (message), called for each failure that comes without the tree.

    Attributes:
        leader: On rank 0, the Leader.
        through: A function ([(rank, bytes)]), which hears what comes first, and passes it on; it calls `hear` in turn.
        plain: A function (rank, bytes) giving the messages that one is, as [(rank, bytes)].
        parted: The children that will send nothing more.
    """

    def __init__(self, tree, transport, hear, acts, alarmed):
        self._tree, self._transport, self._hear, self._acts, self._alarmed = tree, transport, hear, acts, alarmed
        self._said = []
        self._later = []  # what has come and is not looked at yet
        self.leader = self.through = None
        self.plain = lambda rank, data: [(rank, data)]
        self.parted = set()

    @property
    def unsent(self):
        """Whether something said waits for `send`, or something that has come to be heard."""
        return bool(self._said or self._later)

    def say(self, *said):
        """Says something to rank 0, which hears it after the next `send`; rank 0 hears itself at once."""
        if self.leader is None:
            self._said += said
            return
        for message in said:
            self.leader.hear(0, message)
        self.leader.decide()

    def send(self):
        """Sends what has been said."""
        if self._said:
            said, self._said = self._said, []
            self._transport.send(self._tree.parent, messages.encode(*said))
            failures = [message for message in said if type(message) is messages.Failed]
            if failures and self._tree.parent != 0:
                self._transport.send(0, envelopes.alarm(messages.encode(*failures)))

    def part(self):
        """Tells the rank above that nothing more will come."""
        if self._tree.parent:
            self._transport.send(self._tree.parent, bytes((envelopes.PARTED,)))

    def tell(self, rank, word):
        """The leader's word for one rank."""
        if rank == 0:
            self._hear(word)
        else:
            hop, data = self._tree.hops[rank], messages.encode(word)
            self._transport.send(hop, data if self._tree.is_leaf(hop) else envelopes.to_one(rank, data))

    def tell_all(self, word):
        """The leader's word for all ranks."""
        data = messages.encode(word)
        for rank in self._tree.children:
            self._transport.send(rank, data)
        if type(word) is messages.JobFailed:
            for rank in range(1, len(self._tree.parents)):
                if self._tree.parents[rank] != 0:
                    self._transport.send(rank, envelopes.alarm(data))
        self._hear(word)

    def pass_on(self, rank, data):
        """Sends a message of C++'s to the rank above or below."""
        self._transport.send(rank, data)

    def receive(self, failed):
        """Hears all that has come, then has the leader decide. Returns whether anything has come.

        Args:
            failed: Function (message), called for each failure.
        """
        came = self._transport.receive()
        if came and self.through is not None:
            self.through(came)
            return True
        return self.take(came, failed)

    def take(self, came, failed):
        """Passes on messages that have come, [(rank, bytes)], and hears those for this rank.

        After one by which this rank has something to run, the rest is for later. Returns whether there are any.
        failed: as for `receive`.
        """
        came, self._later = self._later + came, []
        rising, heard = [], []
        for at, (source, data) in enumerate(came):
            try:
                mine = self._pass(source, data, rising)
                if self.leader is not None:
                    heard += mine
                    continue
                for rank, one in mine:
                    self.hear(self.plain(rank, one), failed)
            except LaunchError as error:
                failed(error.message)
            if self._tree.relays and self._acts():
                self._later = came[at + 1:]
                break
        if rising:
            self._transport.send(self._tree.parent, envelopes.up(rising))
        if self.leader is not None:
            self.hear([plain for rank, one in heard for plain in self.plain(rank, one)], failed)
        return bool(came)

    def _pass(self, source, data, rising):
        """Sends a message to ranks below, or adds it to those that go up. Returns what of it is for this rank."""
        tree, kind = self._tree, _kind(data)
        if kind in (envelopes.ALARM, envelopes.PARTED):
            return [(source, data)]
        if source != tree.parent:  # a rank below says it
            entries = envelopes.read_up(data) if kind == envelopes.UP else [(source, data)]
            if tree.parent is None:
                return entries
            rising += entries
            return []
        if kind == envelopes.TO_ONE:
            target, word = envelopes.read_to_one(data)
            if target == tree.rank:
                return [(0, word)]
            if 0 <= target < len(tree.hops) and tree.hops[target] >= 0:
                self._transport.send(tree.hops[target], data)
            return []
        for child in tree.children:
            self._transport.send(child, data)
        return [(0, data)]

    def hear(self, came, failed):
        """Hears messages of other ranks, [(rank, bytes)]; and words on rank 0 that it has given without its leader.

        Returns whether there are any. failed: as for `receive`.
        """
        for source, data in came:
            try:
                if _kind(data) == envelopes.PARTED:
                    self.parted.add(source)
                    continue
                if _kind(data) == envelopes.ALARM:
                    for message in messages.decode(data[1:]):
                        self._alarmed(message)
                    continue
                for message in messages.decode(data):
                    if self.leader is not None and not isinstance(message, Run):
                        self.leader.hear(source, message)
                    else:
                        self._hear(message)
            except LaunchError as error:
                failed(error.message)
        if self.leader is not None and came:
            try:
                self.leader.decide()
            except LaunchError as error:
                failed(error.message)
        return bool(came)


def _kind(data):
    return data[0] if data else None
