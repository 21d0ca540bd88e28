"""What comes in the middle of a save by the same object: another thread's, a signal's handler's, or its end."""
import gc
import os

import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, LockedError
from sok1x.checkpoint.files import folder_lock, folders, manifest, publishing
from sok1x.checkpoint.session.ranks import Ranks
from sok1x.checkpoint.session.saving import Saving

BY_THREADS = """
import os, sys, threading
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x import launch
from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.session.ranks import Ranks

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
sok.init()
table = sok.DynamicVariable(dimension=2, initializer="1", name="table", init_capacity=4)
loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([1, 2], tf.int64)))
train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, var_list=[table])
manager, saver, init = sok.CheckpointManager(sys.argv[1]), tf.train.Saver(), tf.global_variables_initializer()
sessions, exported, gather, waits = [tf.Session(), tf.Session()], sok.export(table), Ranks._gather, threading.Event()
first, failed = launch.current().rank, []
if first:
    with tf.Session() as alone:  # which no other rank has
        alone.run(saver._number)
    del alone

def seen(ranks, session, payload):
    if session is sessions[first]:
        waits.set()
    return gather(ranks, session, payload)

def values(session):
    return sorted(map(tuple, session.run(exported)[1].tolist()))

def save(number):
    if number != first:
        waits.wait()  # the other thread is in its save, which on the other rank begins after this one
    try:
        manager.save(sessions[number], int(sys.argv[2 + number]))
    except BaseException as error:
        failed.append(error)
        raise

for number, session in enumerate(sessions):
    session.run(init)
    for _ in range(number + 1):
        session.run(train)
saved = [values(session) for session in sessions]
assert saved[0] and saved[0] != saved[1], saved
Ranks._gather = seen
threads = [threading.Thread(target=save, args=[number]) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
for number, session in enumerate(sessions):
    step = int(sys.argv[2 + number])
    assert manager.restore(session, step) == step
    assert values(session) in (saved if sys.argv[2] == sys.argv[3] else [saved[number]]), step
print("saved", sorted(os.listdir(sys.argv[1])))

prefixes = [os.path.join(sys.argv[1], folder, "m") for folder in "ab"]
for prefix in (prefixes[first], prefixes[0]):
    try:
        saver.save(sessions[first], prefix)
        raise AssertionError("saved")
    except CheckpointError as error:
        assert str(error).startswith("The ranks save different sessions: rank 0: " + prefixes[0]), error
    assert not any(map(os.path.exists, prefixes + [os.path.dirname(each) for each in prefixes]))
saved = [values(session) for session in sessions]
for session, prefix in zip(sessions, prefixes):
    assert saver.save(session, prefix) == prefix
for number, prefix in enumerate(prefixes):
    saver.restore(sessions[0], prefix)
    assert values(sessions[0]) == saved[number], number
print("alike")
"""


@pytest.mark.parametrize("steps", [(1, 2), (7, 7)])
def test_threads_whose_saves_come_in_another_order_on_each_rank(tmp_path, steps):
    """Of two sessions by one manager: a thread's save waits for the other ranks, and not for the other thread's. By one
    tf.train.Saver they are refused, before anything is written."""
    finished = run_ranks(2, BY_THREADS, tmp_path, *steps, timeout=60)
    names = [".sok1x.lock", "checkpoint"] + ["model.ckpt-{}".format(step) for step in sorted(set(steps))]
    assert finished.out.count("saved {}\n".format(names)) == finished.out.count("alike") == 2, str(finished)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("inside_of", [(manifest, "write"), (Ranks, "_gather")], ids=["write", "exchange"])
