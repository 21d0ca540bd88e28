"""Steps in flight that have looked up rows of a table: none of these rows may be taken from its key (bridge_pins.h)."""
import ctypes
from typing import Any, NamedTuple, Optional

from sok1x.graph_ops.bridge.errors import CallError


class Pinned(NamedTuple):
    """Of a table.

    Attributes:
      since: how many lookups have been counted after the first of the step that has been in flight for the longest.
      steps: how many steps are in flight.
    """

    since: int
    steps: int


def look(request: Any, table: str, rows: int) -> None:
    """Counts a lookup of a table, and has its step be in flight from it on, until TensorFlow ends the step.

    Args:
      table: its name. rows: which of the request's variables its rows are.

    Raises:
      CallError: TensorFlow does not say when this run ends.
    """
    code = request.library.pin(request.handle, rows)
    if code:
        raise CallError(code, (
            "embedding table '{}' forgets rows, and cannot know when the run of '{}' ends, until which its rows must "
            "stay; look it up in a session.run of tf.Session").format(table, request.name))


def of(request: Any, rows: int) -> Optional[Pinned]:
    """What is in flight of the table whose rows are the request's variable `rows`; None where no step is."""
    steps = ctypes.c_int64()
    since = request.library.pinned_since(request.handle, rows, ctypes.byref(steps))
    return None if since < 0 else Pinned(since, steps.value)
