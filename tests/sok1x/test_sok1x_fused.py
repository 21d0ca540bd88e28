"""Lookups, gradients and optimizers' steps that could run at the same time are one node of TensorFlow's executor
(bridge_fusing.cc): what comes out is what they give as nodes of their own."""
import ctypes
import os
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, nodes_of, session, sparse_constant, sparse_layer
from tensorflow.python.ops import control_flow_ops

import sok1x as sok
from sok1x.graph_ops.bridge import bridge, library, op_functions, op_types

v1 = tf


TYPES = {"dense_lookup.forward": "Sok1xLookup", "combined_lookup.forward": "Sok1xLookup",
         "dense_lookup.backward": "Sok1xGradient", "combined_lookup.backward": "Sok1xGradient",
         "distinct_rows.find": "Sok1xDistinct", "adam.lazy_step": "Sok1xUpdate",
         "gradient_descent.step": "Sok1xUpdate"}


def nodes(run, fetched, feed=None, fused=True):
    """The functions of the nodes that a run has of ours by fusing, or of the others: a list of members' for each."""
    found = []
    for node in nodes_of(run, fetched, feed).values():
        if not node.op.startswith("Sok1x"):
            continue
        made = list(node.attr["functions"].list.s)
        if bool(made) == fused:
            found.append([name.decode().split(".", 1)[1] for name in made or [node.attr["function"].s]])
            assert TYPES.get(found[-1][-1], "Sok1xCall") + "s" * (len(made) > 1) == node.op
            follows = list(node.attr["follows"].list.i)  # with their steps, a gradient each
            assert [of for of in follows if of >= 0] == list(range(len(set(follows)) - 1)), follows
    return sorted(found)


def keys(random, count=4):
    return tf.constant(random.randint(0, 20, [count, 2, 3]), tf.int64)


def test_a_step_of_many_tables(seed):
    """Values and rows after three steps, with nodes for all of a kind and with a node for each op."""
    found = []
    for fuse in ("1", "0"):
        random = np.random.RandomState(seed)
        os.environ["SOK1X_FUSE"] = fuse
        try:
            with graph() as made:
                v1.set_random_seed(3)
                layers = [dense_layer(embedding_vec_size=2 + i) for i in range(3)] + [sparse_layer() for _ in range(2)]
                outs = [layer(keys(random), training=True) for layer in layers[:3]]
                bags = [[list(random.randint(0, 20, random.randint(0, 4))) for _ in range(8)] for _ in range(2)]
                outs += [layer(sparse_constant(of, 3), training=True) for layer, of in zip(layers[3:], bags)]
                loss = tf.add_n([tf.reduce_sum(out ** 2 * (1 + i)) for i, out in enumerate(outs)])
                train = sok.tf.keras.optimizers.LazyAdamOptimizer(0.1).minimize(
                    loss, var_list=[v for layer in layers for v in layer.trainable_variables])
                values = [tf.reduce_sum(layer.trainable_variables[0].read_value(), axis=0) for layer in layers]
                with session() as run:
                    losses = [run.run([loss, train])[0] for _ in range(3)]
                    found.append((losses, run.run(values)))
                    apart = nodes(run, [loss, train], fused=False)
                    together = nodes(run, [loss, train])
                assert len(apart) == (0 if fuse == "1" else 20), apart
                assert together == ([] if fuse == "0" else [
                    ["combined_lookup.backward"] * 2 + ["adam.lazy_step"] * 2, ["combined_lookup.forward"] * 2,
                    ["dense_lookup.backward"] * 3 + ["adam.lazy_step"] * 3, ["dense_lookup.forward"] * 3,
                    ["distinct_rows.find"] * 5])
                types = {op.type for op in made.get_operations() if op.type.startswith("Sok1x")}
                assert types - op_types.TYPES == {"Sok1xTellStep"}
        finally:
            del os.environ["SOK1X_FUSE"]
    for one, other in zip(*found):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def test_what_needs_each_other_stays_apart():
    """Chains in both directions: rows of one table say what is looked up in the other."""
    with graph():
        a, b = dense_layer(), dense_layer()
        first = tf.constant(np.arange(6).reshape(1, 2, 3), tf.int64)

        def then(rows):
            return tf.cast(tf.reduce_sum(rows, axis=3) * 0, tf.int64) + 7

        ab = b(then(a(first, training=True)), training=True)
        ba = a(then(b(first, training=True)), training=True)
        with session() as run:
            assert nodes(run, [ab, ba]) == [["dense_lookup.forward"] * 2] * 2
            # What else is asked for makes other nodes of the same ops.
            assert nodes(run, ab) == [["dense_lookup.forward"]] * 2
            one, other = run.run([ab, ba])
            np.testing.assert_array_equal(one, run.run(ab))
            np.testing.assert_array_equal(other, run.run(ba))


