"""Many requests at once: taken together, given outputs and memory together, finished together."""
import ctypes
import gc
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from bulk_service import Service, array, member, tensor, variable

from sok1x.graph_ops.bridge import bridge, bulk, library, op_functions
from sok1x.graph_ops.bridge.tensorflow_versions import own_words
from sok1x.launch import inbox


@pytest.fixture
def graph():
    # Where the tables of a test lie in the host's memory, NumPy can look at them.
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        yield graph


def finish_all(service, requests):
    bulk.RequestGroup(service.bridge, requests).finish()


@pytest.mark.parametrize("structure, dtype", [(bridge.TensorInfo, bulk.TENSOR), (bridge.RequestInfo, bulk.REQUEST)])
def test_numpy_sees_the_structures_as_ctypes_does(structure, dtype):
    assert dtype.itemsize == ctypes.sizeof(structure)
    assert dtype.names == tuple(name for name, _ in structure._fields_)
    for name, _ in structure._fields_:
        field, (kind, offset) = getattr(structure, name), dtype.fields[name]
        assert (offset, kind.itemsize) == (field.offset, field.size), name
        assert kind.base.kind in "iu", name


def test_all_requests_that_are_there_are_taken_at_once(graph):
    nodes = [member(number) for number in range(7)]
    with tf.Session() as session:
        for attempt in range(20):  # TensorFlow may be slow to enqueue them all
            service = Service(finish_all, 7, pause=0.05 * (attempt + 1))
            service.run(session, nodes)
            counts = [count for _, count in service.popped if count]
            assert sum(counts) == 7
            if counts == [7]:
                return
    pytest.fail("never more than {}".format(service.popped))


def test_no_more_are_taken_than_there_is_room_for(graph):
    def look(service, requests):
        last = service.popped[-1][1]
        for info, row in zip(service.intake.infos[:last], service.intake.table[:last]):
            for name in ("id", "kernel", "step", "session", "input_count", "resource_count"):
                assert getattr(info, name) == row[name], name
            assert info.request == row["request"]
        finish_all(service, requests)
        return [request.name for request in requests]

    nodes = [member(number) for number in range(5)]
    with tf.Session() as session:
        service = Service(look, 5, capacity=2, pause=0.1)
        service.run(session, nodes)
    assert service.result == [node.name for node in nodes]
    assert max(count for _, count in service.popped) <= 2 and len(service.popped) >= 3


@pytest.mark.parametrize("of_before", [0, 3])
def test_an_empty_queue_gives_nothing(graph, of_before):
    ended = [tf.Session() for _ in range(of_before)]
    for session in ended:
        Service(finish_all, 1).run(session, member(9))

    def look(service, requests):
        finish_all(service, requests)
        while ended:
            ended.pop().close()
        gc.collect()
        return service.take(0, 1000)

    with tf.Session() as session:
        service = Service(look, 1)
        service.run(session, member(0))
    assert service.result == (0, 0)


def test_who_waits_looks_into_the_inbox(graph):
    library.load()  # TensorFlow learns of the op where it is the first to load the library
    assert ctypes.sizeof(inbox.Inbox) == op_functions.Library(bridge.PATH).inbox_bytes()
    asked, expected = [], []

    @inbox.PROBE
    def probe(source, tag, comm, flag, status):
        assert (source, tag, comm, status) == (-3, 2, 1 << 40, 8)
        if len(asked) < expected[-1]:  # where a session ends at the same time, what is there is there the next time too
            asked.append(None)
        there = len(asked) == expected[-1]
        flag[0] = there and expected == [5]
        return there and expected == [5, 9]

    def look(service, requests):
        finish_all(service, requests)
        there, found = inbox.Inbox(probe, 1 << 40, 8, -3, 2), []
        for spin, wait, times in ((10 ** 8, 0, 5), (0, 10 ** 8, 9), (0, 0, 99)):  # until a message, an error, at once
            expected.append(times)
            found.append(service.take(spin, wait, ctypes.addressof(there), 1) + (len(asked),))
        return found

    with tf.Session() as session:
        service = Service(look, 1)
        service.run(session, member(0))
    assert service.result == [(0, 0, 5), (0, 0, 9), (0, 0, 9)]


