"""The library: its absence, its threads, its build."""
import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import threads

from sok1x.cuda_kernels import build_host, gather, host
from sok1x.cuda_kernels.arrays import of_numpy


def test_a_missing_library_says_how_to_build_it(monkeypatch):
    monkeypatch.setattr(host, "LIBRARY", "/nowhere/_host_kernels.so")
    monkeypatch.setattr(host, "_loaded", None)
    with pytest.raises(ImportError, match="make build.*pip install -e"):
        host.set_threads(1)


def test_a_broken_library_says_how_to_build_it(monkeypatch, tmp_path):
    broken = tmp_path / "_host_kernels.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(host, "LIBRARY", str(broken))
    monkeypatch.setattr(host, "_loaded", None)
    with pytest.raises(ImportError, match="cannot be loaded.*make build"):
        host.set_threads(1)


def test_thread_counts():
    before = host.get_threads()
    with threads(3):
        pass
    assert host.get_threads() == before
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1, got {}".format(wrong)):
            host.set_threads(wrong)
    with threads(256):
        host.set_threads(10 ** 12)
        assert host.get_threads() == 256


def check_gather(rounds, state):
    random = np.random.RandomState(rounds)
    table = random.standard_normal((1000, 32)).astype(np.float32)
    for _ in range(rounds):
        index = random.randint(0, 1000, 5000).astype(np.int32)
        out = dirty((5000, 32))
        gather.gather(*map(of_numpy, (table, index, out)))
        state.append((out == table[index]).all())


def test_kernels_from_several_python_threads_at_once():
    with threads(4):
        state = []
        callers = [threading.Thread(target=check_gather, args=(100, state)) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    assert len(state) == 400 and all(state)


def test_a_forked_child_has_a_pool_of_its_own():
    with threads(4):
        state = []
        check_gather(5, state)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                state = []
                check_gather(50, state)
                helped = len(os.listdir("/proc/self/task")) > 1  # the parent's threads are not in the child
                status = 0 if all(state) and len(state) == 50 and host.get_threads() == 4 and helped else 2
            finally:
                os._exit(status)
        for _ in range(2400):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        assert os.WEXITSTATUS(status) == 0


def test_an_idle_pool_uses_no_processor_time():
    """In a process of its own: here other tests may have left threads that take some."""
    program = ("from sok1x.cuda_kernels import arrays, host, gather; import numpy as np; import time;"
               "host.set_threads(4);"
               "t = np.ones((9000, 32), np.float32); i = np.arange(9000, dtype=np.int32); o = np.empty_like(t);"
               "gather.gather(*map(arrays.of_numpy, (t, i, o))); time.sleep(0.05);"
               "before = time.process_time(); time.sleep(0.3); used = time.process_time() - before;"
               "assert used < 0.1, used")
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_process_ends_while_helpers_wait():
    program = ("from sok1x.cuda_kernels import arrays, host, gather; import numpy as np; host.set_threads(4);"
               "t = np.ones((9000, 32), np.float32); i = np.arange(9000, dtype=np.int32); o = np.empty_like(t);"
               "gather.gather(*map(arrays.of_numpy, (t, i, o))); assert (o == t).all()")
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_importing_the_wrappers_loads_nothing():
    program = ("import sys; from sok1x.cuda_kernels import host, gather, unique; "
               "assert host._loaded is None; assert 'tensorflow' not in sys.modules; assert 'numpy' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_build_errors_are_clear(tmp_path):
    with pytest.raises(RuntimeError, match="no-such-compiler.*install g\\+\\+"):
        build_host.build(str(tmp_path / "library.so"), "no-such-compiler")
    with pytest.raises(RuntimeError, match="failed with exit code 1"):
        build_host.build(str(tmp_path / "library.so"), "false")
    assert not list(tmp_path.iterdir())


def large_thread_stacks():
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (most if 0 <= most < 64 << 20 else 64 << 20, most))


def test_where_the_system_gives_no_threads_the_caller_works_alone():
    program = """
import os, resource
import numpy as np
from sok1x.cuda_kernels import arrays, gather, host
host.set_threads(8)
table, index = np.ones((9000, 32), np.float32), np.arange(9000, dtype=np.int32)
out = np.zeros_like(table)
tasks = len(os.listdir("/proc/self/task"))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 20), used + (6 << 20)))  # less than a thread's stack
gather.gather(*map(arrays.of_numpy, (table, index, out)))
assert len(os.listdir("/proc/self/task")) == tasks, "there was room for a thread"
assert out.tobytes() == table.tobytes()
"""
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, timeout=60,
                          preexec_fn=large_thread_stacks)
    assert (done.returncode, done.stderr) == (0, b"")
