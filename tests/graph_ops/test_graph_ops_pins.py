"""A step is in flight from its first lookup until TensorFlow has ended it, however it ends."""
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from bridge_operations import look, pinned, sleep

NONE = [-1, 0]


@pytest.fixture
def model():
    """(session, a variable, what is in flight of it)."""
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("rows", [4, 2], use_resource=True)
        asks = pinned(variable)
        session.run(tf.global_variables_initializer())
        yield session, variable, lambda: session.run(asks).tolist()


def test_the_first_lookup_of_each_step_counts(model):
    session, variable, asked = model
    assert asked() == NONE
    first = look(variable)
    with tf.control_dependencies([first]):
        inside_first = pinned(variable)
        with tf.control_dependencies([inside_first]):
            second = look(variable)
            with tf.control_dependencies([second]):
                inside_second = pinned(variable)
    for _ in range(2):  # with nobody in flight counting begins again
        assert [value.tolist() for value in session.run([inside_first, inside_second])] == [[0, 1], [1, 1]]
        assert asked() == NONE


def test_a_step_that_fails_is_over(model):
    session, variable, asked = model
    bad = look(variable, 0)
    with tf.control_dependencies([look(variable)]):
        later = tf.Assert(False, ["this step fails"])
    for op, expected in ((bad, tf.errors.FailedPreconditionError), (later, tf.errors.InvalidArgumentError)):
        with pytest.raises(expected):
            session.run(op)
        assert asked() == NONE


def until(condition):
    end = time.time() + 120
    while not condition():
        assert time.time() < end
        time.sleep(0.01)


def test_steps_of_threads_overlap_and_end_in_any_order(model):
    session, variable, asked = model
    go = [tf.placeholder(tf.int32, [], name="go_{}".format(i)) for i in range(3)]
    queues = [tf.FIFOQueue(1, [tf.int32]) for _ in go]
    steps = []
    for queue in queues:
        with tf.control_dependencies([look(variable)]):
            steps.append(queue.dequeue())
    lets = [queue.enqueue(1) for queue in queues]
    threads = []
    for step in steps:
        threads.append(threading.Thread(target=session.run, args=(step,)))
        threads[-1].start()
        until(lambda: asked()[1] == len(threads))
    assert asked() == [2, 3]
    for ended, left in ((1, [2, 2]), (0, [0, 1]), (2, NONE)):
        session.run(lets[ended])
        threads[ended].join()
        assert asked() == left


def test_a_step_that_is_cancelled_is_over_when_its_ops_are(model):
    session, variable, asked = model
    never = tf.FIFOQueue(1, [tf.int32])
    with tf.control_dependencies([look(variable)]):
        waits = never.dequeue()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(waits, options=tf.RunOptions(timeout_in_ms=300))
    until(lambda: asked() == NONE)
    # A step that fails in one place goes on in another until that is done.
    with tf.control_dependencies([look(variable)]):
        slow = sleep(0.3)
        fails = tf.Assert(False, ["this step fails"])
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run([slow, fails])
    until(lambda: asked() == NONE)


def test_a_loop_is_one_step(model):
    session, variable, asked = model

    def body(i, _):
        with tf.control_dependencies([look(variable, i + 1)]):
            return i + 1, pinned(variable)

    loop = tf.while_loop(lambda i, _: i < 5, body, [tf.constant(0), tf.constant(NONE, tf.int64)], parallel_iterations=1)
    assert session.run(loop[1]).tolist() == [4, 1]
    assert asked() == NONE


def test_a_partial_run_is_in_flight_until_its_last_part(model):
    session, variable, asked = model
    first, second = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
    looked = look(variable, first)
    with tf.control_dependencies([looked]):
        last = second + 1
    handle = session.partial_run_setup([looked, last], [first, second])
    assert session.partial_run(handle, looked, {first: 3}) == 3
    assert asked() == [0, 1]
    assert session.partial_run(handle, last, {second: 4}) == 5
    until(lambda: asked() == NONE)


def test_tables_and_sessions_do_not_know_of_one_another(model):
    session, variable, asked = model
    other = tf.get_variable("other", [4, 2], use_resource=True)
    of_other, wait = pinned(other), tf.FIFOQueue(1, [tf.int32])
    with tf.control_dependencies([look(variable)]):
        step = wait.dequeue()
    session.run(other.initializer)
    with tf.Session(graph=session.graph) as elsewhere:
        elsewhere.run(variable.initializer)
        thread = threading.Thread(target=session.run, args=(step,))
        thread.start()
        until(lambda: asked() == [0, 1])
        assert session.run(of_other).tolist() == NONE
        assert elsewhere.run(pinned(variable)).tolist() == NONE
        session.run(wait.enqueue(1))
        thread.join()
    assert asked() == NONE


def test_many_steps_leave_nothing_behind(model, seed):
    """Threads, failures and timeouts at random; every row that could be looked up stays pinned as long as it must."""
    session, variable, asked = model
    random = np.random.RandomState(seed)
    value = tf.placeholder(tf.int32, [])
    looked = look(variable, value)
    with tf.control_dependencies([looked]):
        inside = pinned(variable)

    def work(values):
        for given in values:
            try:
                since, steps = session.run([looked, inside], {value: given})[1].tolist()
                assert since >= 0 and 1 <= steps <= 4
            except tf.errors.FailedPreconditionError:
                assert given == 0

    threads = [threading.Thread(target=work, args=(random.randint(0, 3, 40).tolist(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked() == NONE