def test_conds_and_loops():
    """In a branch, a loop and after a loop an op stays by itself; what comes after a cond always runs, and is fused."""
    with graph():
        layers = [dense_layer() for _ in range(9)]
        random = np.random.RandomState(0)
        taken = v1.placeholder(tf.bool, [2])

        def look_up(number):
            return layers[number](keys(random), training=True)

        outs = [look_up(0), look_up(1)]
        inner = tf.cond(taken[1], lambda: outs[0] * 3, lambda: outs[0])
        after = tf.cond(taken[0], lambda: inner * 2, lambda: look_up(2))
        with tf.control_dependencies([after, tf.debugging.assert_less(tf.reduce_max(outs[1]), 1e9)]):
            outs += [look_up(3), look_up(4)]
        nested = tf.cond(taken[0], lambda: tf.cond(taken[1], lambda: look_up(5), lambda: outs[0]), lambda: outs[1])
        with tf.control_dependencies([tf.while_loop(lambda i: i < 2, lambda i: i + 1, [0])]):
            outs += [look_up(6), look_up(7)]
        other = tf.cond(taken[1], lambda: outs[0], lambda: look_up(8))
        # A Merge that joins no cond's two branches: of two choices, of which the run takes one each.
        halves = [control_flow_ops.switch(outs[0], taken[0])[0], control_flow_ops.switch(outs[1], taken[1])[1]]
        with tf.control_dependencies([control_flow_ops.merge(halves)[0]]):
            outs.append(look_up(8))
            outs.append(look_up(2))
        fetched = [after, nested, other] + outs
        with session() as run:
            for values in ([True, True], [False, True], [False, False]):
                feed = {taken: values}
                assert nodes(run, fetched, feed) == [["dense_lookup.forward"] * 2] * 2
                assert nodes(run, fetched, feed, fused=False).count(["dense_lookup.forward"]) == 7
                assert run.run(after, feed).shape == run.run(nested, feed).shape == (4, 2, 3, 4)


def test_ids_that_are_checked():
    """Ragged ids, whose making asserts that they fit together, are looked up in one node."""
    with graph():
        tables = [sok.Variable(np.ones([5, 2], np.float32)) for _ in range(3)]
        lengths = v1.placeholder(tf.int64, [None])
        bags = [tf.RaggedTensor.from_row_lengths(tf.constant([0, 4, 1], tf.int64), lengths) for _ in tables]
        outs = sok.lookup_sparse(tables, bags, combiners="sum")
        step = sok.SGD(0.5).apply_gradients(list(zip(tf.gradients(tf.add_n(outs), tables), tables)))
        with session() as run:
            assert [len(one) for one in nodes(run, step, {lengths: [1, 0, 2]})] == [6, 3, 3]
            with pytest.raises(tf.errors.InvalidArgumentError):
                run.run(step, {lengths: [1, 0, 1]})
            run.run(step, {lengths: [2, 1]})


def test_partial_run():
    """What has been asked for first cannot wait for what will be fed later."""
    with graph():
        layers = [dense_layer(), dense_layer()]
        fed = [v1.placeholder(tf.int64, [1, 2, 3]) for _ in layers]
        outs = [layer(of, training=True) for layer, of in zip(layers, fed)]
        value = np.arange(6).reshape(1, 2, 3)
        with session() as run:
            handle = run.partial_run_setup(outs, fed)
            first = run.partial_run(handle, outs[0], {fed[0]: value})
            second = run.partial_run(handle, outs[1], {fed[1]: value})
            np.testing.assert_array_equal([first, second], run.run(outs, dict.fromkeys(fed, value)))


def test_one_that_fails_is_named_and_fails_alone():
    with graph():
        layers = [dense_layer(max_vocabulary_size_per_gpu=8) for _ in range(3)]
        fed = [v1.placeholder(tf.int64, [None, 2, 3]) for _ in layers]
        outs = [layer(of, training=True) for layer, of in zip(layers, fed)]
        loss = tf.add_n([tf.reduce_sum(out) for out in outs])
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        small, large = np.arange(6).reshape(1, 2, 3), np.arange(12).reshape(2, 2, 3)
        with session() as run:
            run.run(train, dict.fromkeys(fed, small))
            before = run.run([layer.trainable_variables[0].read_value() for layer in layers])
            with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
                run.run(train, dict(zip(fed, [small, large, small])))
            assert layers[1].trainable_variables[0].op.name in caught.value.message
            assert caught.value.op is not None and caught.value.op.type == "Sok1xLookup"
            assert fed[1] in caught.value.op.inputs[:] or fed[1].op in [i.op for i in caught.value.op.inputs]
            np.testing.assert_array_equal(
                before, run.run([layer.trainable_variables[0].read_value() for layer in layers]))
            run.run(train, dict.fromkeys(fed, small))


def test_one_alone_that_fails_is_named():
    """The op that somebody wrote, not the node that it has become; also of a session.run after the first, whose ops
    have names of their own."""
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=8)
        fed = v1.placeholder(tf.int64, [None, 2, 3])
        out = layer(fed, training=True)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(out))
        with session() as run:
            for fetched in (train, out):
                small, large = {fed: np.arange(6).reshape(1, 2, 3)}, {fed: np.arange(12).reshape(2, 2, 3)}
                run.run(fetched, small)
                assert ["dense_lookup.forward"] in nodes(run, fetched, small)
                with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
                    run.run(fetched, large)
                assert caught.value.op is out.op
                assert layer.trainable_variables[0].op.name in caught.value.message


