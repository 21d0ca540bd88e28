"""The one exception of this folder: a status code as TensorFlow numbers them, a rank, and a message for users."""

CANCELLED = 1
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
INTERNAL = 13
UNAVAILABLE = 14

_SAME_STEPS = "Every rank must run the same number of steps: where the ranks' data differ in length, "
_IN_GRAPHS = "take batches from sok.EvenSteps(dataset), which gives empty ones until all ranks have none left."
_EAGERLY = ("loop over sok.EvenSteps(dataset), which gives empty batches until all ranks have none left, and leave the "
            "loop on all ranks, or on none; or repeat them and take as many batches on all ranks, as in "
            "dataset.repeat().take(steps), where `steps` is one number for all.")


def is_eager(op):
    """Whether an op waits in eager execution, or in a function that is called from there.

    Args:
        op: What is known of it: its `index` and `digest`. Such ops have no place in a graph, and an index that is made
            of the digest (plan.py).
    """
    return op.index == op.digest >> 1


def same_steps(op):
    """What to do where some ranks have ended and others go on. `op`: As for `is_eager`."""
    return _SAME_STEPS + (_EAGERLY if is_eager(op) else _IN_GRAPHS)


class LaunchError(Exception):
    """A failure that can travel between ranks and that the bridge turns into the matching `tf.errors` class.

    Failures of the whole job carry INTERNAL, not ABORTED or UNAVAILABLE: `MonitoredTrainingSession` answers those
    two by making a new session and trying again, for ever.

    Args:
        code: Status code, one of this module's constants (the numbers are TensorFlow's `error::Code`).
        message: What the user reads. Of a file's name that is no UTF-8 the bytes are written out: others hear of it.
        rank: The rank where it happened, or -1 where no single rank is meant.
    """

    def __init__(self, code, message, rank=-1):
        message = str(message).encode("utf-8", "backslashreplace").decode("utf-8")
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.rank = int(rank)

    def __str__(self):
        return self.message

    def __repr__(self):
        return "LaunchError(code={}, rank={}, message={!r})".format(self.code, self.rank, self.message)

    def __reduce__(self):
        return LaunchError, (self.code, self.message, self.rank)
