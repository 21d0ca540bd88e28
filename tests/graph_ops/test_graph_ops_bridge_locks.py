"""The variables of many requests locked together, under TensorFlow's rules."""
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from bulk_service import Service, member, tensor, variable

from sok1x.graph_ops.bridge import bulk, growing
from sok1x.graph_ops.bridge.errors import CallError


@pytest.fixture
def graph():
    # Where the tables of a test lie in the host's memory, NumPy can look at them.
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        yield graph


def add_numbers(service, requests):
    """Adds 1 to the variables of the first member, 2 to those of the second, and so on."""
    group = bulk.RequestGroup(service.bridge, requests)
    codes = group.lock(exclusive=True)
    for number, infos in enumerate(group.variables):
        for info in infos[:requests[number].resource_count]:
            if codes[number] == 0:
                tensor(info, "float32")[...] += number + 1
    group.unlock()
    for number, code in enumerate(codes):
        if code:
            group.finish_one(number, 9, "code {}".format(code))
    group.finish()
    return codes.tolist()


def test_members_may_share_tables(graph):
    shared, own, other = variable("shared", np.zeros(4)), variable("own", [10.0]), variable("other", np.zeros([2, 3]))
    nodes = [member(0, variables=[shared, own]), member(1, variables=[other, shared]),
             member(2, variables=[shared, shared])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in (1, 2):  # the second finds the variables in another mode
            service = Service(add_numbers, 3)
            service.run(session, nodes)
            assert service.result == [0, 0, 0]
            np.testing.assert_array_equal(session.run(shared), np.full(4, 9.0 * step))
            np.testing.assert_array_equal(session.run(own), [10 + step])
            np.testing.assert_array_equal(session.run(other), np.full([2, 3], 2.0 * step))


def test_readers_keep_what_they_read(graph, seed):
    start = np.random.RandomState(seed).normal(size=[5, 3]).astype("float32")
    tables = [variable("v{}".format(i), start + i) for i in range(3)]
    before = [table.read_value() for table in tables]
    with tf.control_dependencies(before):
        # The first table has two writers.
        nodes = [member(i, variables=[tables[i % 3]]) for i in range(4)]
    with tf.control_dependencies(nodes):
        still, after = [tf.identity(value) for value in before], [table.read_value() for table in tables]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(3):
            [(old, new)] = Service(add_numbers, 4).run(session, (still, after))
            for i, added in enumerate([1 + 4, 2, 3]):
                np.testing.assert_allclose(old[i], start + i + step * added, rtol=1e-5)
                np.testing.assert_allclose(new[i], start + i + (step + 1) * added, rtol=1e-5)


def test_many_threads_beside_a_group(graph):
    tables = [variable("v{}".format(i), np.zeros(4)) for i in range(3)]
    nodes = [member(i, variables=[tables[i], tables[(i + 1) % 3]]) for i in range(3)]
    # Each thread adds to a number of its own: TensorFlow does not keep its scatters into one variable apart.
    scattered = [[tf.scatter_add(table, [number], [1.0]) for table in reversed(tables)] for number in range(3)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=lambda adds=adds: [session.run(adds) for _ in range(100)])
                   for adds in scattered]
        for thread in threads:
            thread.start()
        for _ in range(10):
            Service(add_numbers, 3).run(session, *nodes)
        for thread in threads:
            thread.join()
        # Table i gets i + 1 from member i, and what member i - 1 adds.
        for i, added in enumerate([1 + 3, 2 + 1, 3 + 2]):
            np.testing.assert_array_equal(session.run(tables[i]), np.array([100, 100, 100, 0]) + 10 * added)


def test_of_an_uninitialized_member_nothing_is_locked_that_no_other_needs(graph):
    shared, mine, missing = variable("shared", [0.0]), variable("mine", [0.0]), variable("missing", [0.0])
    never = variable("never", [0.0])
    nodes = [member(0, variables=[shared]), member(1, variables=[mine, shared, missing]), member(2, variables=[never])]
    free = [tf.assign(mine, [5.0]), missing.initializer]
    taken = tf.assign(shared, [7.0])
    with tf.Session() as session:
        session.run([shared.initializer, mine.initializer])

        def look(service, requests):
            group = bulk.RequestGroup(service.bridge, requests)
            codes = group.lock(exclusive=True)
            assert codes.tolist() == [0, -3, -1]
            assert group.variables.shape == (3, 3) and not group.variables["data"][1:].any()
            session.run(free)  # would wait for ever
            waiting = threading.Thread(target=session.run, args=[taken])
            waiting.start()
            waiting.join(0.3)
            assert waiting.is_alive(), "the first member's variable is not locked"
            group.unlock()
            waiting.join()
            for number in (1, 2):
                group.finish_one(number, 9, "not initialized")
            group.finish()

        results = Service(look, 3).run(session, *nodes)
        assert results[0] is None
        assert all(isinstance(error, tf.errors.FailedPreconditionError) for error in results[1:])
        assert session.run([shared, mine])[0].tolist() == [7]


