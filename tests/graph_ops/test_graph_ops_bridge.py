"""The bridge: no copies, TensorFlow's memory, errors of the right class, variables under TensorFlow's rules."""
import os
import re
import threading
import time
import types

import bridge_operations as operations
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

from sok1x.graph_ops.bridge import together
from sok1x.graph_ops.bridge.errors import CallError
from sok1x.graph_ops.bridge.tensorflow_versions import own_words

HERE = os.path.dirname(os.path.abspath(__file__))
# Where op and fetch are on two devices, TensorFlow has an error twice and says so before it.
TWICE = r"^(2 root error\(s\) found\.\s+\(0\) [\w ]+: )?"


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, **options):
    with tf.Session(config=tf.ConfigProto(**options)) as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches)


def test_tensors_pass_without_a_copy(graph):
    value = tf.random_uniform([1000])
    first, at_first = operations.pointer(value)
    second, at_second = operations.pointer(first)
    _, at_third = operations.pointer(second)
    addresses = run([at_first, at_second, at_third])
    assert len(set(addresses)) == 1 and addresses[0] != 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8", "bool", "uint32"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (1, 2, 1, 2, 1, 2, 1, 2)])
def test_every_dtype_and_shape_arrives(graph, dtype, shape, seed):
    value = np.random.RandomState(seed).randint(0, 2, shape).astype(dtype)
    fed = tf.placeholder(dtype, shape)
    with tf.Session() as sess:
        got_shape, got_sum = sess.run(operations.describe(fed), {fed: value})
    assert tuple(got_shape) == shape
    assert got_sum == value.astype("float64").sum()


def test_temporaries_are_used_again_and_never_twice_at_once(graph, seed):
    with tf.device("/cpu:0"):  # on a GPU TensorFlow's allocator keeps what it frees by itself
        check_temporaries(seed)


def check_temporaries(seed):
    same = operations.temporaries([1 << 20, 1 << 20, 3 << 20, 10, 0])
    sizes = np.random.RandomState(seed).randint(0, 4 << 20, 12).tolist()
    other = operations.temporaries(sizes)
    huge = operations.temporaries([48 << 20, 48 << 20])  # more than is kept
    with tf.Session() as sess:
        first = sess.run(same)
        assert len(set(first[:3])) == 3
        # A run's blocks may come back a moment after it has ended: the next takes others that earlier ones have left.
        used = set(first[:3]).union(*[sess.run(same)[:3] for _ in range(20)])
        assert len(used) <= 20, "runs use the blocks of those before them"
        for _ in range(5):
            for node in (other, huge, same):
                sess.run(node)


def test_more_than_eight_dimensions_is_a_clear_error(graph):
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 8 dimensions"):
        run(operations.describe(tf.ones([1] * 9)))


def test_an_output_is_made_once_and_has_one_shape(graph):
    with pytest.raises(tf.errors.InternalError, match=r"another shape already than \[2\] float32"):
        run(operations.output_again())


@pytest.mark.parametrize("code, error", [
    (3, tf.errors.InvalidArgumentError), (8, tf.errors.ResourceExhaustedError),
    (9, tf.errors.FailedPreconditionError), (4, tf.errors.DeadlineExceededError), (13, tf.errors.InternalError)])
def test_an_error_becomes_its_class_with_the_message_first(graph, code, error):
    with pytest.raises(error) as caught:
        run(operations.fail(code, "what went wrong, with µ and 'quotes'"))
    assert re.match(TWICE + "what went wrong, with µ and 'quotes'", own_words(caught.value.message))


def test_an_error_on_another_device_than_the_fetch_has_the_message_first(graph):
    # As where the op is on a GPU; a second CPU is another device, too.
    with tf.device("/cpu:1"):
        failing = operations.fail(8, "what went wrong")
    with tf.device("/cpu:0"):
        fetched = tf.identity(failing)
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        run([failing, fetched], device_count={"CPU": 2})
    assert re.match(TWICE + "what went wrong", own_words(caught.value.message)), caught.value.message


def test_unexpected_exceptions_reach_the_user_with_their_place(graph):
    with pytest.raises(tf.errors.InternalError, match="KeyError: 'lost'(.|\n)*bridge_operations"):
        run(operations.fail(kind="KeyError", message="lost"))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="out of memory"):
        run(operations.fail(kind="MemoryError", message="no room"))
    assert run(operations.sleep(0)) == 1, "the executor goes on after an error"


def test_variables_are_written_in_place_and_readers_keep_what_they_read(graph, seed):
    start = np.random.RandomState(seed).normal(size=[5, 3]).astype("float32")
    variable = tf.get_variable("v", initializer=start, use_resource=True)
    before = variable.read_value()
    with tf.control_dependencies([before]):
        added = operations.add(variable, 1.0)
    with tf.control_dependencies([added]):
        before_still, after = tf.identity(before), variable.read_value()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(3):  # the first write switches the variable's mode: later ones run another path
            old, new = sess.run([before_still, after])
            np.testing.assert_allclose(old, start + step, rtol=1e-6)
            np.testing.assert_allclose(new, start + step + 1, rtol=1e-6)


def test_many_threads_may_write_one_variable(graph):
    variable = tf.get_variable("v", initializer=np.zeros(4, "float32"), use_resource=True)
    added, scattered = operations.add(variable, 1.0), tf.scatter_add(variable, [0], [1.0])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        # TensorFlow's scatter_add takes no other of its kind for a writer: one thread has it.
        threads = [threading.Thread(target=lambda fetches: [sess.run(fetches) for _ in range(50)], args=[fetches])
                   for fetches in ([added, scattered], [added], [added], [added])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(sess.run(variable), [250, 200, 200, 200])


def test_an_uninitialized_variable_is_a_clear_error(graph):
    variable = tf.get_variable("v", initializer=np.zeros(2, "float32"), use_resource=True)
    added = operations.add(variable, 1.0)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError) as caught:
            sess.run(added)
    assert re.match(TWICE + "the variables of embedding table 'test' have not been initialized",
                    own_words(caught.value.message))


