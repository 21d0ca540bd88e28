"""What goes wrong on one rank, for test_mpi_failures.py.

    mpiexec -np N python program_failures.py CASE...

Cases that ranks survive may follow one another in the same processes, each in a graph of its own.
"""
import os
import signal
import sys
import threading
import time

import failures_steps
import numpy as np
import tensorflow.compat.v1 as tf
from failures_model import Model, session

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def raises():
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    for step in range(1000):
        if step == 5 and RANK == 1:
            raise ValueError("made to fail on purpose")
        sess.run(model.train, model.feed([step, RANK]))


def raises_while_others_sleep():
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    sess.run(model.train, model.feed([1]))
    if RANK == 1:
        raise ValueError("made to fail on purpose")
    time.sleep(300)


def killed():
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    for step in range(1000000):
        if step == 20 and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        sess.run(model.train, model.feed([step % 90, RANK]))


def finalises():
    """Rank 1 finalises MPI, and sleeps; the others go on."""
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    for step in range(5):
        sess.run(model.train, model.feed([step, RANK]))
    if RANK == 1:
        from mpi4py import MPI
        MPI.Finalize()
        time.sleep(300)
    for step in range(1000000):
        sess.run(model.train, model.feed([step % 90, RANK]))


def different_layers():
    init, model = sok.Init(global_batch_size=4), Model(dim=4 + RANK)
    sess = session(model, init)
    sess.run(model.train, model.feed([1]))


def fewer_layers():
    init, model = sok.Init(global_batch_size=4), Model(count=1 + RANK)
    sess = session(model, init)
    sess.run(model.train, model.feed([1]))


def stops_feeding():
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    for step in range(3):
        sess.run(model.train, model.feed([step]))
    if RANK == 1:
        time.sleep(300)
    sess.run(model.train, model.feed([1]))


def never_meet():
    """Rank 0 trains, rank 1 evaluates: each waits for what the other will never run."""
    init, model = sok.Init(global_batch_size=4), Model()
    sess = session(model, init)
    sess.run(model.train, model.feed([1]))
    sess.run((model.train, model.evaluated)[RANK], model.feed([2]))


def slow_is_not_stuck():
    """Rank 1 takes its time, for longer than SOK1X_DEADLOCK_SECONDS, in all the ways in which it may."""
    init = sok.Init(global_batch_size=4)
    one, two = Model(), Model()
    seconds = tf.placeholder(tf.float32, [])

    def slow(keys, wait):
        time.sleep(float(wait))
        return keys

    late = tf.py_func(slow, [one.keys, seconds], tf.int64)
    late.set_shape([None, 1, 1])
    first = one.layers[0](late)
    # Work of TensorFlow's own: some seconds of one core, in a branch that the other lookup does not need.
    turns = tf.placeholder(tf.int32, [])
    work = tf.while_loop(lambda i, _: i < turns, lambda i, x: (i + 1, tf.matmul(x, x) / 500.0),
                         [0, tf.ones([500, 500])])
    with tf.control_dependencies([work[1]]):
        heavy = one.layers[0](tf.identity(one.keys))
    sess = session(one, init)
    sess.run(two.init)
    feed = {**one.feed([1, 2]), **two.feed([3])}
    sess.run([first, two.loss], {**feed, seconds: 2.5 * RANK})  # two.loss waits, and first will come
    if RANK == 1:
        time.sleep(2.5)  # between steps
    sess.run([first, two.loss], {**feed, seconds: 0.0})
    began, count = time.time(), 0
    while time.time() - began < 0.5:
        sess.run(work[1], {turns: 10})
        count += 10
    sess.run([heavy, two.loss], {**feed, turns: count * 5 * RANK})
    threads = [threading.Thread(target=lambda: sess.run(two.loss, feed)) for _ in range(2)]
    threads[0].start()
    if RANK == 1:
        time.sleep(2.5)  # the main thread will have more to run, though a thread waits
    sess.run(first, {**feed, seconds: 0.0})
    threads[1].start()
    for thread in threads:
        thread.join()
    print("rank", RANK, "ok")


