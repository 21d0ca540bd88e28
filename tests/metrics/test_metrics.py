"""sok1x.metrics: over all ranks what tf.metrics are on one that has all samples."""
import os

import pytest
import tensorflow as tf
from ranks import run_ranks

import sok1x as sok

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_metrics.py")
v1 = tf.compat.v1


@pytest.mark.parametrize("ranks", [2] + [pytest.param(ranks, marks=pytest.mark.slow) for ranks in (1, 3)])
def test_are_those_of_one_rank_that_sees_all_samples(tmp_path, seed, ranks):
    finished = run_ranks(ranks, PROGRAM, tmp_path, seed)
    assert finished.out.count("done") == ranks, str(finished)


def test_a_mean_of_weights_that_add_up_to_less_than_nothing():
    with tf.Graph().as_default(), v1.Session() as session:
        found = [module.mean([0.3, 0.2], weights=[-1.0, 0.5]) for module in (sok.metrics, v1.metrics)]
        session.run([sok.Init(global_batch_size=1), v1.local_variables_initializer()])
        updated = session.run([update for _, update in found])
        assert updated == session.run([value for value, _ in found]) == [0, 0]


def test_refusals():
    with tf.Graph().as_default():
        for options, words in ((dict(curve="roc"), "curve: got 'roc', expected 'ROC' or 'PR'"),
                               (dict(summation_method="mean"), "summation_method: got 'mean', expected one of trapez"),
                               (dict(num_thresholds=1), "num_thresholds: got 1, expected 2 or more")):
            with pytest.raises(ValueError, match=words):
                sok.metrics.auc([1], [0.5], **options)
        assert not v1.local_variables()
        with pytest.raises(ValueError, match="[Ss]hapes .*"):
            sok.metrics.accuracy([1, 2], [1, 2, 3])
        fed = v1.placeholder(tf.float32, [None])
        _, update = sok.metrics.auc([1, 0], fed)
        with v1.Session() as session:
            session.run([sok.Init(global_batch_size=1), v1.local_variables_initializer()])
            for wrong in ([0.5, 1.5], [-0.1, 0.5], [float("nan"), 0.5]):
                with pytest.raises(tf.errors.InvalidArgumentError, match="predictions must be in"):
                    session.run(update, {fed: wrong})
    from tensorflow.python.eager import context
    with context.eager_mode(), pytest.raises(RuntimeError, match="sok1x.metrics.mean makes ops in a tf.Graph"):
        sok.metrics.mean(1.0)
