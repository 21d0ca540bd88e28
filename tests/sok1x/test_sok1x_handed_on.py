"""What many nodes read of a fused node they get by way of one that hands it on (bridge_handing.cc), and what its
members make lies side by side (LookupMembers::CutOutputs): what comes out is what nodes of their own give."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, nodes_of, session

import sok1x as sok


def handed_on(run, fetched, feed=None):
    """Of the nodes that hand on, each: how many inputs it has, and what reads it, by type."""
    nodes = nodes_of(run, fetched, feed)
    found = []
    for name, node in nodes.items():
        if not name.endswith("/handed_on"):
            continue
        assert node.op == "IdentityN"
        assert {each.split(":")[0] for each in node.input} == {name[:-len("/handed_on")]}, node.input
        readers = [other.op for other in nodes.values()
                   if any(each.lstrip("^").split(":")[0] == name for each in other.input)]
        found.append((len(node.input), sorted(set(readers))))
    return found


def batches(random):
    """Keys of tables: none, one, as many as a tensor's part is aligned to, and some more or fewer; with repeats."""
    return [random.randint(0, 30, [count, 1]) for count in (0, 1, 63, 64, 65, 7, 130, 2, 0, 200)]


def stepped(keys, optimizer, fuse):
    """Losses of three steps, rows after them and how they went: each table's rows are read by nodes of their own."""
    os.environ["SOK1X_FUSE"] = fuse
    try:
        with graph():
            tf.set_random_seed(3)
            layers = [dense_layer(embedding_vec_size=1 + 3 * i, slot_num=1, nnz_per_slot=1,
                                  max_vocabulary_size_per_gpu=32) for i in range(len(keys))]
            outs = [layer(tf.constant(each.reshape(-1, 1, 1), tf.int64), training=True)
                    for layer, each in zip(layers, keys)]
            loss = tf.add_n([tf.reduce_sum(out ** 2 * (1 + i) + out) for i, out in enumerate(outs)])
            train = optimizer().minimize(loss, var_list=[v for layer in layers for v in layer.trainable_variables])
            counts = [layer(tf.constant([[[5]]], tf.int64), training=False) for layer in layers]
            with session() as run:
                losses = [run.run([loss, train])[0] for _ in range(3)]
                rows = run.run([layer.trainable_variables[0].read_value() for layer in layers])
                return losses, rows, run.run(counts), handed_on(run, [loss, train])
    finally:
        del os.environ["SOK1X_FUSE"]


@pytest.mark.parametrize("optimizer", [lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
                                       lambda: tf.train.GradientDescentOptimizer(0.1),
                                       lambda: tf.train.AdamOptimizer(0.1)], ids=["lazyadam", "sgd", "adam"])
def test_steps_of_many_tables(seed, optimizer):
    """On a host bit for bit what each table's own node gives, tables without keys among them."""
    keys = batches(np.random.RandomState(seed))
    losses, rows, counts, handed = stepped(keys, optimizer, "1")
    assert handed and {count for count, _ in handed} == {len(keys)}, handed  # an optimizer of TensorFlow's reads more
    assert not any(reader.startswith("Sok1x") for _, readers in handed for reader in readers), handed
    others = stepped(keys, optimizer, "0")
    assert others[3] == []
    # On a GPU the terms of a row's sum come in no certain order.
    error = 1e-6 if os.environ.get("SOK1X_TEST_DEVICE") == "gpu" else 0
    for mine, other in zip([losses] + rows + counts, [others[0]] + others[1] + others[2]):
        np.testing.assert_allclose(mine, other, rtol=error, atol=error / 10)
    assert len(set(losses)) == 3


def test_rows_are_those_of_their_tables(seed):
    """Against NumPy: each row is its key's, whatever lies beside it."""
    random = np.random.RandomState(seed)
    with graph():
        keys = batches(random)
        values = [random.rand(30, 1 + i).astype(np.float32) for i in range(len(keys))]
        tables = [sok.Variable(each) for each in values]
        outs = sok.lookup_sparse(tables, [tf.RaggedTensor.from_tensor(tf.constant(each, tf.int64)) for each in keys],
                                 combiners="sum")
        gradients = tf.gradients([tf.reduce_sum(out * out) for out in outs], tables)
        whole = [tf.convert_to_tensor(each) for each in gradients]
        with session() as run:
            for _ in range(2):
                found, moved = run.run([[out * 1 for out in outs], whole])
                for each, rows, out, gradient in zip(keys, values, found, moved):
                    np.testing.assert_array_equal(out, rows[each[:, 0]])
                    expected = np.zeros_like(rows)
                    np.add.at(expected, each[:, 0], 2 * rows[each[:, 0]])
                    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_what_few_read_is_given_as_it_is():
    """As in most models: all rows side by side in one node."""
    with graph():
        layers = [dense_layer() for _ in range(12)]
        outs = [layer(tf.constant([[[1, 2, 3], [4, 5, 6]]], tf.int64), training=False) for layer in layers]
        joined = tf.concat(outs, axis=-1)
        seven = [out * 2 for out in outs[:7]]
        eight = [out * 2 for out in outs[:7]] + [tf.concat(outs, axis=-1) * 2]
        with session() as run:
            assert handed_on(run, joined) == []
            assert handed_on(run, seven) == []
            assert handed_on(run, eight) == [(12, ["ConcatV2", "Mul"])]
            np.testing.assert_array_equal(run.run(eight)[-1], 2 * run.run(joined))


def test_branches_and_loops_read_what_is_handed_on():
    with graph():
        layers = [dense_layer() for _ in range(9)]
        taken = tf.placeholder(tf.bool, [])
        outs = [layer(tf.constant([[[1, 2, 3], [4, 5, 6]]], tf.int64), training=False) for layer in layers]
        chosen = [tf.cond(taken, lambda out=out: out * 2, lambda out=out: out - 1) for out in outs[:5]]
        repeated = [tf.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x * 2], [0, out])[1] for out in outs[4:]]
        with session() as run:
            rows = run.run(outs)
            for value in (True, False):
                assert [count for count, _ in handed_on(run, [chosen, repeated], {taken: value})] == [9]
                found = run.run([chosen, repeated], {taken: value})
                for each, row in zip(found[0], rows):
                    np.testing.assert_array_equal(each, row * 2 if value else row - 1)
                for each, row in zip(found[1], rows[4:]):
                    np.testing.assert_array_equal(each, row * 8)