def test_a_member_may_run_alone_between_the_group_s_locks(graph):
    tables = [variable("v{}".format(i), [0.0]) for i in range(2)]
    nodes = [member(i, variables=[tables[i]]) for i in range(2)]

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        assert group.lock(exclusive=True).tolist() == [0, 0]
        for refused in (lambda: requests[0].variables("t", True).__enter__(), lambda: group.lock(False),
                        lambda: requests[1].check_initialized("t")):
            with pytest.raises(CallError, match="hold"):
                refused()
        group.unlock()
        group.unlock()
        requests[1].check_initialized("t")
        with requests[0].variables("t", exclusive=True) as variables:
            variables[0].numpy()[...] += 3
            with pytest.raises(CallError, match="holds locks already"):
                group.lock(exclusive=False)
        # Finished by itself while the group holds its variable: its lock stays the group's.
        assert group.lock(exclusive=True).tolist() == [0, 0]
        requests[0].finish()
        tensor(group.variables[0, 0], "float32")[...] += 1
        group.unlock()
        assert group.lock(exclusive=False).tolist() == [9, 0]
        group.finish()

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        Service(serve, 2).run(session, *nodes)
        assert session.run(tables[0]).tolist() == [4]
        session.run(tf.assign(tables[1], [1.0]))  # nothing is locked any more


def test_a_group_that_is_dropped_holds_no_locks(graph):
    table = variable("v", [1.0])

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        group.lock(exclusive=True)
        del group
        with requests[0].variables("v", exclusive=True) as variables:
            variables[0].numpy()[...] += 1
        requests[0].finish()

    with tf.Session() as session:
        session.run(table.initializer)
        Service(serve, 1).run(session, member(0, variables=[table]))
        assert session.run(table).tolist() == [2]


def test_variables_found_by_name_are_locked_beside_those_in_hand(graph):
    mine, other, third = (variable(name, [0.0]) for name in ("mine", "other", "third"))
    variable("missing", [0.0])
    nodes = [member(0, variables=[mine]), member(1, variables=[third])]

    def names(*wanted):
        return {name: ("", name) for name in wanted}

    def reached_by(request, name):
        return growing._call(request, "reach_at_once", b"", name.encode())

    def serve(service, requests):
        first, second = requests
        with first.variables("t", exclusive=True):
            reached = growing.Reached(first, "t", names("other", "mine", "missing", "nobody's"))
            assert not reached.unlocked and set(reached.arrays) == {"mine", "other"}
            assert [array.pointer for array in reached.own()] == [reached.arrays["mine"].pointer]
            with second.variables("t", exclusive=True):
                assert reached_by(second, "mine") == reached_by(second, "other") == -2
                reached.arrays["other"].numpy()[...] += 1
                reached.arrays["mine"].numpy()[...] += 2
                assert [array.numpy().tolist() for array in reached.end()] == [[2]]
                assert reached_by(second, "mine") == -2 and reached_by(second, "other") == 1
                growing._call(second, "let_go", 1)
        with second.variables("t", exclusive=True):
            reached = growing.Reached(second, "t", names("mine", "third", "other"))
            assert not reached.unlocked and reached.arrays["mine"].numpy().tolist() == [2]
            reached.end()

        # Another has one of them: all are unlocked, and waited for.
        given_up, theirs = threading.Event(), threading.Event()
        unlock = service.bridge.unlock

        def hold():
            with second.variables("t", exclusive=True) as (array,):
                theirs.set()
                assert given_up.wait(60)
                array.numpy()[...] = 7

        def noted(handle):
            unlock(handle)
            given_up.set()

        thread = threading.Thread(target=hold)
        with first.variables("t", exclusive=True):
            thread.start()
            assert theirs.wait(60)
            service.bridge.unlock = noted
            reached = growing.Reached(first, "t", names("other", "third"))
            service.bridge.unlock = unlock
            thread.join()
            assert reached.unlocked and reached.arrays["third"].numpy().tolist() == [7]
            assert [array.numpy().tolist() for array in reached.end()] == [[2]]
        first.finish()
        second.finish()

    with tf.Session() as session:
        session.run([mine.initializer, other.initializer, third.initializer])
        Service(serve, 2).run(session, *nodes)
        assert session.run([mine, other, third]) == [[2], [1], [7]]
        session.run([tf.assign(each, [1.0]) for each in (mine, other, third)])  # nothing is locked any more
