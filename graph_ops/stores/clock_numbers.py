"""What is known of tables' clocks (clock.py) without reading the variables. C++ sees it too (groups/lane_op.h)."""
import ctypes
from typing import Any, Dict

# Places: the run that the clock has counted last, 0 for none (runs of all sessions have different numbers); when rows
# were last stamped, and when that is next to be noted (step_times.py), moments in microseconds.
RUN, STAMPED, DUE = range(3)
_counted: Dict[str, Any] = {}


def counted(table: str) -> Any:
    """int64 [3]: of the clocks of all tables of that name, which sessions may have one each of."""
    return _counted.setdefault(table, (ctypes.c_int64 * 3)())
