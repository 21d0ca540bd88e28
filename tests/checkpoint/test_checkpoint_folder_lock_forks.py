"""The lock on a folder of checkpoints, in a process that forks."""
import signal
import subprocess
import sys

import pytest

from sok1x.checkpoint.errors import LockedError
from sok1x.checkpoint.files.folder_lock import FolderLock

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


BUSY_FORK = """
import os, signal, sys, threading, time
from sok1x.checkpoint.errors import LockedError
from sok1x.checkpoint.files import folder_lock

owner, name = {"makedirs": (os, "makedirs"), "_take": (folder_lock, "_take")}[sys.argv[2]]
stock, begun, forked = getattr(owner, name), threading.Event(), threading.Event()

def waiting(*arguments, **options):
    stock(*arguments, **options)
    begun.set()
    forked.wait()

setattr(owner, name, waiting)
shared, kept = folder_lock.of_process, []
thread = threading.Thread(target=lambda: kept.append(shared(sys.argv[1])))
thread.start()
begun.wait()
child = os.fork()
setattr(owner, name, stock)
if child == 0:
    signal.alarm(240)
    assert shared(os.path.join(sys.argv[1], "child")).held
    if name == "_take":  # the parent has it, and the child not a part of it
        try:
            os._exit(2 + shared(sys.argv[1]).held)
        except LockedError:
            pass
    os._exit(0)
forked.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("name", ["makedirs", "_take"])
def test_a_child_that_is_forked_while_a_thread_takes_one_can_take_its_own(tmp_path, name):
    subprocess.run([sys.executable, "-c", BUSY_FORK, str(tmp_path), name], check=True)
