"""Outcomes that all ranks share of what each does by itself inside an op that communicates."""
from typing import Any, Callable

from sok1x.graph_ops.bridge.errors import CallError, status_of
from sok1x.launch.errors import LaunchError


def agree(world: Any, code: int = 0, message: str = "") -> None:
    """Raises on all ranks where one of them has failed with `code`; all call it in one exchange."""
    if world.size == 1:
        if code:
            raise CallError(code, message)
        return
    failed = world.communicator.agree(code, message)
    if failed is not None:
        raise CallError(failed.code, str(failed), agreed=True)


def agreed(world: Any, work: Callable[[], Any]) -> None:
    """Calls `work`; where it fails on any rank, raises on all ranks what the first of them says. All ranks call it.

    There is no exchange inside `work`: a rank that fails before one would leave the others in it. Memory for exchanges
    is taken inside, and they follow outside.

    An exchange that fails inside is no outcome to agree on, for the ranks no longer do the same: it passes through.
    """
    code, message = 0, ""
    try:
        work()
    except LaunchError:
        raise
    except Exception as error:  # whatever it is, the other ranks must hear of it
        code, message = status_of(error)
        if not isinstance(error, CallError):  # which name the rank themselves
            message = "on {}: {}".format(world.name, message)
    agree(world, code, message)
