"""Lines on stderr, also where nobody reads them."""
import subprocess
import sys
import textwrap

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


def test_a_warning_that_nobody_reads_does_not_stop_a_job():
    done = run_ranks(2, STALLED, env={"SOK1X_STALL_SECONDS": "1"}, timeout=100)
    for rank in range(2):
        assert "rank {} went on\n".format(rank) in done.out, str(done)
