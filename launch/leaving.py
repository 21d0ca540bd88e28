"""How a rank leaves the others, who may go on: it says so, and runs what was decided before. Its own part in that, and
what it hears of theirs; and, after a failure of the job, who has told its user.
"""
from . import messages
from .errors import CANCELLED, FAILED_PRECONDITION, LaunchError
from .hosts import named
from .job_failure import ANSWER_SECONDS


def finalised(rank):
    """What is said where MPI was finalised too early on a rank."""
    return ("{}: MPI was finalised while ops still waited for other ranks. If the program calls hvd.shutdown() or "
            "MPI.Finalize(), call it after the last use of sok1x; a Horovod that has started MPI finalises it on all "
            "ranks when one of them ends.").format(named(rank))


class Leaving:
    """One rank's. All methods belong to the executor thread.

    Args:
        rank: This rank.
        size: Number of ranks N.
        channel: The Channel, by which rank 0 is told.
        announcements: The Announcements.
        failure: The JobFailure.
        clock: Function giving seconds.

    Attributes:
        begun: `begin` has been called.
        left: After `begin`: nothing of this rank is pending any more; until then it must go on polling and running.
        all_left: Every rank has left.
        leader_left_at: None, or when rank 0 said that it has left, after which nobody may answer.
        all_ended: After a failure: every rank has called `end`.
        all_finalise: With `all_ended`: every rank finalises MPI as it ends.
    """

    def __init__(self, rank, size, channel, announcements, failure, clock):
        self.begun = self.left = self.all_left = self.all_ended = self.all_finalise = False
        self.leader_left_at = None
        self._rank, self._alone, self._channel, self._clock = rank, size == 1, channel, clock
        self._announcements, self._failure = announcements, failure
        self._begun_at, self._finalises = None, False

    @property
    def leader_is_gone(self):
        """Whether another rank, rank 0, has left: it may wait for nobody, and then it does not answer."""
        return self.leader_left_at is not None and self._rank != 0

    def begin(self, finalises=False):
        """Says that this rank will announce nothing more. Go on polling until `left`.

        Args:
            finalises: Whether it is because MPI is finalised: then announcing something fails the job.
        """
        if self.begun:
            return
        self.begun, self._finalises = True, finalises
        self._begun_at = self._clock()
        if self._alone:
            self.left = self.all_left = True
            return
        self._channel.say(messages.Leave())
        self._channel.send()
        self.left = self.left or not self._announcements.undecided

    def end(self, finalises):
        """After a failure of the job: says that this rank has told its user. `all_ended` comes when all have.

        Args:
            finalises: Whether it is going to finalise MPI, if all do.
        """
        if self._alone:
            self.all_ended, self.all_finalise = True, finalises
        else:
            self._channel.say(messages.Ended(finalises))
            self._channel.send()

    def refusal(self):
        """The LaunchError with which what is announced now fails at once, or None."""
        if self._finalises and self._failure.error is None:
            self._failure.fail(finalised(self._rank), FAILED_PRECONDITION)
        return self.error() if self.begun else self._failure.error

    def error(self):
        """The LaunchError with which what is pending fails when this rank has left."""
        return self._failure.error or LaunchError(
            CANCELLED, "the program ends on {}".format(named(self._rank)), self._rank)

    def check(self, now):
        """Goes on without rank 0's answer where that has not come in time. now: the clock, seconds."""
        if self.begun and now >= self._begun_at + ANSWER_SECONDS and not self.left:
            self.heard(None)

    def heard(self, _):
        """Rank 0 has heard it: nothing more will be decided."""
        self._failure.fail_waiting(self.error())
        self.left = True

    def leader_has_left(self, _):
        """Rank 0 says that it has left."""
        self.leader_left_at = self._clock()

    def all_have_left(self, _):
        """Rank 0 says that all have."""
        self.all_left = True

    def all_have_ended(self, word):
        """Rank 0 says that all have told their users of the failure."""
        self.all_ended, self.all_finalise = True, word.finalise
