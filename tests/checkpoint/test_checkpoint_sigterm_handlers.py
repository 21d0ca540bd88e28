"""Who handles a signal after a session with save_on_sigterm: whom the program has set, and what there was before."""
import signal
import subprocess
import sys

import pytest
from ranks import environment

from sok1x.checkpoint.files import folders

OWN = """
import os, signal, sys, threading
from sok1x.checkpoint.session.told_to_end import told_to_end

calls = []

def first(number, frame):
    calls.append("first")

def mine(number, frame):
    calls.append("mine")
    if sys.argv[1] == "chained":
        before[number](number, frame)

def ended(child):
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

BOTH = [signal.SIGTERM, signal.SIGUSR1]  # the first had no handler

signal.signal(signal.SIGUSR1, first)
told_to_end.listen("a test", BOTH)
told_to_end.begun(0)
before = {number: signal.signal(number, mine) for number in BOTH}
for number in BOTH:  # in a child the process's handlers, and behind them what there was before ours
    child = os.fork()
    if not child:
        assert all(signal.getsignal(each) is mine for each in BOTH)
        os.kill(os.getpid(), number)
        os._exit(["mine", "first"].index(calls[-1]) + 10 * len(calls))
    code = ended(child)
    if sys.argv[1] == "own":
        assert code == 10, (number, code)
    else:
        assert code == (-signal.SIGTERM if number == signal.SIGTERM else 21), (number, code)
assert not calls
told_to_end.over()
assert all(signal.getsignal(each) is mine for each in BOTH)
os.kill(os.getpid(), signal.SIGUSR1)
assert calls == ["mine"] + ["first"] * (sys.argv[1] == "chained"), calls
assert not told_to_end.passed(1, lambda: 1)
child = os.fork()
if not child:
    told_to_end.listen("a test", BOTH)  # of another session
    assert not any(signal.getsignal(each) is mine for each in BOTH)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert calls[1:] == ["first"] * (sys.argv[1] == "chained")
    assert told_to_end.passed(1, lambda: 1)
    os._exit(0)
assert ended(child) == 0
if sys.argv[1] == "chained":
    print("done", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)  # ends it, as what there was before
else:
    told_to_end.listen("a test", BOTH)
    told_to_end.over()
    assert all(signal.getsignal(each) is mine for each in BOTH)
    print("done")
"""


@pytest.mark.parametrize("how, code", [("own", 0), ("chained", -signal.SIGTERM)])
def test_a_handler_of_the_programs_own_stays(how, code):
    done = subprocess.run([sys.executable, "-c", OWN, how], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=100)
    assert (done.returncode, done.stdout) == (code, b"done\n"), done.stderr.decode()


THREAD = """
import os, signal, sys, threading, time
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
import sok1x as sok

heard = []
signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
BOTH = [signal.SIGTERM, signal.SIGUSR1]
graph, ready, errors, steps = tf.Graph(), threading.Event(), [], []
with graph.as_default():
    keys = tf.placeholder(tf.int64, [None, 1, 1])
    loss = tf.reduce_sum(sok.All2AllDenseEmbedding(100, 4, 1, 1)(keys, training=True))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
hook = sok.CheckpointSaverHook(sys.argv[1], save_steps=100000, save_on_sigterm=BOTH)

def train(most):
    try:
        with graph.as_default(), tf.train.MonitoredTrainingSession(
                hooks=[sok.InitHook(global_batch_size=1), hook], save_checkpoint_secs=None) as session:
            while not session.should_stop() and most:
                session.run(step, {keys: [[[7]]]})
                ready.set()
                most -= 1
        steps.append(most)
    except BaseException as error:
        errors.append(repr(error))

def trained(most):
    ready.clear()
    thread = threading.Thread(target=train, args=(most,))
    thread.start()
    if most > 10:
        assert ready.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
    thread.join()
    assert not errors, errors

trained(3)
os.kill(os.getpid(), signal.SIGUSR1)  # as before the session
assert heard == [signal.SIGUSR1] and steps == [0]
if sys.argv[2] == "ends":
    print("trained", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
hook = sok.CheckpointSaverHook(sys.argv[1], save_steps=100000, save_on_sigterm=BOTH)
trained(3)  # another session listens anew
trained(10 ** 9)
assert steps[:2] == [0, 0] and steps[2] > 0
for number in BOTH:
    os.kill(os.getpid(), number)  # it is about to end, with code 0, however often it is told
assert heard == [signal.SIGUSR1]
print("trained")
"""


