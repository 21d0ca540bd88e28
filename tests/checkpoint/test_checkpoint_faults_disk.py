"""The disk is full during a save: an error on all ranks, the checkpoint before is as it was, no half is left."""
import json
import os
import re
import subprocess

import counted_model
import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
MPIEXEC = ["mpiexec", "--oversubscribe", "-np", "2"]
NO_SPACE = r"No space left to write (\S+): it needs (\d+) bytes, and (\d+) bytes are free"
# Runs a command while a small disk is in a folder; then the disk's content is copied to another one.
ON_A_DISK = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
disk=$2 copy=$3
shift 3
"$@"
code=$?
cp -a "$disk"/. "$copy"
exit $code
"""


@pytest.fixture
def disk(tmp_path):
    """(folder of the disk, folder that its content is copied to, size -> launcher)."""
    folder, copy = tmp_path / "disk", tmp_path / "copy"
    folder.mkdir()
    copy.mkdir()
    # In a namespace of its own: nothing has to be unmounted. A user who is not root may be root of one.
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        command = unshare + ["sh", "-c", ON_A_DISK, "sh"]
        if subprocess.call(command + ["1m", str(folder), str(copy), "true"], stderr=subprocess.DEVNULL) == 0:
            return str(folder), str(copy), lambda size: command + [size, str(folder), str(copy)] + MPIEXEC
    return pytest.skip("no disk can be mounted here: neither unshare -m nor unshare -rm may")


def test_training_stops(disk, tmp_path):
    folder, copy, launcher = disk
    # Two checkpoints of 3 MB have room, and no third.
    program, model = os.path.join(HERE, "program_kill.py"), (20000, 16)
    finished = run_ranks(2, program, os.path.join(folder, "saved"), *model, launcher=launcher("8m"), check=False)
    assert finished.code not in (0, 99), str(finished)
    path, wanted, free = re.search(NO_SPACE, finished.err).groups()
    assert path.startswith(folder) and int(wanted) > 4096 and int(free) < 4 << 20, str(finished)
    assert "NoSpaceError" in finished.err
    saved = [int(number) for number in re.findall(r"^saved 0 (\d+)$", finished.out, re.MULTILINE)]
    assert saved, str(finished)
    assert counted_model.leftovers(os.path.join(copy, "saved")) == []
    assert counted_model.check_folder(os.path.join(copy, "saved")) == saved[-1]
    # With space there, training goes on.
    resumed = run_ranks(2, program, os.path.join(copy, "saved"), *model, "none", saved[-1] + 2)
    assert "restored 1 {}\n".format(saved[-1]) in resumed.out
    assert counted_model.check_folder(os.path.join(copy, "saved")) == saved[-1] + 2


def test_wherever_it_is_full(disk, tmp_path):
    folder, _, launcher = disk
    out = str(tmp_path / "report")
    run_ranks(2, os.path.join(HERE, "program_disk.py"), folder, out, launcher=launcher("16m"))
    zero, one = [read("{}-{}.json".format(out, rank)) for rank in range(2)]
    assert list(zero) == list(one)
    sizes = [case for case in zero if case.startswith("free")]
    full = [case for case in sizes if zero[case][0]]
    assert full + sizes[-1:] == sizes[:len(full)] + sizes[-1:] and len(full) >= 5 and not zero[sizes[-1]][0]
    paths = {expect_no_space(case, zero[case], one[case]) for case in full}
    assert len(paths) >= 3, "the end was met in few places: {}".format(paths)
    # Rank 0 had room for what is its own, if it came before rank 1 had filled the disk.
    assert expect_no_space("rank 1", zero["rank 1"], one["rank 1"]).endswith(".1-of-2.rows")
    assert one["rank 1"][0][0] == "NoSpaceError"
    assert zero["rank 1"][0][0] == "NoSpaceError" or zero["rank 1"][1].startswith("Rank 1: ")
    assert zero["after"] == one["after"] == [[], "", []]
    assert expect_no_space("start", zero["start"], one["start"]).endswith("graph.pbtxt")


def read(path):
    with open(path) as file:
        return json.load(file)


def expect_no_space(case, *reports):
    """Checks what the ranks report of a save; the name of the file that the rank without space names."""
    named = set()
    for classes, message, left in reports:
        assert "CheckpointError" in classes and left == [], (case, classes, message, left)
        found = re.match(r"(Rank \d: )?" + NO_SPACE, message)
        assert found, (case, message)
        named.add(os.path.basename(found.group(2)))
    assert any("NoSpaceError" in classes for classes, _, _ in reports), case
    return sorted(named)[-1]
