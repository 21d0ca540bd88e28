"""What is told of tables that grow or forget, session by session: it goes with its session, and does not pile up."""
import ctypes
import threading
import time
import types

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import plan
from sok1x.graph_ops.stores import known_slots, step_times
from sok1x.graph_ops.stores.table import Initializer, Table

TABLE = Table("told", 8, 4, "hashed", "int64", Initializer("zeros"))


def test_what_is_told_goes_with_its_session():
    """Sessions that are initialized one after the other: each is told its own slots, once."""
    slot = known_slots.Slot("told/m", "", 0.5)
    sessions = [types.SimpleNamespace(session=(1 << 60) + number, plan=None) for number in range(50)]
    for request in sessions:
        known_slots.note_initialized(request, TABLE.name)
        assert known_slots.of(request, TABLE) == []
        assert known_slots.address(request, TABLE) == known_slots.address(request, TABLE)
        known_slots.note_initialized(request, TABLE.name, slot)
        assert known_slots.of(request, TABLE) == [slot]
    told = known_slots._told[TABLE.name]
    assert len(told) == len(sessions)
    assert {len(one._kept) for one in told.values()} == {2}  # no slots, and the one: not anew for each other session
    known_slots.leave_to_python(sessions[0].session, TABLE.name, True)
    assert [key for key, one in told.items() if one.pointer.value is None] == [(sessions[0].session, None)]
    for request in sessions:
        known_slots.end_session(request.session)
    assert TABLE.name not in known_slots._told
    assert not {request.session for request in sessions}.intersection(known_slots._of_sessions)
    assert not [key for key in known_slots._python_only if key[1] == TABLE.name]


def test_a_slot_goes_whoever_holds_locks():
    """Python collects garbage at any allocation, of those too that are made with a lock held."""
    slot, other = known_slots.Slot("goes/m", "", 0.5), known_slots.Slot("goes/v", "", 0.25)
    request = types.SimpleNamespace(session=(1 << 60) + 100, plan=plan.unordered().number)
    known_slots.note_eager(TABLE.name, slot)
    known_slots.note_eager(TABLE.name, other)
    known_slots.note_initialized(request, TABLE.name, slot, other)
    assert known_slots.of(request, TABLE) == [slot, other]
    told = ctypes.c_void_p.from_address(known_slots.address(request, TABLE))
    try:
        for name, lock in (("plan", plan._lock), ("known_slots", known_slots._lock)):
            forgets = threading.Thread(target=known_slots.forget, args=(TABLE.name, slot), daemon=True)
            with lock:
                forgets.start()
                forgets.join(20)
                assert not forgets.is_alive(), name
        assert known_slots.of(request, TABLE) == [other]
        assert ctypes.c_int64.from_address(told.value).value == 1
        known_slots.forget(TABLE.name, other)
        known_slots.note_eager(TABLE.name, slot)  # of the name that another had
        assert known_slots.of(request, TABLE) == [slot]
        assert not known_slots._gone
    finally:
        known_slots.forget(TABLE.name, slot)
        known_slots.end_session(request.session)


def test_closed_sessions_leave_nothing():
    with tf.Graph().as_default() as graph:
        table = sok.DynamicVariable(4, "uniform", max_capacity=64, evict_strategy="lru", name="closes")
        out, = sok.lookup_sparse([table], [tf.RaggedTensor.from_row_lengths(tf.constant([3, 5, 7], tf.int64), [2, 1])])
        gradient, = tf.gradients(tf.reduce_sum(out ** 2), table)
        step = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1)).apply_gradients([(gradient, table)])
        initializer = tf.global_variables_initializer()
    for _ in range(3):
        with tf.Session(graph=graph) as session:
            session.run(sok.Init(global_batch_size=2))
            session.run(initializer)
            for _ in range(3):
                first, _ = session.run([out, step])
            assert table.table.name in known_slots._told
            assert not np.array_equal(first, session.run(out))
    ends = time.monotonic() + 120  # a session ends when TensorFlow has let its kernels go
    name, logs = table.table.name, step_times._logs
    while time.monotonic() < ends and (name in known_slots._told or any(name in log for log in logs.values())):
        time.sleep(0.01)
    assert name not in known_slots._told
    assert not [1 for of_session in (known_slots._of_sessions, step_times._logs) for one in of_session.values()
                if name in one]


def test_sessions_of_a_server_share_what_is_known():
    """As they share the variables, which stay when one of them is closed."""
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        table = sok.DynamicVariable(4, "uniform", max_capacity=64, evict_strategy="lru", name="served")
        keys = tf.placeholder(tf.int64, [None])
        out, = sok.lookup_sparse([table], [tf.RaggedTensor.from_row_lengths(keys, [1, 1])])
        gradient, = tf.gradients(tf.reduce_sum(out ** 2), table)
        step = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1)).apply_gradients([(gradient, table)])
        initializer = tf.global_variables_initializer()
    for first in (1, 3):
        with tf.Session(server.target, graph=graph) as session:
            session.run(sok.Init(global_batch_size=2))
            if first == 1:
                session.run(initializer)
            session.run(step, {keys: [first, first + 1]})
        time.sleep(1)  # until the session's end has come, or not
        assert table.table.name in known_slots._told
        assert any(table.table.name in log for log in step_times._logs.values())
