"""Lines on stderr, also where nobody reads them."""
import subprocess
import sys
import textwrap

import pytest
from at_once import job
from ranks import run_ranks

FULL = """
import os, sys, time
here, out = os.pipe()
os.set_blocking(out, False)
for piece in (65536, 1):
    try:
        while True:
            os.write(out, b"x" * piece)
    except BlockingIOError:
        pass
os.set_blocking(out, True)
"""


def test_whole_lines_of_any_length():
    text = "\u00e9" * 100000
    done = subprocess.run([sys.executable, "-c", "import sys; from sok1x.launch.lines import print_line\n"
                           "for number in range(3): print_line(str(number) + '\\u00e9' * 100000)"],
                          stderr=subprocess.PIPE, timeout=60, check=True)
    assert done.stderr.decode() == "".join("{}{}\n".format(number, text) for number in range(3))


def test_a_stderr_that_is_full_and_unread_holds_nobody_up():
    done = subprocess.run([sys.executable, "-c", FULL + textwrap.dedent("""
        from sok1x.launch.lines import print_line
        os.dup2(out, 2)
        began = time.monotonic()
        print_line("lost")
        print(0.9 < time.monotonic() - began < 30)
        os.read(here, 8192)
        print_line("kept")
        os.set_blocking(here, False)
        rest = b""
        try:
            while True:
                rest += os.read(here, 65536)
        except BlockingIOError:
            pass
        print(rest.replace(b"x", b""))
    """)], stdout=subprocess.PIPE, timeout=90, check=True, universal_newlines=True)
    assert done.stdout == "True\nb'kept\\n'\n"


REFUSES = {"full": "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)", "closed": "os.close(2)"}


@pytest.mark.parametrize("way", ["full", "closed"])
def test_a_stderr_that_takes_nothing_stops_nobody(way):
    """Nor what is done once it has been said, or not: the job told that a rank is gone, the process ended."""
    done = subprocess.run([sys.executable, "-c", "import os\n" + REFUSES[way] + textwrap.dedent("""
        import time, types
        from sok1x.launch import failure, lines, world
        lines.print_line("lost")
        error = types.SimpleNamespace(message="gone")
        coordinator = types.SimpleNamespace(job_error=None, fail_job=lambda *error: print(*error, flush=True))
        found = types.SimpleNamespace(coordinator=coordinator, name="rank 0", rank=0, local_rank=1, grace_seconds=0.1)
        world.World.lost(found, "rank 1 is gone", 1)
        coordinator.job_error = error
        monitor = failure.Monitor(found)
        monitor._watch = types.SimpleNamespace(look=lambda: None, release=lambda: None)
        monitor.start()
        monitor.failed(error)
        time.sleep(30)
    """)], stdout=subprocess.PIPE, timeout=90, universal_newlines=True)
    assert (done.returncode, done.stdout) == (1, "rank 1 is gone 13 1\n")


STALLED = FULL + """
import tensorflow.compat.v1 as tf
import sok1x as sok
tf.disable_v2_behavior()
sok.init()
keys = tf.placeholder(tf.int64, [None, 1, 1])
rows = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)(
    keys, training=True)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    os.dup2(out, 2)
    for number in range(3):
        if number == 1 and sok.communication.rank() == 1:
            time.sleep(3)
        session.run(rows, {keys: [[[number]]]})
print("rank {} went on".format(sok.communication.rank()), flush=True)
"""


@pytest.mark.parametrize("way", ["os.dup2(out, 2)", REFUSES["full"]])
# On a loaded machine sok.Init warns, too.
@job(lambda way: run_ranks(2, STALLED.replace("os.dup2(out, 2)", way), env={"SOK1X_STALL_SECONDS": "1"}, timeout=100,
                           check=False))
def test_a_warning_that_nobody_reads_does_not_stop_a_job(way, ended):
    done = ended()
    assert done.code == 0, str(done)
    for rank in range(2):
        assert "rank {} went on\n".format(rank) in done.out, str(done)