@pytest.mark.parametrize("how, code", [("ends", -signal.SIGTERM), ("again", 0)])
def test_a_session_in_another_thread(how, code, tmp_path):
    done = subprocess.run([sys.executable, "-c", THREAD, str(tmp_path), how], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=200)
    assert (done.returncode, done.stdout) == (code, b"trained\n"), done.stderr.decode()
    step = folders.latest(str(tmp_path)).step
    assert step == 3 if how == "ends" else step > 6, step


CHAIN = """
import os, signal, sys, threading
from sok1x.checkpoint.session.told_to_end import told_to_end

TERM, calls = signal.SIGTERM, []

def session(thread=False):
    told_to_end.listen("a test", [TERM])
    told_to_end.begun(0)
    yield
    if thread:
        ending = threading.Thread(target=told_to_end.over)
        ending.start()
        ending.join()
    else:
        told_to_end.over()

def own():
    before = signal.getsignal(TERM)
    def handler(number, frame):
        calls.append(handler)
        before(number, frame)
    signal.signal(TERM, handler)

how = sys.argv[1]
for turn in range(4):  # in two of them the program sets a handler that calls ours
    for _ in session(how == "thread" and turn == 3):
        if turn in (0, 2):
            own()
        if how == "fork" and turn == 3:
            child = os.fork()
            if not child:
                os.kill(os.getpid(), TERM)
                os._exit(3)
            assert os.waitpid(child, 0)[1] == TERM  # as multiprocessing wants it
if how == "heard":
    for _ in session():
        os.kill(os.getpid(), TERM)
        assert told_to_end.passed(1, lambda: 1) and not calls
    sys.exit(5)
os.write(1, b"done ")
os.kill(os.getpid(), TERM)
os.write(1, b"still there")
"""


@pytest.mark.parametrize("how, code", [("main", -signal.SIGTERM), ("thread", -signal.SIGTERM),
                                       ("fork", -signal.SIGTERM), ("heard", 5)])
def test_handlers_over_ours_over_handlers(how, code):
    """The program's handlers call ours as the one before them, and later sessions listen over them: a signal comes to
    what there was first."""
    done = subprocess.run([sys.executable, "-c", CHAIN, how], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=100)
    assert (done.returncode, done.stdout) == (code, b"done " * (code < 0)), done.stderr.decode()


AGAIN = """
import os, signal, sys, threading, time
from sok1x.checkpoint.session.told_to_end import told_to_end

how, calls = sys.argv[1], []

def saves(number, frame):
    calls.append("saves")
    if len(calls) < 6:
        again = threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGTERM])
        begun, until = calls.count("saves"), time.monotonic() + 60
        again.start()
        while calls.count("saves") == begun and time.monotonic() < until:
            time.sleep(0.01)  # the batch system says so once more, which is heard here
    calls.append("saved")

def above(number, frame):
    calls.append("above")
    before(number, frame if how == "above" else None)

signal.signal(signal.SIGTERM, saves)
if how != "plain":
    told_to_end.listen("a test", [signal.SIGTERM])
    told_to_end.begun(0)
    before = signal.getsignal(signal.SIGTERM)
    if how != "below":
        signal.signal(signal.SIGTERM, above)
    if how == "between":  # and ours over it
        told_to_end.over()
        told_to_end.listen("a test", [signal.SIGTERM])
        told_to_end.begun(0)
    ending = threading.Thread(target=told_to_end.over)
    ending.start()
    ending.join()
os.kill(os.getpid(), signal.SIGTERM)
print(" ".join(calls))
"""


@pytest.mark.parametrize("how", ["below", "above", "between"])
def test_a_signal_that_comes_again_while_it_is_handled(how):
    """The program's handler begins again, as it does without ours."""
    made = {}
    for way in ("plain", how):
        done = subprocess.run([sys.executable, "-c", AGAIN, way], env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=100)
        assert done.returncode == 0, (done.returncode, done.stderr.decode())
        made[way] = done.stdout.decode().split()
    count = made[how].count("saves")
    assert [call for call in made[how] if call != "above"] == ["saves"] * count + ["saved"] * count and count > 2, made
    assert made[how].count("above") == (0 if how == "below" else count), made
    assert made["plain"] == ["saves"] * 6 + ["saved"] * 6, made
