"""Whether a job in which every rank waits can still go on.

That every rank waits for an op which another has not announced proves nothing: a rank may be busy with what comes
before that op, in another branch of its graph or on another thread. So rank 0 asks, and each rank looks at itself
(stillness.py). A job in which nothing has moved on any rank for some seconds ends; at once, if each rank has but one
thread and that one waits in an eager call, after which alone anything else can come.
"""
from .errors import DEADLINE_EXCEEDED, LaunchError, is_eager, same_steps
from .hosts import rank_list, starting
from .messages import Ask

_ASK_SECONDS = 0.25


class DeadlockWatch:
    """The leader's questions and the ranks' answers.

    Args:
        size: Number of ranks.
        tell_all: Function (word): tells every rank.
    """

    def __init__(self, size, tell_all):
        self._size, self._tell_all = size, tell_all
        self._serial = 0
        self._asked_at = None
        self._still_since, self._answered_at = {}, {}
        self._eager = set()  # ranks that have nothing but an eager call

    @property
    def certain(self):
        """Whether all ranks have answered that nothing but an eager call waits there."""
        return len(self._eager) == self._size

    def changed(self):
        """Something has moved: what has been answered counts no more."""
        if self._asked_at is not None:
            self._asked_at = None
            self._serial += 1
            self._still_since.clear()
            self._answered_at.clear()
            self._eager.clear()

    def still_seconds(self, now):
        """Asks all ranks, now and then; returns for how long nothing has moved on any of them (float)."""
        if self._asked_at is None or now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            self._tell_all(Ask(self._serial))
        if len(self._still_since) < self._size:
            return 0.0
        # An answer that is old says nothing of now: what its rank has announced since may be under way, for as long as
        # the network takes. A new one has come after all that.
        return min(self._answered_at.values()) - max(self._still_since.values())

    def answered(self, rank, answer, now):
        """Takes a rank's Answer."""
        if answer.serial == self._serial and self._asked_at is not None:
            self._answered_at[rank] = now
            (self._eager.add if answer.eager else self._eager.discard)(rank)
            if answer.still:
                self._still_since.setdefault(rank, now)
            else:
                self._still_since.pop(rank, None)


def deadlock_error(pairing, plans, seconds, limit, certain=False):
    """The error with which such a job ends: where each rank waits, and how the ranks' graphs differ.

    Args:
        pairing: The Pairing; every rank waits in it.
        plans: The PlanBook.
        seconds, limit: For how long nothing has moved, and what was set.
        certain: Whether each rank waits in an eager call, its only one.
    """
    oldest = {}
    for op in sorted(pairing.pending.values(), key=lambda op: op.since):
        for rank in op.waiting():
            oldest.setdefault(rank, op)
    text = ["the ranks have called different ops eagerly, and each of them waits for the others to call its own."
            if certain else
            "every rank waits for an op that another rank does not run, and nothing has moved on any of them for "
            "{:.0f} s (SOK1X_DEADLOCK_SECONDS={:g}).".format(seconds, limit)]
    text += ["{} waits in op '{}', which {} did not announce.".format(
        starting(rank), op.name, rank_list(op.missing())) for rank, op in sorted(oldest.items())]
    waited_for = set(oldest.values())
    if certain and len({op.name for op in waited_for}) < len(waited_for):
        text.append("Those of one name differ in their arguments: tables, combiners, whether there are weights, or "
                    "whether they train; of EvenSteps, parts and dtypes of the batches.")
    if certain:
        text.append("Every rank must call the same layers, in one order and equally often.")
    elif is_eager(oldest[0].key):
        text.append("Every rank must call the same layers and functions, in one order and equally often. " +
                    same_steps(oldest[0].key))
    else:
        text.append("Every rank must run the same ops in the same session.runs, in graphs built alike, and be chief in "
                    "its MonitoredTrainingSession. " + same_steps(oldest[0].key))
    if any(not one.key.instance.may_meet(other.key.instance) for one in oldest.values() for other in oldest.values()):
        text.append("Here gradients by which an optimizer steps on some ranks are only fetched on others: a step that "
                    "one rank alone takes, or leaves out, would be half a step.")
    places = [pairing.place_of(rank, op) for rank, op in sorted(oldest.items())]
    lengths = {plans.length(*place) for place in places}
    difference = plans.mismatch(oldest[0].name, places)
    if difference.rank >= 0 and None not in lengths:
        # Those whose only graphs differ have been told before. What a rank waits in may be of another one of its
        # graphs, as where one saves and one trains.
        text.append("(unless the ranks are at different places of graphs that they have built alike, {})".format(
            difference.message))
    return LaunchError(DEADLINE_EXCEEDED, " ".join(text), -1)
