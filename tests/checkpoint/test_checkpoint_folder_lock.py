"""The lock on a folder of checkpoints: who holds it, and for how long."""
import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sok1x.checkpoint.errors import LockedError, NoSpaceError
from sok1x.checkpoint.files import folder_lock
from sok1x.checkpoint.files.folder_lock import FolderLock

HOLD = """
import sys, time
from sok1x.checkpoint.files.folder_lock import FolderLock
lock = FolderLock(sys.argv[1]).acquire()
print("held", flush=True)
time.sleep(60)
"""


def descriptors_of(directory):
    """This process's, of the lock's file in a folder."""
    path, found = str(directory / folder_lock.NAME), []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # other threads close some meanwhile
            found += [name] if os.readlink("/proc/self/fd/" + name) == path else []
    return found


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


def test_who_asks_at_that_moment_keeps_nobody_from_taking_it(tmp_path, monkeypatch):
    """To ask is to have it for a moment."""
    FolderLock(str(tmp_path)).acquire().release()
    asks = [os.open(str(tmp_path / folder_lock.NAME), os.O_RDONLY)]
    fcntl.flock(asks[0], fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.close(asks.pop()) if asks else None)
    with FolderLock(str(tmp_path)) as lock:
        assert lock.held and not asks


def test_threads_that_take_it_at_once_share_it(tmp_path, monkeypatch):
    makedirs, both, found = os.makedirs, threading.Barrier(2), []

    def meeting(*arguments, **options):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # the other one is where this one is, if it can be
        makedirs(*arguments, **options)

    def take():
        try:
            found.append(folder_lock.of_process(str(tmp_path)))
        except LockedError as error:
            found.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(os, "makedirs", meeting)
        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found[0] is found[1] and found[0].held, found
    del found[:]
    assert not folder_lock.is_held(str(tmp_path))


def test_a_signal_s_handler_may_take_one_while_another_is_taken(tmp_path, monkeypatch):
    makedirs, taken = os.makedirs, []

    def interrupted(*arguments, **options):
        monkeypatch.setattr(os, "makedirs", makedirs)
        taken.append(folder_lock.of_process(str(tmp_path / "handler")))
        makedirs(*arguments, **options)

    monkeypatch.setattr(os, "makedirs", interrupted)
    assert folder_lock.of_process(str(tmp_path)).held and taken[0].held


@pytest.mark.parametrize("owner, name", [(os, "makedirs"), (os, "open"), (folder_lock, "_take"), (os, "ftruncate"),
                                         (os, "pwrite")])
@pytest.mark.parametrize("after", [False, True])
def test_a_signal_s_handler_may_take_the_very_one_that_is_taken(tmp_path, monkeypatch, owner, name, after):
    stock, taken = getattr(owner, name), []

    def interrupted(*arguments, **options):
        monkeypatch.undo()
        found = stock(*arguments, **options) if after else None
        taken.append(folder_lock.of_process(str(tmp_path)))
        return found if after else stock(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)
    lock = folder_lock.of_process(str(tmp_path))
    assert taken.pop() is lock and lock.held and lock._opened is None and folder_lock.is_held(str(tmp_path))
    assert (tmp_path / folder_lock.NAME).read_text() == FolderLock._own() + "\n"
    del lock
    assert not folder_lock.is_held(str(tmp_path)) and not descriptors_of(tmp_path)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("after", [False, True])
def test_a_signal_s_handler_may_take_one_that_is_just_made(tmp_path, monkeypatch, after, keeps):
    init, taken = FolderLock.__init__, []

    def interrupted(*arguments):
        monkeypatch.undo()
        if after:
            init(*arguments)
        lock = folder_lock.of_process(str(tmp_path))
        assert lock.held
        taken.extend([lock] * keeps)
        if not after:
            init(*arguments)

    monkeypatch.setattr(FolderLock, "__init__", interrupted)
    lock = folder_lock.of_process(str(tmp_path))
    assert lock.held and lock is folder_lock.of_process(str(tmp_path)) and taken == [lock] * keeps
    del lock, taken[:]
    assert not folder_lock.is_held(str(tmp_path)) and not descriptors_of(tmp_path)


@pytest.mark.parametrize("name", ["ftruncate", "pwrite"])
def test_a_lock_that_cannot_be_written_is_not_held(tmp_path, monkeypatch, name):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    lock = FolderLock(str(tmp_path))
    with monkeypatch.context() as patch, pytest.raises(NoSpaceError):
        patch.setattr(os, name, full)
        lock.acquire()
    assert not lock.held and not descriptors_of(tmp_path)
    with lock:
        assert folder_lock.is_held(str(tmp_path))


@pytest.mark.parametrize("handler", [False, True])
def test_who_is_interrupted_while_it_takes_one_does_not_hold_it(tmp_path, monkeypatch, handler):
    """By Ctrl-C, when the system has given the lock and nobody has noted it; `handler`: a signal's has, before."""
    take, lock = folder_lock._take, FolderLock(str(tmp_path))

    def interrupted(fd):
        monkeypatch.undo()
        take(fd)
        if handler:
            lock.acquire()
        raise KeyboardInterrupt

    monkeypatch.setattr(folder_lock, "_take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert lock.held == folder_lock.is_held(str(tmp_path)) == handler and lock._opened is None
    assert len(descriptors_of(tmp_path)) == handler
    with lock:
        assert folder_lock.is_held(str(tmp_path))
    assert not folder_lock.is_held(str(tmp_path)) and not descriptors_of(tmp_path)


def test_a_folder_that_takes_long_holds_up_no_other(tmp_path, monkeypatch):
    """A file system that does not answer, say."""
    makedirs, begun, answers = os.makedirs, threading.Event(), threading.Event()

    def waiting(path, **options):
        if path.endswith("slow"):
            begun.set()
            assert answers.wait(240)
        makedirs(path, **options)

    def other():
        begun.wait()
        taken.append(folder_lock.of_process(str(tmp_path / "other")))

    taken = []
    monkeypatch.setattr(os, "makedirs", waiting)
    threads = [threading.Thread(target=other),
               threading.Thread(target=lambda: folder_lock.of_process(str(tmp_path / "slow")))]
    for thread in threads:
        thread.start()
    threads[0].join(120)
    held = [lock.held for lock in taken]
    answers.set()
    for thread in threads:
        thread.join()
    assert held == [True]


def test_a_lock_leaves_nothing_behind(tmp_path, monkeypatch):
    """What is registered for forked children stays until the process ends: a lock registers nothing of its own."""
    monkeypatch.setattr(os, "register_at_fork", lambda **functions: pytest.fail("registers {}".format(functions)))
    before = len(folder_lock._all)
    for _ in range(3):
        with FolderLock(str(tmp_path)):
            assert len(folder_lock._all) == before + 1
    assert len(folder_lock._all) == before
    shared = len(folder_lock._of_process)
    for _ in range(3):
        lock = folder_lock.of_process(str(tmp_path))
        assert len(folder_lock._of_process) == shared + 1
        del lock
    assert len(folder_lock._of_process) == shared
