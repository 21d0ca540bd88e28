"""Metrics over all ranks, for test_metrics.py: compared with tf.metrics on one rank that has all samples.

    mpiexec -np N python program_metrics.py FOLDER SEED
"""
import glob
import logging
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.metrics.evaluation import OverRanksHook

tf.logging.set_verbosity(tf.logging.ERROR)
FOLDER, SEED = sys.argv[1], int(sys.argv[2])
KINDS = [dict(), dict(curve="PR", summation_method="careful_interpolation"), dict(num_thresholds=13),
         dict(curve="PR", summation_method="majoring"), dict(summation_method="minoring", thresholds=[0.7, 0.2])]


class Spread(tf.keras.metrics.Metric):
    """A variance, of whose variables two are called as sums are and one is not."""

    def __init__(self, name="spread"):
        super().__init__(name=name)
        self.parts = [self.add_weight(name, initializer="zeros") for name in ("total", "squares", "count")]

    def update_state(self, values):
        values = tf.cast(values, tf.float32)
        added = [tf.reduce_sum(values), tf.reduce_sum(values * values), tf.cast(tf.size(values), tf.float32)]
        for part, one in zip(self.parts, added):
            part.assign_add(one)

    def result(self):
        total, squares, count = self.parts
        return tf.math.divide_no_nan(squares, count) - tf.math.divide_no_nan(total, count) ** 2


def samples(random):
    """Batches of (labels, predictions, weights, rank): of ranks in turn, of other sizes, some empty, some equal."""
    found = []
    for number in range(7):
        size = random.randint(0, 40) * (number != 2)
        predictions = random.rand(size).astype(np.float32)
        if number % 2:  # on the thresholds themselves, 0 and 1 included
            predictions = (np.round(predictions * 12) / 12).astype(np.float32)
        found.append((random.randint(0, 2, size), predictions, random.randint(0, 5, size).astype(np.float32)))
    return found


def metrics(module, fed):
    labels, predictions, weights = fed
    right = tf.cast(predictions > 0.5, tf.int64)
    made = [module.mean(predictions), module.mean(predictions, weights), module.accuracy(labels, right),
            module.accuracy(labels, right, weights)]
    return made + [module.auc(labels, predictions, weights if number % 2 else None, **kind)
                   for number, kind in enumerate(KINDS)]


def streamed():
    world_rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    random = np.random.RandomState(SEED)
    batches = samples(random)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(dtype, [None]) for dtype in (tf.int64, tf.float32, tf.float32)]
        ours, stock = metrics(sok.metrics, fed), metrics(tf.metrics, fed)
        ours, stock = [list(part) for part in zip(*ours)], [list(part) for part in zip(*stock)]
        session.run(tf.local_variables_initializer())
        for number, batch in enumerate(batches):  # ranks have other numbers of batches, and all see all in stock
            feed = dict(zip(fed, batch))
            session.run(stock[1], feed)
            if number % ranks == world_rank:
                session.run(ours[1], feed)
        found = session.run(ours[0])
        expected = session.run(stock[0])
        means = [0, 1]  # float32 sums of TensorFlow's are rounded
        for place, (one, other) in enumerate(zip(found, expected)):
            assert one == other or place in means and abs(one - other) < 1e-5, (place, one, other)
        assert found == session.run(ours[0])  # reading changes nothing
        session.run(tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)))
        assert session.run(ours[0][0]) == 0


def model_fn(features, labels, mode):
    layer = sok.All2AllDenseEmbedding(64, 2, 1, 1, name="ads")
    train = mode == tf.estimator.ModeKeys.TRAIN
    logit = tf.reduce_sum(layer(tf.reshape(features, [-1, 1, 1]), training=train), axis=[1, 2, 3])
    chance = tf.sigmoid(4 * logit)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=chance, scaffold=sok.Scaffold(global_batch_size=8))
    loss = tf.reduce_sum(tf.square(chance - tf.cast(labels, tf.float32)))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss, tf.train.get_or_create_global_step())
    given = {"auc": tf.metrics.auc(labels, chance), "our_auc": sok.metrics.auc(labels, chance),
             "our_loss": sok.metrics.mean(loss), "positives": tf.metrics.true_positives(labels, chance > 0.5)}
    given.update(others(labels, chance))
    # An EstimatorSpec keeps their variables in a set: in an order of its own on each rank.
    kept = {"keras_mean": tf.keras.metrics.Mean(), "keras_accuracy": tf.keras.metrics.BinaryAccuracy(),
            "keras_precision": tf.keras.metrics.Precision(), "keras_recall": tf.keras.metrics.Recall()}
    kept["spread"] = Spread()
    for name, metric in kept.items():
        of_each = [tf.reshape(tf.cast(tensor, tf.float32), [-1, 1]) for tensor in (labels, chance)]
        metric.update_state(*of_each[1:] if name in ("keras_mean", "spread") else of_each)
    given.update(kept)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, eval_metric_ops=given,
                                      scaffold=sok.Scaffold(global_batch_size=8))