def init_disagrees():
    with tf.Session() as sess:
        try:
            sess.run(sok.Init(global_batch_size=4 + RANK, seed=7))
        except tf.errors.InvalidArgumentError as error:
            message = error.message
            assert "global_batch_size" in message and "4" in message and "5" in message, message
        else:
            raise AssertionError("ranks that disagree were let in")
        assert sess.run(sok.Init(global_batch_size=4, seed=7)) == b"OK"
        assert sess.run(sok.Init(global_batch_size=999)) == b"OK", "a second Init is a no-op"


def expect(error, parts, run):
    try:
        run()
    except error as caught:
        for part in parts:
            assert part in caught.message, (part, caught.message)
    else:
        raise AssertionError("no {}".format(error.__name__))


def survives():
    """Errors of one rank that all ranks get, after which the same session goes on."""
    from sok1x import launch
    init = sok.Init(global_batch_size=4)
    full, direct = Model(rows=4), Model(rows=4, use_hashtable=False)
    with tf.Session() as sess:
        sess.run(init)
        sess.run(tf.global_variables_initializer())
        ranks = launch.current().size
        owner = ranks - 1  # its shard takes exactly V keys
        mine = [owner + ranks * i for i in range(4)]
        sess.run(full.train, full.feed(mine if RANK == 0 else []))
        others = [r for r in range(ranks)]  # a new key for every shard: one has no room, so none may take its key
        before = sess.run(full.evaluated, full.feed(mine))
        count = full.layers[0].embedding_variable
        expect(tf.errors.ResourceExhaustedError,
               ["'EmbeddingVariable'", "rank {}".format(owner), "4 of 4", "1 new keys", "max_vocabulary_size_per_gpu"],
               lambda: sess.run(full.train, full.feed([r + 100 * ranks for r in others] + mine)))
        np.testing.assert_array_equal(sess.run(full.evaluated, full.feed(mine)), before)
        used = [int(sess.run(v)) for v in tf.global_variables() if v.op.name == count.op.name + "/count"]
        assert used == [4 if RANK == owner else 0], used
        sess.run(full.train, full.feed(mine))

        good = list(range(4 * ranks))
        sess.run(direct.train, direct.feed(good))
        for bad in (-1, 4 * ranks, -2 ** 63, 2 ** 63 - 1):
            keys = good[:3] + [bad] if RANK == ranks - 1 else good
            expect(tf.errors.InvalidArgumentError,
                   ["'EmbeddingVariable_1'", "rank {}".format(ranks - 1), "key {}".format(bad), "position 3",
                    "[0, {})".format(4 * ranks)], lambda: sess.run(direct.train, direct.feed(keys)))
        sess.run(direct.train, direct.feed(good))
        # Some train, some evaluate.
        training = tf.placeholder(tf.bool, [])
        mixed = direct.layers[0](direct.keys, training)
        if ranks > 1:
            expect(tf.errors.InvalidArgumentError, ["training=True on ranks [0]"],
                   lambda: sess.run(mixed, {direct.keys: direct.feed(good)[direct.keys], training: RANK == 0}))
    print("rank", RANK, "ok")


