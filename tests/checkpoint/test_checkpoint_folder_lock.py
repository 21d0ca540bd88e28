"""The lock on a folder of checkpoints: who holds it, and for how long."""
import os
import signal
import subprocess
import sys

import pytest

from sok1x.checkpoint.errors import LockedError
from sok1x.checkpoint.files import folder_lock
from sok1x.checkpoint.files.folder_lock import FolderLock

HOLD = """
import sys, time
from sok1x.checkpoint.files.folder_lock import FolderLock
lock = FolderLock(sys.argv[1]).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_tells_who_holds_it_and_ends_with_the_process(tmp_path):
    directory = str(tmp_path / "new" / "folder")
    other = subprocess.Popen([sys.executable, "-c", HOLD, directory], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        lock = FolderLock(directory)
        expected = r"Another job .* process {} on \S+ holds .*\.sok1x\.lock".format(other.pid)
        with pytest.raises(LockedError, match=expected):
            lock.acquire()
        assert not lock.held
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
        other.stdout.close()
    assert lock.acquire().held
    lock.release()
    assert not lock.held


def test_two_locks_of_one_process_exclude_each_other(tmp_path):
    with FolderLock(str(tmp_path)) as lock:
        assert lock.acquire() is lock
        with pytest.raises(LockedError, match="Another hook of this process .* process {}".format(
                os.getpid())):
            FolderLock(str(tmp_path)).acquire()
    with FolderLock(str(tmp_path)):
        pass


def test_who_asks_whether_it_is_held_leaves_it_as_it_is(tmp_path):
    assert not folder_lock.is_held(str(tmp_path)) and os.listdir(str(tmp_path)) == []
    assert not folder_lock.is_held(str(tmp_path / "none"))
    with FolderLock(str(tmp_path)) as lock:
        assert folder_lock.is_held(str(tmp_path)) and lock.held
        with pytest.raises(LockedError):
            FolderLock(str(tmp_path)).acquire()
    assert not folder_lock.is_held(str(tmp_path))
    (tmp_path / folder_lock.NAME).unlink()
    (tmp_path / folder_lock.NAME).symlink_to("elsewhere")
    assert folder_lock.is_held(str(tmp_path))  # nobody can tell


def test_a_lock_leaves_nothing_behind(tmp_path, monkeypatch):
    """What is registered for forked children stays until the process ends: a lock registers nothing of its own."""
    monkeypatch.setattr(os, "register_at_fork", lambda **functions: pytest.fail("registers {}".format(functions)))
    before = len(folder_lock._all)
    for _ in range(3):
        with FolderLock(str(tmp_path)):
            assert len(folder_lock._all) == before + 1
    assert len(folder_lock._all) == before


FORK = """
import os, sys, time
from sok1x.checkpoint.files.folder_lock import FolderLock
lock = FolderLock(sys.argv[1]).acquire()
child = os.fork()
if child == 0:
    os.write(1, b"started\\n")
    sys.stdin.read()
else:
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
"""


def test_a_forked_child_that_outlives_its_job_does_not_hold_the_lock(tmp_path):
    # The child ends with its standard input.
    job = subprocess.Popen([sys.executable, "-c", FORK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert {job.stdout.readline() for _ in range(2)} == {b"started\n", b"%d\n" % job.pid}
        with pytest.raises(LockedError):
            FolderLock(str(tmp_path)).acquire()
        job.send_signal(signal.SIGKILL)
        job.wait()
        FolderLock(str(tmp_path)).acquire().release()
    finally:
        job.kill()
        job.wait()
        job.stdin.close()
        assert job.stdout.read() == b""
        job.stdout.close()
