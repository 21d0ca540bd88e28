"""A failure of the job as one rank knows it: from when it fails here, or is heard of, until nothing waits any more.

All ranks name the first failure, which is the one that rank 0 hears first: its word counts, also over a failure of
this rank's own. Without that word a rank goes on after some seconds.
"""
import threading

from . import messages
from .errors import INTERNAL, LaunchError

# Seconds that a rank waits for rank 0's answer where it can also go on without.
ANSWER_SECONDS = 2.0


class JobFailure:
    """One rank's. All methods but `fail` belong to the executor thread.

    Args:
        rank: This rank.
        channel: The Channel, by which rank 0 is told.
        announcements: The Announcements, which fail with the job.
        transport: See coordinator.
        clock: Function giving seconds.

    Attributes:
        error: None, or the LaunchError with which every request must fail from now on.
        on_error: None, or a function (LaunchError) called once when the job has failed, on the thread that noticed.
    """

    def __init__(self, rank, channel, announcements, transport, clock):
        self.error = self.on_error = None
        self._rank, self._channel, self._announcements = rank, channel, announcements
        self._transport, self._clock = transport, clock
        self._lock = threading.Lock()
        self._to_tell = None    # a failure of our own that rank 0 has not been told
        self._settle_at = None  # when undecided ops fail without the leader's word
        self._alarm = None      # a failure that has come without the tree, and until when the word may follow

    def fail(self, message, code=INTERNAL, rank=None):
        """Fails the job on all ranks, with a message that names `rank` (None: this one). Any thread may call it."""
        with self._lock:
            if self.error is not None:
                return
            self.error = self._to_tell = LaunchError(code, message, self._rank if rank is None else rank)
        if self.on_error is not None:
            self.on_error(self.error)

    def fail_here(self, error):
        """Fails the job without waiting for the leader's word."""
        with self._lock:
            known = self.error is not None
            if not known:
                self.error = error
        self.fail_waiting(self.error)
        if not known:
            if not self._transport.closed:
                self._channel.say(messages.Failed(error))
            if self.on_error is not None:
                self.on_error(error)

    def fail_waiting(self, error):
        """Fails all announcements that have no answer: none will come."""
        self._settle_at = None
        self._announcements.fail_all(error)

    def tell(self):
        """Tells rank 0 of a failure of our own that it has not been told."""
        if self._to_tell is None:
            return
        with self._lock:
            error, self._to_tell = self._to_tell, None
        # Decisions to run may be on their way, and the other ranks run them: what is undecided fails only when the
        # leader's answer says that no more will come.
        self._settle_at = self._clock() + ANSWER_SECONDS
        self._channel.say(messages.Failed(error))

    def heard(self, word):
        """Takes the leader's word (messages.JobFailed)."""
        with self._lock:
            # The leader's word counts, also over a failure of our own: all ranks name the first one.
            first, self.error = self.error is None, word.error
        self.fail_waiting(word.error)
        if first and self.on_error is not None:
            self.on_error(word.error)

    def alarmed(self, message):
        """Takes a failure that has come without the tree: the word may follow."""
        if self.error is None and self._alarm is None:
            self._alarm = message, self._clock() + ANSWER_SECONDS

    @property
    def settled(self):
        """Whether it has failed, and no announcement made before that is decided any more."""
        return self.error is not None and self._to_tell is None and self._settle_at is None

    def check(self, now):
        """Goes on without words of the leader that have not come in time. now: the clock, seconds."""
        if self._settle_at is not None and now >= self._settle_at:
            self.fail_waiting(self.error)
        if self._alarm is not None and now >= self._alarm[1]:
            (message, _), self._alarm = self._alarm, None
            if self.error is None:
                self._raise_alarm(message)

    def _raise_alarm(self, message):
        """The way of a failure's word is blocked."""
        if type(message) is messages.JobFailed:
            self.heard(message)
        elif self._channel.leader is not None:
            self._channel.leader.fail(message.error)
