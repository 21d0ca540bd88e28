"""Children of a process that signals tell to end: they have what it had before, and are told as it was."""
import subprocess
import sys

import pytest
from ranks import environment

# USR1 had a handler, USR2 was ignored, TERM had none.
LISTENS = """
import multiprocessing, os, signal, sys, threading, time
from sok1x.checkpoint.session.told_to_end import told_to_end

def before(number, frame):
    os._exit(7)

signal.signal(signal.SIGUSR1, before)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
told_to_end.listen("a test", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
listening = signal.getsignal(signal.SIGTERM)
kind = sys.argv[1]
mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])

def wait():
    signal.alarm(60)
    while True:
        time.sleep(60)

def ended(number):
    '''The exit code of a child that gets a signal: at once, and when it runs.'''
    codes = set()
    for delay in (0, 0.2):
        if kind == "os":
            child = os.fork()
            if not child:
                wait()
            time.sleep(delay)
            os.kill(child, number)
            if number == signal.SIGUSR2:
                time.sleep(0.2)
                assert os.waitpid(child, os.WNOHANG) == (0, 0)
                os.kill(child, signal.SIGTERM)
            status = os.waitpid(child, 0)[1]
            codes.add(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status))
        else:
            child = multiprocessing.Process(target=wait, daemon=True)
            child.start()
            time.sleep(delay)
            os.kill(child.pid, number)
            if number == signal.SIGUSR2:
                child.join(0.2)
                assert child.is_alive()
                child.terminate()
            child.join()
            codes.add(child.exitcode)
    return codes

def fork():
    assert ended(signal.SIGTERM) == {-signal.SIGTERM}
    assert ended(signal.SIGUSR1) == {7}
    assert ended(signal.SIGUSR2) == {-signal.SIGTERM}

if kind == "thread":
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
elif kind == "told":
    os.kill(os.getpid(), signal.SIGTERM)
    child = os.fork()
    assert told_to_end._told == bool(child)
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
elif kind == "pool":
    with multiprocessing.Pool(2) as pool:  # its end is SIGTERM to workers that have begun
        pool.apply_async(wait)
        time.sleep(0.2)
else:
    fork()
assert signal.getsignal(signal.SIGTERM) == listening
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask | {signal.SIGHUP}
multiprocessing.Process(target=wait, daemon=True).start()  # ended with the program
os.write(1, b"done")
"""


@pytest.mark.parametrize("kind", ["os", "multiprocessing", "thread", "told", "pool"])
def test_children_have_what_there_was_before(kind):
    done = subprocess.run([sys.executable, "-c", LISTENS, kind], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=100)
    assert (done.returncode, done.stdout) == (0, b"done"), done.stderr.decode()


JOB = """
import multiprocessing, sys, time
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
import sok1x as sok

keys = tf.placeholder(tf.int64, [None, 1, 1])
layer = sok.All2AllDenseEmbedding(100, 4, 1, 1)
loss = tf.reduce_sum(layer(keys, training=True))
step = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
hooks = [sok.InitHook(global_batch_size=1), sok.CheckpointSaverHook(sys.argv[1], save_steps=100, save_on_sigterm=True)]
worker = multiprocessing.Process(target=time.sleep, args=(1000,), daemon=True)
worker.start()
with tf.train.MonitoredTrainingSession(hooks=hooks, save_checkpoint_secs=None) as session:
    session.run(step, {keys: [[[7]]]})
print("trained")
"""


def test_a_job_with_a_forked_worker_ends(tmp_path):
    done = subprocess.run([sys.executable, "-c", JOB, str(tmp_path)], env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=200)
    assert (done.returncode, done.stdout.strip()) == (0, b"trained"), done.stderr.decode()
