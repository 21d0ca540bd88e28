"""How much memory is left in the control groups that a process is in, and in those around; files as Linux has them."""
import builtins
import io
import os
import subprocess
import sys
import types

import pytest
from ranks import environment

from sok1x.graph_ops.stores import host_left

NAMES = {2: ("memory.max", "memory.current", "inactive_file"),
         1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")}
MOUNT = "{number} 23 0:32 {root} {point} rw,relatime shared:9 - {kind} {options}\n"
NO_LIMIT = {2: "max", 1: str(2 ** 63 - 4096)}


def mounted(version, root="/", point=None):
    point = point or "/sys/fs/cgroup" + ("/memory" if version == 1 else "")
    return MOUNT.format(number=31 + version, root=root, point=point, kind="cgroup2" if version == 2 else "cgroup",
                        options="cgroup2 rw" if version == 2 else "cgroup rw,memory")


def files(version, folder, limit, used, inactive):
    return {os.path.join(folder, name): text for name, text in zip(
        [*NAMES[version][:2], "memory.stat"], [str(limit), str(used), "cache 7\n{} {}\n".format(
            NAMES[version][2], inactive)])}


def left(monkeypatch, mounts, groups, *found):
    """What is left; found: files, dicts."""
    known = {"/proc/meminfo": "MemAvailable: 4000 kB\n", "/proc/self/mountinfo": MOUNT.format(
        number=1, root="/", point="/", kind="ext4", options="/dev/sda rw,memory") + mounts, "/proc/self/cgroup": groups}
    for each in found:
        known.update(each)

    def opened(path, **how):
        if path in known and known[path] is not None:
            return io.StringIO(known[path])
        if path.startswith(("/sys/fs/cgroup", "/proc/")):
            raise FileNotFoundError(path)
        return builtins.open(path, **how)

    monkeypatch.setattr(host_left, "open", opened, raising=False)
    return host_left.available()


GROUPS = {2: "0::/slurm/job_7/step_0\n",
          1: "9:name=systemd:/\n4:cpu,memory:/slurm/job_7/step_0\n3:cpu:/elsewhere\n0::/slurm\n"}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("limits, expected", [
    # Limits of the root, /slurm, job_7 and step_0, of which each has used 900000 and can give back 100000.
    ((None, None, None, 1000000), 200000), ((None, None, 1500000, None), 700000), ((None, 1200000, 1500000, 1600000),
                                                                                    400000),
    ((1100000, None, None, None), 300000), ((None, None, None, 10), 0), ((None, None, None, None), 4096000),
    ((None, None, None, 10 ** 9), 4096000)])
def test_the_least_of_all_groups_around_it(monkeypatch, version, limits, expected):
    folder, found = "/sys/fs/cgroup" + ("/memory" if version == 1 else ""), {}
    for name, limit in zip(("", "slurm", "job_7", "step_0"), limits):
        folder = os.path.join(folder, name).rstrip("/")
        found.update(files(version, folder, NO_LIMIT[version] if limit is None else limit, 900000, 100000))
    found.update(files(version, "/sys/fs/cgroup/memory/elsewhere", 5, 0, 0))
    assert left(monkeypatch, mounted(version), GROUPS[version], found) == expected
    said = host_left.said(10, types.SimpleNamespace(local_size=2))
    assert said.startswith("{} bytes of the host's memory are left, of which 20 are kept".format(expected)), said
    fewest = [name for limit, name in zip(limits, ("/cgroup", "/slurm", "/job_7", "/step_0"))
              if limit is not None and limit - 800000 <= expected]
    assert ("control group" in said) == bool(fewest), said
    assert all(name in said for name in fewest), said


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("root, group, folder", [
    ("/docker/ab", "/docker/ab", ""), ("/docker/ab", "/docker/ab/inner", "/inner"),  # it sees the host's names
    ("/", "/", ""), ("/", "/inner", "/inner"), ("/docker/a", "/docker/ab", ""), ("/docker/ab", "/", ""),
    ("/..", "/../other", ""), ("/", "/../../other", "")])  # who is outside of what is mounted
def test_a_container_that_mounts_a_part(monkeypatch, version, root, group, folder):
    at = "/sys/fs/cgroup/mem ory"
    mounts = mounted(version, root, at.replace(" ", "\\040"))
    of_process = "0::{}\n".format(group) if version == 2 else "5:memory:{}\n".format(group)
    found = files(version, at + folder, 1000000, 900000, 0)
    if folder:
        found.update(files(version, at, 2000000, 900000, 0))
    assert left(monkeypatch, mounts, of_process, found) == 100000


def test_both_versions_and_the_one_that_lies_above(monkeypatch):
    hybrid = mounted(1) + mounted(2, point="/sys/fs/cgroup/unified")
    found = files(1, "/sys/fs/cgroup/memory/slurm/job_7/step_0", 1000000, 900000, 0)
    assert left(monkeypatch, hybrid, GROUPS[1], found) == 100000
    assert left(monkeypatch, hybrid, GROUPS[1], found, files(
        2, "/sys/fs/cgroup/unified/slurm", 950000, 900000, 0)) == 50000
    over = mounted(1) + mounted(1, root="/slurm/job_7")  # at the same place
    found.update(files(1, "/sys/fs/cgroup/memory/step_0", 980000, 900000, 0))
    assert left(monkeypatch, over, GROUPS[1], found) == 80000


def test_a_group_of_others_that_is_mounted_too(monkeypatch):
    """As by `docker run -v /sys/fs/cgroup/other:/mnt/other`."""
    found = files(2, "/mnt/other", 1000000, 900000, 0)
    found.update(files(2, "/sys/fs/cgroup", 3000000, 1000000, 0))
    for root in ("/other", "/../other"):
        mounts = mounted(2) + mounted(2, root, "/mnt/other")
        assert left(monkeypatch, mounts, "0::/\n", found) == 2000000


@pytest.mark.parametrize("mounts, groups", [(None, None), ("", ""), (None, GROUPS[2]), ("1 2 3\n", "0:\n")])
def test_without_a_word_of_where_they_are(monkeypatch, mounts, groups):
    found = dict(files(2, "/sys/fs/cgroup", 1000000, 900000, 0))
    found.update({name: text for name, text in (("/proc/self/mountinfo", mounts), ("/proc/self/cgroup", groups))})
    assert left(monkeypatch, "", "", found) == 100000


LEFT = """
import os, sys
from sok1x.graph_ops.stores import host_left

memory = bytearray(os.urandom(1 << 20)) * 40
print(host_left.available() >> 20)
"""


def _own_group():
    """The folder of the group of version 1 that this process is in; None where there is none that can have others."""
    try:
        with open("/proc/self/cgroup") as lines:
            group = [line.strip().split(":", 2)[2] for line in lines if "memory" in line.split(":")[1].split(",")][0]
        folder = "/sys/fs/cgroup/memory" + group
        return folder if os.access(os.path.join(folder, "memory.limit_in_bytes"), os.W_OK) else None
    except (OSError, IndexError):
        return None


@pytest.mark.skipif(_own_group() is None, reason="no control group of version 1 can be made")
def test_a_group_as_slurm_makes_them():
    step = os.path.join(_own_group(), "sok1x_test_{}".format(os.getpid()), "step")
    try:
        os.makedirs(step)
        with open(os.path.join(os.path.dirname(step), "memory.limit_in_bytes"), "w") as file:
            file.write(str(1 << 30))
        done = subprocess.run(
            ["bash", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', step, sys.executable, "-c", LEFT],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
        assert done.returncode == 0, done.stderr.decode()
        assert 300 < int(done.stdout) <= 1024 - 40, done.stdout
    finally:
        for folder in (step, os.path.dirname(step)):
            if os.path.isdir(folder):
                os.rmdir(folder)
