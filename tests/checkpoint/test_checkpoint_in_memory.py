"""tf.estimator.experimental.InMemoryEvaluatorHook: evaluates what is trained, or refuses it before a step."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok


def evaluations(folder, optimizer, rows, **options):
    """What the hook has found after 0 and 10 steps, and what an evaluation of the checkpoint gives."""
    def model(features, labels, mode):
        layer = sok.All2AllDenseEmbedding(rows, 4, 1, 1, **options)
        vectors = layer(tf.reshape(features, [-1, 1, 1]), training=mode == tf.estimator.ModeKeys.TRAIN)
        loss = tf.reduce_mean((tf.reduce_sum(vectors, [1, 2, 3]) - labels) ** 2)
        step = optimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, scaffold=sok.Scaffold())

    def samples():
        return tf.data.Dataset.range(400).map(lambda x: (x % 40, tf.cast(x % 7, tf.float32))).batch(8)

    estimator = tf.estimator.Estimator(model, folder)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, samples, steps=5, every_n_iter=10)
    estimator.train(samples, hooks=[hook], max_steps=10)
    events = [event for name in sorted(tf.gfile.Glob(hook._eval_dir + "/events.*"))
              for event in tf.train.summary_iterator(name)]
    found = {event.step: value.simple_value for event in events for value in event.summary.value if value.tag == "loss"}
    return found, estimator.evaluate(samples, steps=5)["loss"]


@pytest.mark.parametrize("rows, optimizer", [
    (64, tf.train.AdagradOptimizer), (None, tf.train.GradientDescentOptimizer)])
def test_it_evaluates_what_is_trained(tmp_path, rows, optimizer):
    found, saved = evaluations(str(tmp_path), optimizer, rows)
    assert sorted(found) == [0, 10] and found[10] < found[0]
    np.testing.assert_allclose(found[10], saved, rtol=1e-6)


@pytest.mark.parametrize("options, optimizer, words", [
    (dict(cache_rows=16), tf.train.GradientDescentOptimizer, "which has rows in host memory: the hook copies"),
    (dict(init_capacity=2), tf.train.AdagradOptimizer, "which grows, and has an optimizer's slots: the hook copies")])
def test_tables_that_it_cannot_copy_are_refused(tmp_path, options, optimizer, words):
    """A copy of a cache's index led to memory that was not there: the process crashed."""
    with pytest.raises(ValueError, match=words):
        evaluations(str(tmp_path), optimizer, None, **options)
