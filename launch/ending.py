"""Where a job stops that has been told to end: one place for all ranks, agreed on while none of them waits.

Any rank may be told (by a signal, say), several at a time too. Rank 0 asks all how far they may have come by the end of
what they are doing; executors answer, whatever their programs wait for; and the furthest place is the word for all.
Who has answered stays before that place until the word has come.
"""
from . import messages

NOWHERE = -1  # of a rank whose program has not begun, or has no place to stop at


class Ending:
    """The leader's part.

    Args:
        size: Number of ranks N.
        tell_all: Function (word), the word for every rank.
    """

    def __init__(self, size, tell_all):
        self._size, self._tell_all = size, tell_all
        self._asked = self._agreed = False
        self._places = {}

    def noticed(self, _, message):
        """A rank has been told to end."""
        if not self._asked:
            self._asked = True
            self._tell_all(messages.AskPlace())

    def reached(self, rank, message):
        """A rank's answer."""
        self._places[rank] = message.place
        self._agree()

    def left(self, rank):
        """A rank has left, and will answer no more."""
        self._places.setdefault(rank, NOWHERE)
        self._agree()

    def _agree(self):
        if self._asked and not self._agreed and len(self._places) == self._size:
            self._agreed = True
            self._tell_all(messages.EndAt(max(self._places.values())))


class Notice:
    """A rank's part. What it knows may be read on any thread.

    Args:
        say: Function (message), to rank 0.

    Attributes:
        reached: Function giving this rank's place, an int: the furthest that it may come by the end of what it is
            doing. Set by whom the notice concerns.
        asked: Somebody has been told to end: nothing new is to begin until `end_at` is known.
        end_at: None, or the place at which all ranks stop.
    """

    def __init__(self, say):
        self._say, self._tell = say, False
        self.reached = lambda: NOWHERE
        self.asked, self.end_at = False, None

    def give(self):
        """Says that this rank has been told to end. Any thread, and a signal's handler, may call it, and again."""
        self._tell = not self.asked

    def poll(self):
        """To be called now and then by the executor: tells rank 0."""
        if self._tell:
            self._tell = False
            self._say(messages.Noticed())

    def answer(self, _):
        """Rank 0 asks."""
        self.asked = True  # before the place is looked at: who goes on meanwhile sees this
        self._say(messages.Reached(self.reached()))

    def agreed(self, word):
        """Rank 0's word."""
        self.end_at = word.place