def test_tensorflow_threads_only_enqueue(graph):
    # With one inter-op thread, native ops finish while ours still runs: it fails if they do not within a minute.
    gate = operations.Gate()
    slow = operations.wait(gate)
    quick = tf.py_func(lambda: gate.opened.set() or np.int32(1), [], tf.int32)
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1)) as sess:
        assert sess.run([slow, quick]) == [1, 1]


def test_exit_with_requests_in_flight():
    program = """
import sys, threading, time
sys.path.insert(0, {!r})
import tensorflow.compat.v1 as tf
import bridge_operations as operations
nodes = [operations.sleep(0.3) for _ in range(20)]
sess = tf.Session()
def work():
    try:
        sess.run(nodes)
    except tf.errors.CancelledError:
        pass  # without a word: a thread that Python's end stops while it prints keeps stdout locked
threading.Thread(target=work, daemon=True).start()
time.sleep(1.0)
from sok1x.graph_ops.bridge import session_runs
wait = session_runs.wait
session_runs.wait = lambda: print('the thread may come out of it') or wait()
print('leaving')
""".format(HERE)
    run_ranks(0, "pass")  # what starts programs has started
    began = time.time()
    finished = run_ranks(0, program, timeout=240)
    assert "leaving" in finished.out
    assert "the thread may come out of it" in finished.out  # also where all have run before the executor ends
    assert time.time() - began < 60


@pytest.mark.parametrize("stderr", ["heard", "full", "none"])
def test_a_dying_executor_fails_all_requests(stderr):
    # What must never happen, made to happen: an exception where the executor takes a request in.
    program = """
import os, sys, threading, time
sys.path.insert(0, {!r})
import tensorflow.compat.v1 as tf
import bridge_operations as operations
from sok1x.graph_ops.bridge.tensorflow_versions import own_words
from sok1x.graph_ops.bridge import executor
gate = operations.Gate()
nodes = [operations.wait(gate)] + [operations.sleep(0) for _ in range(3)]
results = []
def collect(node):
    try:
        results.append(sess.run(node))
    except tf.errors.InternalError as error:
        results.append([line for line in own_words(error.message).splitlines() if 'root error' not in line][0])
with tf.Session() as sess:
    threads = [threading.Thread(target=collect, args=[node]) for node in nodes[:3]]
    threads[0].start()
    assert gate.reached.wait(60)
    def die(*_):
        raise SystemExit('made to die')
    executor._executor._look_at = die
    for thread in threads[1:]: thread.start()
    if {!r} == 'full':
        os.dup2(os.open('/dev/full', os.O_WRONLY), 2)
    elif {!r} == 'none':
        sys.stderr = None
    time.sleep(0.2)  # mostly both requests are there by then
    gate.opened.set()
    for thread in threads: thread.join()
    collect(nodes[3])
    print(results.count(1), results)
""".format(HERE, stderr, stderr)
    finished = run_ranks(0, program, timeout=60, check=False)
    assert finished.code == 0, str(finished)
    assert (finished.err.count("SystemExit: made to die") == 1) == (stderr != "full"), str(finished)
    assert finished.out.startswith("1 ") and finished.out.count("sok1x's executor died") == 3, str(finished)


# What a GPU in error does: after the op has failed, its counts cannot be taken back either.
LOST_COUNTS = """
import sys
sys.path.insert(0, {!r})
import numpy as np, tensorflow.compat.v1 as tf
import sok1x
from sok1x.cuda_kernels import backend
def lost(self):
    raise RuntimeError('the GPU is lost')
backend.HostCounts.forget = lost
layer = sok1x.All2AllDenseEmbedding(8, 2, 1, 1)
keys = tf.placeholder(tf.int64, [None, 1, 1])
rows = layer(keys, training=True)
with tf.Session() as sess:
    sess.run(sok1x.Init(global_batch_size=8))
    sess.run(tf.global_variables_initializer())
    for _ in range(2):
        try:
            sess.run(rows, {{keys: np.arange(100).reshape(-1, 1, 1)}})
        except tf.errors.ResourceExhaustedError as error:
            print('full')
    print(sess.run(rows, {{keys: np.arange(4).reshape(-1, 1, 1)}}).shape)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_failed_op_ends_even_where_its_counts_cannot_be_taken_back(ranks):
    finished = run_ranks(ranks, LOST_COUNTS.format(HERE), timeout=60)
    assert finished.out.count("full") == 2 * ranks and finished.out.count("(4, 1, 1, 2)") == ranks, str(finished)


def test_a_failed_request_is_not_asked_for_its_name_once_it_is_finished():
    """The name is its kernel's, which TensorFlow may free by then."""
    class Answered:
        gpu, finished = None, False

        @property
        def name(self):
            assert not self.finished
            return "Sok1xLookup"

        def finish(self, code, message):
            self.finished = True

    failures = []
    world = types.SimpleNamespace(size=2, name="rank 1", coordinator=types.SimpleNamespace(fail_job=failures.append))
    call = types.SimpleNamespace(name="a/lookup")
    members = [together.Taken(Answered(), call) for _ in range(2)]
    together.Group(types.SimpleNamespace(communicates=True), False).fail(members, CallError(13, "broken"), world)
    assert failures == ["op 'a/lookup' failed on rank 1 in the middle of an exchange: broken"]
    assert all(taken.request.finished for taken in members)
