"""The way between this rank and rank 0: messages there, words back; on rank 0 itself, to the leader and from it."""
from . import messages
from .bundles import Run
from .errors import LaunchError


class Channel:
    """Says and hears. What is said in one turn goes in one message.

    Args:
        rank, size: This rank, and N.
        transport: See coordinator.
        hear: Function (word), called for each word of rank 0.
    """

    def __init__(self, rank, size, transport, hear):
        self._rank, self._size, self._transport, self._hear = rank, size, transport, hear
        self._said = []
        self.leader = None  # on rank 0, the Leader
        self.through = None  # a function ([(rank, bytes)]), which hears what comes first; it calls `hear` in its turn

    @property
    def unsent(self):
        """Whether something said waits for `send`."""
        return bool(self._said)

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
            self._transport.send(0, messages.encode(*said))

    def tell(self, rank, word):
        """The leader's word for one rank."""
        if rank == 0:
            self._hear(word)
        else:
            self._transport.send(rank, messages.encode(word))

    def tell_all(self, word):
        """The leader's word for all ranks."""
        data = messages.encode(word)
        for rank in range(1, self._size):
            self._transport.send(rank, data)
        self._hear(word)

    def receive(self, failed):
        """Hears all that has come, then has the leader decide. Returns whether anything has come.

        Args:
            failed: Function (message), called for each failure.
        """
        came = self._transport.receive()
        if came and self.through is not None:
            self.through(came)
            return True
        return self.hear(came, failed)

    def hear(self, came, failed):
        """Hears messages of other ranks, [(rank, bytes)]; and words on rank 0 that it has given without its leader.

        Returns whether there are any. failed: as for `receive`.
        """
        for source, data in came:
            try:
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
