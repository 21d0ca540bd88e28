"""What lookups take from another device travels as one tensor of each kind of memory (bridge_packing.cc).

Two CPUs of TensorFlow's stand for a host and its GPU: between them it sends tensors one by one as well.
"""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import sparse_value

import sok1x as sok

TWO = tf.ConfigProto(device_count={"CPU": 2})
OURS = ("Sok1xPack", "Sok1xParts", "Sok1xHostParts")


def traced(session, fetches, feed):
    """What a run gives, and {type: number} of the nodes that it is made of."""
    metadata = tf.RunMetadata()
    found = session.run(fetches, feed, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    types = [node.op for graph in metadata.partition_graphs for node in graph.node]
    return found, {one: types.count(one) for one in set(types)}


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def model(bags, dense):
    """Lookups on the second CPU of ids from the first: outputs, and a step."""
    with tf.device("/cpu:1"):
        tables = [sok.DynamicVariable(dimension=2 + i, initializer="ones", name="table_{}".format(i)) for i in range(4)]
        outs = sok.lookup_sparse(tables[:3], bags, combiners=["sum", "mean", "sum"])
        outs += [sok.all2all_dense_embedding(table, ids) for table, ids in zip(tables[1:], dense)]
        loss = tf.add_n([tf.reduce_sum(out ** 2) * (i + 1) for i, out in enumerate(outs)])
        return outs, sok.tf.keras.optimizers.LazyAdamOptimizer(0.1).minimize(loss)


def test_ids_of_any_shape_travel_together_and_come_as_they_were(seed):
    """Sparse, ragged and dense ids, some empty, in several sizes one after the other: rows as without packing."""
    found = {}
    for fuse in ("1", "0"):
        random, os.environ["SOK1X_FUSE"] = np.random.RandomState(seed), fuse
        try:
            with tf.Graph().as_default(), tf.Session(config=TWO) as session:
                tf.set_random_seed(3)
                with tf.device("/cpu:0"):
                    bags = [tf.sparse.placeholder(tf.int64, [None, None]) for _ in range(2)]
                    lengths, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
                    ragged = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
                    dense = [tf.placeholder(tf.int64, shape) for shape in ([None], [None, 3], [1, 1, None])]
                outs, step = model(bags + [ragged], dense)
                session.run(tf.global_variables_initializer())
                found[fuse] = []
                for samples in (5, 0, 40):
                    feed = {one: sparse_value([list(random.randint(0, 9, random.randint(0, 4)))
                                               for _ in range(samples)], 3) for one in bags}
                    feed[lengths] = random.randint(0, 3, samples)
                    feed[values] = random.randint(0, 9, feed[lengths].sum())
                    feed.update({one: random.randint(0, 9, shape) for one, shape in zip(
                        dense, ([samples], [samples, 3], [1, 1, samples]))})
                    (made, _), types = traced(session, [outs, step], feed)
                    found[fuse].append(made + session.run(outs, feed))
        finally:
            del os.environ["SOK1X_FUSE"]
        # One of sparse and ragged ids, one of their shapes, and one of dense ids.
        assert [types.get(name, 0) for name in OURS] == ([3, 2, 1] if fuse == "1" else [0, 0, 0]), types
    for one, other in zip(found["1"], found["0"]):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)
    assert [len(out) for out in found["1"][0][:5]] == [5] * 5 and found["1"][2][5].shape == (1, 1, 40, 5)


def test_what_is_beside_the_lookup_or_alone_stays_as_it_is():
    with tf.Graph().as_default(), tf.Session(config=TWO) as session:
        with tf.device("/cpu:1"):
            here = tf.placeholder(tf.int64, [None])
            table = sok.DynamicVariable(dimension=2, initializer="ones", name="table")
            with tf.device("/cpu:0"):
                there = [tf.identity(here + number) for number in (1, 2)]
            outs = [sok.all2all_dense_embedding(table, ids) for ids in (here + 3, there[0], there[1])]
        session.run(tf.global_variables_initializer())
        feed = {here: [1, 2]}
        assert not set(OURS) & set(traced(session, outs[0], feed)[1])
        assert not set(OURS) & set(traced(session, outs[:2], feed)[1])
        assert traced(session, outs, feed)[1]["Sok1xPack"] == 1
