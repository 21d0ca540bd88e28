"""Memory that the host can still give, which is asked for before tables there get more rows.

The system refuses nothing: memory that it has promised and cannot give ends the process when it is first written. So
what is left must hold what is about to be promised, and what saving the model then takes. Where a table can do with
less it gets less, unless there is twice as much for each rank of the host: they grow at the same time, and other tables
may have been promised memory that they have not written yet.
"""
import os
import re
from typing import Any, Dict, Iterator, List, Tuple

_NO_LIMIT = 2 ** 62
_FOR_SAVING = 1 << 27
_FOR_A_ROW = 24  # bytes, of a table that forgets, to save it
# Files of control groups, by version: the limit, what is used, and in memory.stat what of that is given back when it is
# needed, as files that have been read.
_FILES = {2: ("memory.max", "memory.current", ("inactive_file", "active_file", "slab_reclaimable")),
          1: ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))}
_USUAL = {"/sys/fs/cgroup": (2, "/"), "/sys/fs/cgroup/memory": (1, "/")}  # where they are if nothing says so
_MOUNT = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .*- cgroup(2?) \S+ (\S+)$", re.MULTILINE)
_GROUP = re.compile(r"^\d+:([^:]*):(/.*)$", re.MULTILINE)


def available() -> int:
    """Bytes that the system, and the control groups that the process is in, can still give without swapping.

    A container is such a group, and a job of a batch system, or a step of it; each may lie in others.
    """
    return _least()[0]


def _least() -> Tuple[int, str]:
    """What `available` says, and the folder of the group that has no more; "" where it is the system."""
    left: List[Tuple[int, str]] = [(_NO_LIMIT, "")]
    with open("/proc/meminfo") as lines:
        left += [(1024 * int(line.split()[1]), "") for line in lines if line.startswith("MemAvailable:")]
    for version, folder in _groups():
        limit, used, given_back = _FILES[version]
        try:
            most = _text(os.path.join(folder, limit)).strip()
            if most == "max" or int(most) >= _NO_LIMIT:
                continue
            now, stat = int(_text(os.path.join(folder, used))), _text(os.path.join(folder, "memory.stat"))
            cached = [int(line.split()[1]) for line in stat.splitlines() if line.startswith(given_back)]
            left.append((max(0, int(most) - now + sum(cached)), folder))
        except (OSError, ValueError):
            continue
    return min(left)


def _groups() -> Iterator[Tuple[int, str]]:
    """(version, folder) of each, outwards as far as they can be seen: a container may see its own part alone."""
    mounts: Dict[str, Tuple[int, str]] = {}  # folder -> (version, the group that is seen there)
    own: Dict[int, str] = {}  # version -> the group that the process is in
    try:
        for root, point, second, options in _MOUNT.findall(_text("/proc/self/mountinfo")):
            if second or "memory" in options.split(","):
                mounts[_unescaped(point)] = 2 if second else 1, _unescaped(root)
        for controllers, group in _GROUP.findall(_text("/proc/self/cgroup")):
            if not controllers or "memory" in controllers.split(","):
                own[1 if controllers else 2] = group
    except OSError:
        pass
    holds = {point: (own.get(version, "/") + "/").startswith(root.rstrip("/") + "/")
             for point, (version, root) in mounts.items()}
    seen = {version for point, (version, _) in mounts.items() if holds[point]}
    for point, (version, root) in {**_USUAL, **mounts}.items():
        held = holds.get(point, True)
        if not held and version in seen:
            continue  # a group beside the process's, which somebody has put there
        inside = own.get(version, "/")[len(root.rstrip("/")):].strip("/") if held else ""
        while inside and ".." not in inside.split("/"):
            yield version, os.path.join(point, inside)
            inside = os.path.dirname(inside)
        yield version, point


def _text(path: str) -> str:
    with open(path, errors="surrogateescape") as file:
        return str(file.read())


def _unescaped(path: str) -> str:
    """As the system has it: there blanks are numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


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
    left, group = _least()
    return "{} bytes of the host's memory are left, of which {} are kept for saving, {} for each of {} ranks{}".format(
        left, kept * world.local_size, kept, world.local_size,
        group and " (so little is left of the limit of the control group {})".format(group))
