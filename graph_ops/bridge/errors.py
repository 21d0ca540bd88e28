"""The error that an operation raises to fail its op with a chosen `tf.errors` class."""
import traceback

from sok1x.launch.errors import LaunchError

CANCELLED = 1
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
INTERNAL = 13


class CallError(Exception):
    """Fails the op that raises it.

    Args:
      code: the status code, which decides the class in `sess.run` (3: `InvalidArgumentError`, 8:
        `ResourceExhaustedError`, 9: `FailedPreconditionError`, ...).
      message: what the user reads first.
      agreed: whether every rank raises the same error at this point. An error in the middle of an exchange that only
        one rank knows of cannot be survived: the others already wait for its data.
    """

    def __init__(self, code, message, agreed=False):
        super().__init__(message)
        self.code = code
        self.message = message
        self.agreed = agreed


def status_of(error):
    """(code, message) for any exception that an operation let out."""
    if isinstance(error, (CallError, LaunchError)):
        return error.code, str(error)
    if isinstance(error, MemoryError):
        return RESOURCE_EXHAUSTED, "sok1x: out of memory: {}".format(error)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return INTERNAL, "sok1x: {}: {}\n{}".format(type(error).__name__, error, text)
