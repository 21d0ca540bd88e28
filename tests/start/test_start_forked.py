"""Programs forked from the servers (fork_server.py) begin, and end, as if Python had started them."""
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from ranks import environment, python, run_ranks

pytestmark = pytest.mark.skipif(os.environ.get("SOK1X_TEST_DEVICE") == "gpu", reason="ranks with GPUs start afresh")
SAYS = """
import json, os, random, sys
import numpy as np
print(json.dumps([sys.argv, __name__, globals().get("__file__"), sys.path[0], os.getcwd(), os.environ.get("MINE"),
                  sorted(os.sched_getaffinity(0)), hash("a"), random.random(), np.random.rand(), sorted(
                      name for name in globals() if not name.startswith("__")), "sok1x" in sys.modules,
                  "tensorflow" in sys.modules, sys.stdin.read()]), flush=True)
"""


def said(program, fresh, folder, rank="0"):
    env = environment({"MINE": "set", "OMPI_COMM_WORLD_RANK": rank})
    done = subprocess.run(python(program, env, fresh) + ["x", "-y"], env=env, cwd=str(folder), input="given",
                          stdout=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert done.returncode == 0
    return json.loads(done.stdout)


@pytest.mark.parametrize("from_file", [True, False])
def test_it_finds_what_a_fresh_one_finds(from_file, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SAYS)
    program = str(path) if from_file else SAYS
    ours, neighbours, fresh = (said(program, False, tmp_path), said(program, False, tmp_path, "1"),
                               said(program, True, tmp_path))
    assert ours[:7] == fresh[:7] and ours[10:12] == fresh[10:12] and ours[-1] == "given"
    assert (ours[12], fresh[12]) == (True, False)
    for values in zip(ours[7:10], neighbours[7:10], fresh[7:10]):
        assert len(set(values)) == 3, "hashes of strings and random numbers are each process' own"


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_is_one_write(fresh, stream):
    """Else another rank's may come between a line and its end."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # which keeps writes apart
    env = environment()
    program = "import sys; print('a', 1, file=sys.{0}); print('b', file=sys.{0}, flush=True)".format(stream)
    subprocess.run(python(program, env, fresh), env=env, timeout=60, check=True, **{stream: writer})
    writer.close()
    assert list(iter(lambda: reader.recv(4096), b"")) == [b"a 1\n", b"b\n"]


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("end, code", [("sys.exit(3)", 3), ("sys.exit('words')", 1), ("raise ValueError('words')", 1),
                                       ("os._exit(4)", 4), ("os.kill(os.getpid(), 9)", -9),
                                       ("os.kill(os.getpid(), 15)", -15), ("pass", 0)])
def test_it_ends_in_the_same_way(fresh, end, code):
    done = run_ranks(0, "import atexit, os, sys\natexit.register(print, 'at exit')\n" + end, fresh=fresh, check=False)
    assert done.code == code and ("at exit" in done.out) == (code in (0, 1, 3)), str(done)
    assert ("words" in done.err) == (code == 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_who_ends_the_process_that_was_started_ends_it(number):
    env = environment()
    # Python sees a signal that comes just before a sleep when the sleep is over.
    program = "import os, time; print(os.getpid(), flush=True); [time.sleep(0.1) for _ in range(3000)]"
    started = subprocess.Popen(python(program, env), env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    pid = int(started.stdout.readline())
    assert pid != started.pid
    started.send_signal(number)
    assert started.wait(120) in (-number, 1)  # an interrupt is an exception
    end = time.monotonic() + 120
    while os.path.exists("/proc/{}".format(pid)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not os.path.exists("/proc/{}".format(pid))
    started.stdout.close()


def test_what_a_process_reads_at_its_start_makes_it_a_fresh_one():
    assert python("pass", environment())[0] == sys.executable and len(python("pass", environment())) > 3
    assert python("pass", environment({"TF_XLA_FLAGS": "--other"})) == [sys.executable, "-c", "pass"]
    assert python("pass", environment(), fresh=True) == [sys.executable, "-c", "pass"]
