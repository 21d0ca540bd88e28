"""What a step's lookups do not need comes after what they need (bridge_first.cc): constants and handles wait for ids
that are there at once, and what comes out is the same."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, nodes_of, session, sparse_layer, sparse_value

import sok1x as sok

NAME = "sok1x_ids_are_there"


def waiting(run, fetched, feed=None):
    """(the nodes that wait for ids; by name the nodes that lookups need, themselves among them; what is waited for),
    of what a run is made of."""
    made = nodes_of(run, fetched, feed)

    def inputs(node):
        return [made[name.lstrip("^").split(":")[0]] for name in node.input]

    needed, look = {}, [node for node in made.values() if node.op in ("Sok1xLookup", "Sok1xLookups")]
    while look:
        node = look.pop()
        if node.name not in needed:
            needed[node.name] = node
            look += inputs(node)
    between = [node for node in made.values() if node.name.startswith(NAME)]
    waits = [node for node in made.values() if any(of.name.startswith(NAME) for of in inputs(node))]
    return waits, needed, [of for node in between for of in inputs(node)]


def model(ids, layers):
    """Losses, and a training step, of lookups and a dense layer."""
    outs = [layer(of, training=True) for layer, of in zip(layers, ids)]
    flat = tf.concat([tf.reshape(out, [4, np.prod(out.shape.as_list()[1:])]) for out in outs], axis=1)
    weights = tf.get_variable("weights", initializer=np.full([flat.shape[1], 3], 0.1, np.float32), use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.matmul(flat, weights) - 1))
    tables = [variable for layer in layers for variable in layer.trainable_variables]
    steps = [sok.tf.keras.optimizers.LazyAdamOptimizer(0.1).minimize(loss, var_list=tables),
             tf.train.AdamOptimizer(0.1).minimize(loss, var_list=[weights])]
    return [loss] + steps


def feeds(random, kept):
    bags = [list(random.randint(0, 20, random.randint(1, 4))) for _ in range(8)]
    return {kept[0]: random.randint(0, 20, [4, 2, 3]), kept[1]: sparse_value(bags, 3)}


@pytest.mark.parametrize("kept", ["fed", "variables"])
def test_values_are_the_same(seed, kept):
    """Two lookups, on one of whose ids all that they do not need waits; against a graph that is left as it is."""
    found = []
    for fuse in ("1", "0"):
        random = np.random.RandomState(seed)
        os.environ["SOK1X_FUSE"] = fuse
        try:
            with graph():
                tf.set_random_seed(3)
                fed = [tf.placeholder(tf.int64, [4, 2, 3]), tf.sparse_placeholder(tf.int64, [None, 3])]
                ids = fed
                if kept == "variables":
                    ids = [tf.get_variable("ids", initializer=random.randint(0, 20, [4, 2, 3]), trainable=False,
                                           use_resource=True), fed[1]]
                fetched = model([ids[0] if kept == "fed" else ids[0].read_value(), ids[1]],
                                [dense_layer(), sparse_layer()])
                with session() as run:
                    losses = [run.run(fetched, feeds(random, fed))[0] for _ in range(4)]
                    tables = [run.run(variable) for variable in tf.trainable_variables()]
                    waits, needed, of = waiting(run, fetched, feeds(random, fed))
            found.append((losses, tables))
            if fuse == "0":
                assert not waits and not of
                continue
            if kept == "fed" and tf.test.is_gpu_available():  # they come from the host
                assert needed and not waits and not of
                continue
            assert {node.op for node in waits} == {"Const", "VarHandleOp"} and len(waits) > 10
            assert not {node.name for node in waits} & set(needed) and {node.name for node in of} <= set(needed)
        finally:
            del os.environ["SOK1X_FUSE"]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for one, other in zip(found[0][1], found[1][1]):
        np.testing.assert_array_equal(one, other)


def test_ids_that_are_not_there_at_once():
    """What needs nothing runs while an input pipeline, or what makes ids out of others, is at work."""
    with graph():
        ids = np.arange(24).reshape(4, 2, 3)
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensors(ids).repeat())
        fed = tf.placeholder(tf.string, [4, 2, 3])
        made = [iterator.get_next(), tf.strings.to_hash_bucket_fast(fed, 20)]
        fetched = model(made, [dense_layer(), dense_layer()])
        with session() as run:
            run.run(iterator.initializer)
            waits, needed, of = waiting(run, fetched, {fed: ids.astype(str)})
            assert needed and not waits and not of


def test_a_lookup_in_a_branch_or_after_another_one():
    """Such a one is not waited for; what it needs, does not wait for it."""
    with graph():
        layers = [dense_layer() for _ in range(3)]
        fed = [tf.placeholder(tf.int64, [4, 2, 3]) for _ in layers]
        taken = tf.placeholder(tf.bool, [])
        first = layers[0](fed[0], training=True)
        then = layers[1](fed[1] + tf.cast(tf.reduce_sum(first) * 0, tf.int64), training=True)
        inside = tf.cond(taken, lambda: layers[2](fed[2], training=True) * 2, lambda: then)
        feed = dict.fromkeys(fed, np.arange(24).reshape(4, 2, 3) % 20)
        feed[taken] = True
        with session() as run:
            _, _, of = waiting(run, [first, then, inside], feed)
            assert [node.op for node in of] == ([] if tf.test.is_gpu_available() else ["_Arg"])  # fed on the host
            for value in (True, False):
                feed[taken] = value
                one, _, other = run.run([first, then, inside], feed)
                assert one.shape == other.shape


def test_a_partial_run():
    with graph():
        kept = tf.get_variable("ids", initializer=np.arange(24).reshape(4, 2, 3), use_resource=True, trainable=False)
        out = dense_layer()(kept.read_value(), training=True)
        fed = [tf.placeholder(tf.float32, []) for _ in range(2)]
        outs = [tf.reduce_sum(out) * 0 + one * tf.constant(2.0) for one in fed]
        with session() as run:
            handle = run.partial_run_setup(outs, fed)
            assert run.partial_run(handle, outs[0], {fed[0]: 3}) == 6
            assert run.partial_run(handle, outs[1], {fed[1]: 4}) == 8