def others(labels, chance):
    """Metrics of tf.metrics whose variables have names of their own."""
    truth, scores = tf.reshape(tf.cast(labels, tf.int64), [-1, 1]), tf.stack([1 - chance, chance, 0.5 * chance], 1)
    top = tf.nn.top_k(scores, 2)[1]
    return {"recall_at": tf.metrics.recall_at_k(truth, scores, 1),
            "recall_of_1": tf.metrics.recall_at_k(truth, scores, 1, class_id=1),
            "precision_at": tf.metrics.precision_at_k(truth, scores, 2, name="mine"),
            "average": tf.metrics.average_precision_at_k(truth, scores, 2, name="its_own"),
            "recall_top": tf.metrics.recall_at_top_k(truth, top, k=2),
            "tensor": tf.metrics.mean_tensor(tf.reduce_sum(scores, axis=0))}


def evaluated():
    """Every rank evaluates samples of its own, in batches of its own sizes: results are those of all."""
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    random = np.random.RandomState(SEED)
    keys, labels = random.randint(0, 40, [4, 12]), random.randint(0, 2, [4, 12])
    cut = [0] + sorted(random.randint(0, 13, ranks - 1).tolist()) + [12]

    def input_fn(first, last):
        return lambda: tf.data.Dataset.from_generator(
            lambda: ((keys[step, first:last], labels[step, first:last]) for step in range(4)), (tf.int64, tf.int64),
            ([None], [None]))

    estimator = tf.estimator.Estimator(model_fn, FOLDER, config=tf.estimator.RunConfig(tf_random_seed=1))
    estimator.train(input_fn(cut[rank], cut[rank + 1]))
    found = estimator.evaluate(input_fn(cut[rank], cut[rank + 1]))
    chances = np.array(list(estimator.predict(input_fn(0, 12), yield_single_examples=False)))
    losses = [np.square(chances[step, cut[each]:cut[each + 1]] - labels[step, cut[each]:cut[each + 1]]).sum()
              for step in range(4) for each in range(ranks)]
    np.testing.assert_allclose([found["loss"], found["our_loss"]], np.mean(losses), rtol=1e-5)
    assert found["positives"] == ((chances > 0.5) & (labels == 1)).sum(), found
    with tf.Graph().as_default(), tf.Session() as session:
        _, update = tf.metrics.auc(labels.reshape(-1), chances.reshape(-1))
        session.run(tf.local_variables_initializer())
        assert found["auc"] == found["our_auc"] == session.run(update), found
    with tf.Graph().as_default(), tf.Session() as session:
        expected = others(labels.reshape(-1), tf.constant(chances.reshape(-1), tf.float32))
        session.run(tf.local_variables_initializer())
        for name, value in session.run({name: update for name, (_, update) in expected.items()}).items():
            if name != "tensor":
                np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    sums = [np.stack([1 - some, some, 0.5 * some]).sum(axis=1) for some in [
        chances[step, cut[each]:cut[each + 1]] for step in range(4) for each in range(ranks)]]
    np.testing.assert_allclose(found["tensor"], np.mean(sums, axis=0), rtol=1e-5)
    right, positives = (chances > 0.5) == labels, chances > 0.5
    for name, value in (("keras_mean", chances.mean()), ("keras_accuracy", right.mean()),
                        ("keras_precision", labels[positives].mean()), ("keras_recall", positives[labels == 1].mean())):
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    own = chances[:, cut[rank]:cut[rank + 1]]  # all of it is of this rank's samples, or it would be of nobody's
    np.testing.assert_allclose(found["spread"], own.var() if own.size else 0, rtol=1e-3, atol=1e-5)
    written = glob.glob(os.path.join(FOLDER, "eval", "events.*"))
    assert len(written) == 1, written
    values = {value.tag: value.simple_value for path in written for event in tf.train.summary_iterator(path)
              for value in event.summary.value}
    if rank == 0:
        assert values["auc"] == found["auc"] and abs(values["loss"] - found["loss"]) < 1e-6


def warned():
    """A metric that is no sum is left as it is, with a warning that names it."""
    said = []
    logger, handler = logging.getLogger("tensorflow"), logging.StreamHandler()
    handler.emit = lambda record: said.append(record.getMessage())
    tf.logging.set_verbosity(tf.logging.WARN)
    try:
        with tf.Graph().as_default():
            with tf.variable_scope("largest"):
                for name in ("max", "total"):  # as average_precision_at_k has two, which are sums
                    tf.get_variable(name, [], tf.float64, collections=[tf.GraphKeys.METRIC_VARIABLES])
            tf.metrics.mean(1.0)
            sok.metrics.mean(1.0)
            metric = Spread()
            metric.update_state([1.0])
            tf.estimator.EstimatorSpec("eval", loss=tf.constant(0.0), eval_metric_ops={"width": metric})
            logger.addHandler(handler)
            OverRanksHook().begin()
    finally:
        logger.removeHandler(handler)
        tf.logging.set_verbosity(tf.logging.ERROR)
    said = [text for text in said if "do not add up" in text]
    several = sok.communication.num_ranks() > 1
    assert len(said) == several and all(
        "since they do not add up: eval_metric_ops['width'], largest." in text for text in said), said


if __name__ == "__main__":
    sok.init()
    streamed()
    evaluated()
    warned()
    print("done")