def test_not_initialized():
    with graph():
        layers = [dense_layer() for _ in range(2)]
        outs = [layer(keys(np.random.RandomState(1)), training=True) for layer in layers]
        with session(initialize=False) as run:
            run.run(v1.variables_initializer(layers[0].variables))
            with pytest.raises(tf.errors.FailedPreconditionError, match="initializ"):
                run.run(outs)


@pytest.mark.parametrize("stopped", [False, True])
def test_several_threads_and_a_stop(stopped):
    """The same nodes in flight several times; a session that is closed meanwhile leaves nothing waiting."""
    library.load()
    loaded = op_functions.Library(bridge.PATH).loaded
    for name in ("kept", "waiting"):
        getattr(loaded, "sok1x_kept_sums_" + name).restype = ctypes.c_int64
    began = loaded.sok1x_kept_sums_kept()
    with graph():
        layers = [dense_layer() for _ in range(4)]
        outs = [layer(keys(np.random.RandomState(2)), training=True) for layer in layers]
        train = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.0), average=False).minimize(
            tf.add_n([tf.reduce_sum(out) for out in outs]), var_list=[layer.embedding_variable for layer in layers])
        failures, runs = [], []
        with session() as run:
            expected = run.run(outs)

            def work():
                try:
                    while stopped or len(runs) < 150:
                        np.testing.assert_array_equal(run.run([outs, train])[0], expected)
                        runs.append(1)
                except Exception as error:  # noqa: B902 - a thread's
                    failures.append(error)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            while stopped and len(runs) < 30 and not failures:
                time.sleep(0.001)
            if stopped:
                run.close()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
        assert len(failures) == (3 if stopped else 0), failures
        for error in failures:
            assert isinstance(error, tf.errors.CancelledError) or "closed" in str(error), error
        assert loaded.sok1x_kept_sums_kept() > began and loaded.sok1x_kept_sums_waiting() == 0
        with session() as run:  # another is as ever
            np.testing.assert_array_equal(run.run(outs), expected)


def parts(run, fetched):
    """Of a run's fused lookups: resources and outputs of their nodes; and how many nodes of handles there are."""
    made = nodes_of(run, fetched).values()
    lookups = [(node.attr["Nr"].i, len(node.attr["Tout"].list.type) + len(node.attr["Thost_out"].list.type))
               for node in made if node.op in ("Sok1xLookup", "Sok1xLookups")]
    return sorted(lookups), sum(node.op == "VarHandleOp" for node in made)


def test_handles_and_outputs_that_nobody_needs(seed):
    """A fused node has no inputs for its variables, and no outputs that nobody reads; those that are read are as those
    of nodes of their own, whichever they are."""
    random = np.random.RandomState(seed)
    with graph():
        layers = [dense_layer(), dense_layer(), sparse_layer(), sparse_layer(combiner="mean")]
        given = [keys(random) for _ in range(2)]
        given += [sparse_constant([list(random.randint(0, 20, random.randint(1, 4))) for _ in range(8)], 3)
                  for _ in range(2)]
        outs = [layer(of, training=True) for layer, of in zip(layers, given)]
        saved = [[output for output in out.op.outputs[1:] if output.dtype == tf.int32] for out in outs]
        some = [outs[0], saved[0][0], saved[1][0], saved[1][1], outs[2], saved[3][0]]
        values = [layer.trainable_variables[0].read_value() for layer in layers]
        with session() as run:
            run.run(outs)  # all keys have rows from now on
            assert parts(run, outs) == ([(0, 2)] * 2, 0)
            assert parts(run, some) == ([(0, 2), (0, 4)], 0)
            lookups, handles = parts(run, outs + values)  # who else reads a handle still has it
            assert (lookups, handles) == ([(0, 2)] * 2, 4)
            alone = [run.run(tensor) for tensor in some]  # nodes of their own
            for one, other in zip(run.run(some), alone):
                np.testing.assert_array_equal(one, other)


def test_a_variable_that_is_destroyed_and_made_anew():
    """What a fused node knows of its variables is no longer used then: it is not initialized, and then it is new."""
    with graph():
        layers = [dense_layer(embedding_initializer="ones") for _ in range(2)]
        given = tf.constant(np.arange(12).reshape(2, 2, 3), tf.int64)
        outs = [layer(given, training=True) for layer in layers]
        rows = layers[1].trainable_variables[0]
        train = v1.train.GradientDescentOptimizer(0.5).minimize(
            tf.add_n([tf.reduce_sum(out) for out in outs]), var_list=[layer.trainable_variables[0] for layer in layers])
        destroy = tf.raw_ops.DestroyResourceOp(resource=rows.handle)
        initialize = v1.variables_initializer(layers[1].variables)
        with session() as run:
            for _ in range(2):
                run.run(train)
                assert np.all(run.run(outs)[1] == 0.5)
                run.run(destroy)
                with pytest.raises(tf.errors.FailedPreconditionError, match="initializ"):
                    run.run(outs)
                run.run(initialize)
                assert np.all(run.run(outs)[1] == 1)
