"""Memory that the host can still give, which is asked for before tables there get more rows.

The system refuses nothing: memory that it has promised and cannot give ends the process when it is first written. So
what is left must hold what is about to be promised, and what saving the model then takes. Where a table can do with
less it gets less, unless there is twice as much for each rank of the host: they grow at the same time, and other tables
may have been promised memory that they have not written yet.
"""
from typing import Any, List

_NO_LIMIT = 2 ** 62
_FOR_SAVING = 1 << 27
_FOR_A_ROW = 24  # bytes, of a table that forgets, to save it
# Files of control groups, versions 2 and 1: the limit, what is used, and in what that is, what is given back when it is
# needed, as files that have been read.
_OF_CONTAINERS = (
    ("memory.max", "memory.current", "memory.stat", ("inactive_file", "active_file", "slab_reclaimable")),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
     ("total_inactive_file", "total_active_file")))


def available() -> int:
    """Bytes that the system, and the container that the process is in, can still give without swapping."""
    left: List[int] = [_NO_LIMIT]
    with open("/proc/meminfo") as lines:
        left += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for limit, used, stat, given_back in _OF_CONTAINERS:
        try:
            with open("/sys/fs/cgroup/" + limit) as a, open("/sys/fs/cgroup/" + used) as b, \
                    open("/sys/fs/cgroup/" + stat) as c:
                most, now = a.read().strip(), int(b.read())
                cached = [int(line.split()[1]) for line in c if line.split()[0] in given_back]
            if most != "max":
                left.append(int(most) - now + sum(cached))
        except (OSError, ValueError):
            continue
    return max(0, min(left))


def kept_for_saving(table: Any, rows: int) -> int:
    """Bytes that saving takes, with a table of so many rows."""
    return _FOR_SAVING + (_FOR_A_ROW * rows if table.forgetting is not None else 0)


def allows(more: int, kept: int, world: Any, at_least: bool) -> bool:
    """Whether a table may get more memory.

    Args:
      more: bytes. kept: bytes that must be left for each rank. world: has the ranks of this host.
      at_least: whether the table cannot do with less.
    """
    # What others have grown by already is no more there: as in a restore, in which ranks come one after the other.
    wanted = more if at_least else 2 * more * world.local_size
    return bool(wanted + kept * world.local_size <= available())


def said(kept: int, world: Any) -> str:
    """What is left, for an error."""
    return "{} bytes of the host's memory are left, of which {} are kept for saving, {} for each of {} ranks".format(
        available(), kept * world.local_size, kept, world.local_size)
