"""Tables' summaries and timelines of ranks, for test_seeing.py; NumPy says what figures must be.

    SOK1X_TIMELINE=FOLDER/trace.json mpiexec -np N python program_seeing.py FOLDER SEED
"""
import glob
import logging
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
FOLDER, SEED = sys.argv[1], int(sys.argv[2])
DIM, BATCH, SLOTS, STEPS, SAVED = 3, 8, 2, 6, 2
said = []


class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


def batches(random, ranks, most):
    """Keys of each step and rank, int64 [STEPS, N, B, S, 1]; up to `most` of them, more with each step."""
    return np.stack([random.randint(0, most * (step + 1) // STEPS, [ranks, BATCH, SLOTS, 1]) for step in range(STEPS)])


def expected(keys, first, last, ranks):
    """What of steps first to last - 1 is written of a table of `ranks` ranks."""
    before, after = np.unique(keys[:first]), np.unique(keys[:last])
    bytes_moved = distinct = 0
    for step in keys[first:last]:
        for rank, batch in enumerate(step):
            asked = np.unique(batch)
            distinct += len(asked)
            bytes_moved += (asked % ranks != rank).sum() * (8 + 4 * DIM + 4 * DIM)  # keys, rows, gradients
    return {"rows_in_use": len(after), "new_keys": (len(after) - len(before)) / (last - first),
            "distinct_share": distinct / keys[first:last].size, "sent_bytes": bytes_moved / (last - first),
            "received_bytes": bytes_moved / (last - first)}


def written(folder):
    """{step: {tag: value}} of the one event file there."""
    path, = glob.glob(os.path.join(folder, "events.*"))
    found = {}
    for event in tf.train.summary_iterator(path):
        for value in event.summary.value:
            found.setdefault(event.step, {})[value.tag] = value.simple_value
    return found


def trained(every_rank):
    """Trains two tables with the hook, and compares what it has written."""
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    folder = os.path.join(FOLDER, "each" if every_rank else "all")
    keys = batches(np.random.RandomState(SEED), ranks, 40 * ranks)
    name = "each" if every_rank else "ads"
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.int64, [None, SLOTS, 1])
        layer = sok.All2AllDenseEmbedding(1000, DIM, SLOTS, 1, name=name)
        grows = sok.All2AllDenseEmbedding(None, DIM, SLOTS, 1, name=name + "/grows", init_capacity=4)
        loss = tf.reduce_sum(layer(fed)) + tf.reduce_sum(grows(fed + 1))
        step = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        local = sok.summary(layer)
        assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [local]
        hooks = [sok.InitHook(global_batch_size=BATCH), sok.SummaryHook(
            SAVED, folder, tables=[layer] if every_rank else None, every_rank=every_rank)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            for number in range(STEPS - 1):  # the last but one: the end writes what is left
                session.run(step, {fed: keys[number][rank]})
            mine = {value.tag: value.simple_value for value in tf.Summary.FromString(
                session._tf_sess().run(local)).value}
        assert mine[layer.embedding_variable.op.name + "/rows_in_use"] == (
            np.unique(keys[:STEPS - 1]) % ranks == rank).sum(), mine
    if every_rank:
        found = written(os.path.join(folder, "rank_{}".format(rank)))
        assert sorted(found) == [2, 4, 5], found
        return
    if rank:
        return
    found = written(folder)
    assert sorted(found) == [2, 4, 5], found
    for first, last in ((0, 2), (2, 4), (4, 5)):
        of_step = found[last]
        for table, shift in (("ads/EmbeddingVariable", 0), ("ads/grows/EmbeddingVariable", 1)):
            got = {tag[len(table) + 1:]: value for tag, value in of_step.items() if tag.startswith(table + "/")}
            for what, value in expected(keys + shift, first, last, ranks).items():
                if shift and what.endswith("bytes") and got[what] > value:
                    continue  # a lookup that has its table grow is begun twice
                np.testing.assert_allclose(got[what], value, rtol=1e-5, err_msg="{} of {}".format(what, table))
            assert 0 <= got["waiting_ms"] <= got["waiting_ms_most"] * 1.001, got
            assert (got["waiting_ms"] > 0) == (ranks > 1), got
        owned = np.bincount(np.unique(keys[:last]) % ranks, minlength=ranks)
        np.testing.assert_allclose(of_step["ads/EmbeddingVariable/share_of_capacity"], owned.max() / 1000, rtol=1e-5)
        np.testing.assert_allclose(of_step["all_tables/sent_bytes"], sum(
            of_step[table + "/sent_bytes"] for table in ("ads/EmbeddingVariable", "ads/grows/EmbeddingVariable")),
                                   rtol=1e-5)


def warned():
    """At 80 and 95 %, once each; of what grows, or has rows for all keys, nothing is said."""
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.int64, [None, 1, 1])
        layers = [sok.All2AllDenseEmbedding(20, DIM, 1, 1, name="small"),
                  sok.All2AllDenseEmbedding(None, DIM, 1, 1, name="large", init_capacity=20),
                  sok.All2AllDenseEmbedding(20, DIM, 1, 1, name="direct", use_hashtable=False)]
        loss = tf.add_n([tf.reduce_sum(layer(fed)) for layer in layers])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        tf.logging.set_verbosity(tf.logging.WARN)
        with tf.train.MonitoredTrainingSession(hooks=[
                sok.InitHook(), sok.SummaryHook(1, os.path.join(FOLDER, "warned"))]) as session:
            for used in (15, 16, 18, 19, 20):  # of each shard; keys up to there are one after the other
                session.run(step, {fed: np.arange(used * ranks).reshape(-1, 1, 1)})
    tf.logging.set_verbosity(tf.logging.ERROR)
    words = ["table 'small/EmbeddingVariable' is {} % full on rank {}: {} of 20 rows".format(share, number, used)
             for share, used in ((80, 16), (95, 19)) for number in range(ranks)]
    heard = [text for text in said if "% full" in text]
    assert [text.split(" (")[0].replace("sok1x: ", "") for text in heard] == (words if rank == 0 else []), heard


def waited():
    """Rank 1's keys come late: rank 0 waits for rank 1. A step is profiled by TensorFlow as well."""
    rank = sok.communication.rank()

    def late():
        flag = os.path.join(FOLDER, "flag.{}".format(len(glob.glob(os.path.join(FOLDER, "flag.*.{}".format(rank))))))
        if rank == 0:
            open(flag + ".0", "w").close()
        else:
            while not os.path.exists(flag + ".0"):
                time.sleep(0.001)
            time.sleep(0.6)
            open(flag + ".{}".format(rank), "w").close()
        return np.arange(4)

    with tf.Graph().as_default(), tf.Session() as session:
        keys = tf.py_func(late, [], tf.int64)
        out = sok.All2AllDenseEmbedding(100, DIM, 1, 1, name="late")(tf.reshape(keys, [4, 1, 1]), training=True)
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        for _ in range(3):
            session.run(out, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
        if rank == 0:
            with open(os.path.join(FOLDER, "metadata"), "wb") as file:
                file.write(metadata.SerializeToString())


def evaluated_between():
    """An Estimator's evaluation, in the same process and of a table of the same name, is in no figure of training."""
    keys, folder = np.arange(20), os.path.join(FOLDER, "evaluated")

    def model_fn(features, labels, mode):
        table = sok.DynamicVariable(1, init_capacity=64, name="items")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, features)) + tf.get_variable("bias", [])
        step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(
            loss, tf.train.get_global_step(), [table])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, scaffold=sok.Scaffold(global_batch_size=1))

    estimator = tf.estimator.Estimator(model_fn, folder, config=tf.estimator.RunConfig(save_checkpoints_steps=3))
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(lambda: tf.data.Dataset.from_tensors(keys).repeat(), max_steps=6, hooks=[
            sok.SummaryHook(2, os.path.join(folder, "figures"))]),
        tf.estimator.EvalSpec(lambda: tf.data.Dataset.from_tensors(np.zeros(500, np.int64)).repeat(4), None,
                              throttle_secs=0, start_delay_secs=0))
    if sok.communication.rank() == 0:
        ranks = sok.communication.num_ranks()
        sent = sum((keys % ranks != rank).sum() for rank in range(ranks)) * (8 + 4 + 4)
        found = written(os.path.join(folder, "figures"))
        assert len(glob.glob(os.path.join(folder, "eval", "events.*"))) == 1 and len(found) >= 3, found
        for values in found.values():
            assert (values["items/distinct_share"], values["items/sent_bytes"]) == (1, sent), found


if __name__ == "__main__":
    logging.getLogger("tensorflow").handlers[:] = [Said()]
    sok.init()
    for every_rank in (False, True):
        trained(every_rank)
    warned()
    evaluated_between()
    waited()
    print("done")