def test_a_save_inside_of_another_leaves_that_its_own_folder(tmp_path, monkeypatch, inside_of, fails):
    """As in a signal's handler."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable([[1.0]], name="table")
        manager, stock, at_work = sok.CheckpointManager(str(tmp_path)), getattr(*inside_of), set(folders.at_work)
        session.run(tf.global_variables_initializer())

        def interrupted(*arguments):
            monkeypatch.undo()
            assert manager.save(session, 2) == str(tmp_path / "model.ckpt-2")
            if fails:
                raise CheckpointError("no")
            return stock(*arguments)

        monkeypatch.setattr(*inside_of, interrupted)
        try:
            assert manager.save(session, 1) == str(tmp_path / "model.ckpt-1") and not fails
        except CheckpointError:
            assert fails
        assert folders.at_work == at_work
        assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "checkpoint"] + ["model.ckpt-1"] * (not fails) + [
            "model.ckpt-2"]
        for step in [2] if fails else [1, 2]:
            session.run(table.assign([[0.0]]))
            assert manager.restore(session, step) == step and session.run(table).tolist() == [[1.0]]


def test_a_save_holds_its_folder_whoever_lets_go_of_it_meanwhile(tmp_path, monkeypatch):
    """As a hook that two sessions have, which one of them ends in another thread."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable([[1.0]], name="table")
        manager, stock = sok.CheckpointManager(str(tmp_path)), manifest.write
        session.run(tf.global_variables_initializer())

        def closed(*arguments):
            manager._saving.close()
            assert folder_lock.is_held(str(tmp_path))
            stock(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(manifest, "write", closed)
            assert manager.save(session, 1) == str(tmp_path / "model.ckpt-1")
        assert sorted(os.listdir(str(tmp_path))) == [".sok1x.lock", "checkpoint", "model.ckpt-1"]
        assert not folder_lock.is_held(str(tmp_path))
        session.run(table.assign([[0.0]]))
        assert manager.restore(session) == 1 and session.run(table).tolist() == [[1.0]]


def test_a_saver_s_save_inside_of_another_is_of_its_own_prefix(tmp_path, monkeypatch):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(dimension=2, initializer="1", name="table", init_capacity=8, cache_rows=4)
        rows = sok.all2all_dense_embedding(table, tf.constant([1, 2], tf.int64))
        saver, stock = tf.train.Saver(), manifest.write
        session.run(tf.global_variables_initializer())
        expected = session.run(rows).tolist()
        paths = [str(tmp_path / folder / "saved") for folder in ("outer", "inner")]

        def interrupted(*arguments):
            monkeypatch.undo()
            assert saver.save(session, paths[1]) == paths[1]
            stock(*arguments)

        monkeypatch.setattr(manifest, "write", interrupted)
        assert saver.save(session, paths[0]) == paths[0]
        for path in paths:
            saver.restore(session, path)
            assert session.run(rows).tolist() == expected
            assert not [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")]
            assert not folder_lock.is_held(os.path.dirname(path))


def test_a_saver_s_save_that_fails_holds_nothing_while_its_error_is_there(tmp_path, monkeypatch):
    """Its traceback has the frames of the save, and they may be a cycle."""
    def fail(*_arguments):
        raise CheckpointError("no")

    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.DynamicVariable(dimension=2, initializer="1", name="table", init_capacity=8, cache_rows=4)
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        monkeypatch.setattr(publishing, "publish_as", fail)
        gc.disable()
        try:
            with pytest.raises(CheckpointError, match="no") as raised:
                saver.save(session, str(tmp_path / "saved"))
            assert not folder_lock.is_held(str(tmp_path)), raised
        finally:
            gc.enable()


def test_a_save_whose_folder_another_job_takes_meanwhile_leaves_no_token(tmp_path, monkeypatch):
    """Another thread has let go of the folder."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        sok.Variable([[1.0]], name="table")
        manager, at_work = sok.CheckpointManager(str(tmp_path)), set(folders.at_work)
        session.run(tf.global_variables_initializer())
        expect_free, taken = publishing.expect_free, folder_lock.FolderLock(str(tmp_path))

        def closed(*arguments, **options):
            manager._saving.close()
            taken.acquire()
            expect_free(*arguments, **options)

        monkeypatch.setattr(publishing, "expect_free", closed)
        with taken, pytest.raises(LockedError, match="saves checkpoints to"):
            taken.release()
            manager.save(session, 1)
        assert folders.at_work == at_work and os.listdir(str(tmp_path)) == [".sok1x.lock"]


def test_who_interrupts_the_end_of_a_savers_save_does_not_keep_the_folder(tmp_path, monkeypatch):
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, initializer="1", name="t", cache_rows=4)  # of which a Saver's is ours
        session.run(tf.global_variables_initializer())
        session.run(sok.all2all_dense_embedding(table, tf.constant([1, 2], tf.int64)))
        saver = tf.train.Saver()
        with monkeypatch.context() as patched:
            patched.setattr(Saving, "_end_removal", lambda self: [][1])
            with pytest.raises(IndexError):
                saver.save(session, str(tmp_path / "m"))
        assert not folder_lock.is_held(str(tmp_path))
        assert saver.save(session, str(tmp_path / "m")) == str(tmp_path / "m")