def keys_beyond_their_type():
    """int64 ids that the 32 bits of a table's keys cannot hold, on one rank: all ranks hear of it, and go on."""
    from sok1x import launch
    init = sok.Init(global_batch_size=4)
    with tf.Session() as sess:
        sess.run(init)
    ranks = launch.current().size
    rank = ranks - 1
    for key_type, fits, bad in (("int32", [-2 ** 31, 2 ** 31 - 1], [2 ** 31, -2 ** 31 - 1, 2 ** 32 + 1]),
                                ("uint32", [0, 2 ** 32 - 1], [-1, 2 ** 32, 2 ** 32 + 1])):
        table = sok.DynamicVariable(2, "0", key_type=key_type, name="narrow")
        name, ids = "'{}'".format(table.table.name), tf.placeholder(tf.int64, [None])
        count = tf.size(ids, out_type=tf.int64)
        ragged = tf.RaggedTensor.from_row_lengths(ids, tf.ones([count], tf.int64))
        looks = [sok.all2all_dense_embedding(table, ids), sok.lookup_sparse(table, ragged, combiners="sum"),
                 sok.lookup_sparse(table, ragged.to_sparse(), combiners="sum")]
        steps = [tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(rows), var_list=[table])
                 for rows in looks] + [sok.assign(table, ids, tf.ones([count, 2]))]
        local, kept = tf.nn.embedding_lookup(table, ids), [*sok.export(table)]
        with tf.Session() as sess:
            sess.run(init)
            sess.run(tf.global_variables_initializer())
            expected = {}
            for number, step in enumerate(steps):
                sess.run(step, {ids: fits + [1]})
                for key in fits + [1]:
                    expected[key] = 1.0 if number == 3 else expected.get(key, 0.0) - 0.5 * ranks
                for wrong in bad:
                    batch = [1, wrong, 9] if RANK == rank else [1, 9]
                    expect(tf.errors.InvalidArgumentError,
                           [name, "on rank {}".format(rank), "key {} at position 1".format(wrong),
                            "key_type {}, in [{}, {}]".format(key_type, np.iinfo(key_type).min,
                                                              np.iinfo(key_type).max), "nothing was changed"],
                           lambda: sess.run(step, {ids: batch}))
                found = dict(zip(*[one.tolist() for one in sess.run(kept)]))
                assert all(values == [expected[key]] * 2 for key, values in found.items()), (found, expected)
                mine = [key for key in expected if key % ranks == RANK]
                assert sorted(found) == sorted(mine), (found, mine)
            if RANK == rank:  # no other rank takes part
                expect(tf.errors.InvalidArgumentError, [name, "key {} at position 0".format(bad[0])],
                       lambda: sess.run(local, {ids: bad[:1]}))
            assert sess.run(looks[0], {ids: fits}).tolist() == [[1, 1], [1, 1]]
    print("rank", RANK, "ok")


def sessions_and_graphs():
    """Train and evaluation graphs that take turns, and two sessions on one graph, each with its own tables."""
    train_graph, eval_graph = tf.Graph(), tf.Graph()
    with train_graph.as_default():
        init, model = sok.Init(global_batch_size=4), Model()
        one, two = session(model, init), session(model, init)
    with eval_graph.as_default():
        other = Model()
        three = session(other, sok.Init(global_batch_size=4))
    keys = [3, 4, 3]
    start = three.run(other.evaluated, other.feed(keys))
    np.testing.assert_array_equal(start, one.run(model.evaluated, model.feed(keys)))
    from sok1x import launch
    uses = np.array([2, 1, 2]).reshape(-1, 1, 1, 1) * launch.current().size
    for step in range(1, 31):
        one.run(model.train, model.feed(keys))
        if step % 3 == 0:
            two.run(model.train, model.feed(keys))
        np.testing.assert_allclose(one.run(model.evaluated, model.feed(keys)), start - 0.1 * step * uses, rtol=1e-4,
                                   atol=1e-4)
        np.testing.assert_array_equal(three.run(other.evaluated, other.feed(keys)), start)
    np.testing.assert_allclose(two.run(model.evaluated, model.feed(keys)), start - 0.1 * 10 * uses, rtol=1e-4,
                               atol=1e-4)
    print("rank", RANK, "ok")


if __name__ == "__main__":
    for case in sys.argv[1:]:
        with tf.Graph().as_default():
            (globals().get(case) or getattr(failures_steps, case))()
        sys.stdout.write("{} done\n".format(case))  # in one piece, for two ranks write