def test_requests_come_while_the_inbox_is_watched(graph):
    empty = inbox.PROBE(lambda source, tag, comm, flag, status: 0)
    there = inbox.Inbox(empty, None, None, 0, 0)

    def look(service, requests):
        finish_all(service, requests[:1])
        kind, count = service.take(0, 10 ** 8, ctypes.addressof(there), 200)
        late = [bridge.Request(service.bridge, row) for row in service.intake.rows(count)]
        finish_all(service, late)
        return kind, count

    with tf.Session() as session:
        first = member(0)
        with tf.control_dependencies([first]):
            second = member(1)
        service = Service(look, 1)
        service.run(session, second)
    assert service.result == (bridge.REQUEST, 1)


def test_cancellations_come_after_the_requests(graph):
    def look(service, requests):
        ids = {request.id for request in requests}
        while ids:
            kind, count = service.take(30, 30000000)
            assert (kind, count) == (bridge.CANCELLATION, 1)
            ids.remove(service.intake.table["id"][0])
        finish_all(service, requests)

    nodes = [member(number) for number in range(3)]
    with tf.Session() as session:
        # By then all three have been taken, on a busy machine too.
        [error] = Service(look, 3).run(session, nodes, options=tf.RunOptions(timeout_in_ms=2000))
    assert isinstance(error, tf.errors.DeadlineExceededError)


def test_inputs_of_all_members_in_one_table(graph, seed):
    random = np.random.RandomState(seed)
    values = [random.normal(size=shape).astype("float32") for shape in [(), (0,), (3, 2), (1, 2, 1, 2, 1, 2, 1, 2)]]
    numbers = random.randint(0, 100, [4, 5])
    # The last has an input less than the others.
    nodes = [member(i, [value], host_inputs=[tf.constant(numbers[i])] if i < 3 else []) for i, value in
             enumerate(values)]

    def look(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        infos = group.inputs()
        assert infos.shape == (4, 2)
        for i, value in enumerate(values):
            assert infos["elements"][i, 0] == value.size and infos["dtype"][i, 0] == 1
            np.testing.assert_array_equal(tensor(infos[i, 0], "float32"), value)
            np.testing.assert_array_equal(requests[i].inputs[0].numpy(), value)
            if i < 3:
                np.testing.assert_array_equal(tensor(infos[i, 1], "int64"), numbers[i])
        assert infos[3, 1] == np.zeros((), bulk.TENSOR)
        group.finish()

    with tf.Session() as session:
        Service(look, 4).run(session, nodes)


def test_a_member_fails_and_the_others_do_not(graph):
    values = [np.float32(i) for i in range(4)]
    nodes = [member(i, [value], host_dtypes=[tf.float32])[0] for i, value in enumerate(values)]

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        infos = group.inputs()
        requests[1].finish(8, "by itself")
        group.finish_one(2, 3, "by its group, µ")
        pointers, codes = group.outputs([0, 1, 2, 3], [0] * 4, [()] * 4)
        assert codes.tolist() == [0, 9, 9, 0] and pointers[1:3].tolist() == [0, 0]
        for i in (0, 3):
            array(pointers[i], "float32", ())[...] = tensor(infos[i, 0], "float32") * 2
        group.finish()
        assert all(request.finished for request in requests)

    with tf.Session() as session:
        results = Service(serve, 4).run(session, *nodes)
    assert (results[0], results[3]) == (0, 6)
    assert isinstance(results[1], tf.errors.ResourceExhaustedError)
    assert isinstance(results[2], tf.errors.InvalidArgumentError)
    assert own_words(results[1].message).startswith("by itself")
    assert own_words(results[2].message).startswith("by its group, µ")


def test_outputs_of_many_shapes(graph, seed):
    random = np.random.RandomState(seed)
    shapes = [(), (0,), (3,), (2, 0, 4), (1, 2, 1, 2, 1, 2, 1, 2), (1000, 33)]
    values = [[random.randint(0, 100, shapes[j % 6]).astype(dtype) for j in (i, i + 1, 5 - i)]
              for i, dtype in enumerate(["float32", "int64", "uint8", "float16", "bool", "int32"])]
    dtypes = [[value.dtype.name for value in row] for row in values]
    nodes = [member(i, dtypes=row[:2], host_dtypes=row[2:]) for i, row in enumerate(dtypes)]
    places = [(i, j) for i in range(6) for j in range(3)]
    random.shuffle(places)

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        assert [request.device_output_count for request in requests] == [2] * 6
        pointers, codes = group.outputs(*zip(*places), [values[i][j].shape for i, j in places])
        assert not codes.any()
        for (i, j), pointer in zip(places, pointers):
            array(pointer, dtypes[i][j], values[i][j].shape)[...] = values[i][j]
        group.finish()

    with tf.Session() as session:
        results = Service(serve, 6).run(session, *nodes)
    for got, expected in zip(results, values):
        for left, right in zip(got, expected):
            assert left.dtype == right.dtype and left.shape == right.shape
            np.testing.assert_array_equal(left, right)


def test_outputs_from_an_array_of_shapes(graph):
    nodes = [member(i, dtypes=[tf.float32])[0] for i in range(3)]

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        shapes = np.array([[2, 3, 7], [4, 0, 7], [5, 1, 7]])
        pointers, codes = group.outputs(np.arange(3), np.zeros(3), shapes, ranks=[2, 2, 1])
        assert not codes.any() and pointers.dtype == np.int64
        assert group.outputs([3, -1], [0, 0], [(1,), (1,)])[1].tolist() == [9, 9], "there are no such members"
        array(pointers[0], "float32", (6,))[:] = np.arange(6)
        array(pointers[2], "float32", (5,))[:] = 1
        group.finish()

    with tf.Session() as session:
        first, empty, last = Service(serve, 3).run(session, *nodes)
    np.testing.assert_array_equal(first, np.arange(6).reshape(2, 3))
    assert empty.shape == (4, 0) and last.tolist() == [1] * 5


def test_memory_of_a_group_is_there_until_its_last_member_has_finished(graph):
    nodes = [member(i) for i in range(3)]

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        first, second, empty = [group.temporary(nbytes) for nbytes in (3 << 20, 3 << 20, 0)]
        array(first, "uint8", (3 << 20,))[:] = 1
        array(second, "uint8", (3 << 20,))[:] = 2
        for request in requests[:2]:
            request.finish()
        other = requests[2].temporary("uint8", 3 << 20)
        assert other.pointer not in (first, second)
        other.numpy()[:] = 3
        assert (array(first, "uint8", (3 << 20,)) == 1).all() and (array(second, "uint8", (3 << 20,)) == 2).all()
        del group  # which nobody has finished: the last member takes its memory along
        gc.collect()
        assert (array(first, "uint8", (3 << 20,)) == 1).all()
        requests[2].finish()
        return {first, second, other.pointer}

    with tf.Session() as session:
        services = [Service(serve, 3) for _ in range(3)]
        for service in services:
            service.run(session, nodes)
    assert services[0].result == services[1].result == services[2].result, "blocks are used again"


def test_outputs_of_one_request_together(graph):
    [first, second, third] = member(0, dtypes=[tf.float32, tf.int64], host_dtypes=[tf.int32])

    def serve(service, requests):
        arrays = requests[0].outputs([("float32", (2, 3)), ("int64", (0, 4))], [("int32", ())])
        assert [(made.dtype, made.shape, made.size) for made in arrays] == [
            ("float32", (2, 3), 6), ("int64", (0, 4), 0), ("int32", (), 1)]
        arrays[0].numpy()[...] = np.arange(6).reshape(2, 3)
        arrays[2].numpy()[...] = 7
        requests[0].finish()

    with tf.Session() as session:
        [got] = Service(serve, 1).run(session, [first, second, third])
    np.testing.assert_array_equal(got[0], np.arange(6).reshape(2, 3))
    assert got[1].shape == (0, 4) and got[2] == 7


def test_steps_leave_no_memory_behind(graph):
    table = variable("v", np.zeros(1000))
    nodes = [member(i, [tf.ones([100, 100])], [tf.float32], [table])[0].op for i in range(4)]
    steps = [0]

    def serve(service, requests):
        group = bulk.RequestGroup(service.bridge, requests)
        group.temporary(2 << 20)
        group.lock(exclusive=steps[0] % 2 == 0)
        pointers, _ = group.outputs(range(4), [0] * 4, [(1 << 18,)] * 4)
        for pointer in pointers:
            array(pointer, "float32", (1 << 18,))[:] = 1
        if steps[0] % 3:
            group.finish_one(steps[0] % 4)
        group.finish()
        steps[0] += 1

    with tf.Session() as session:
        session.run(table.initializer)
        resident = []
        for step in range(120):
            Service(serve, 4).run(session, nodes)
            if step in (39, 119):
                gc.collect()
                with open("/proc/self/statm") as file:  # now: once another test's may have been more
                    resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
    assert resident[1] - resident[0] < 60, resident  # MiB; what 80 steps take is 8 times that
