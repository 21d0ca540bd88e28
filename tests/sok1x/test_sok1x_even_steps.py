"""`sok1x.EvenSteps` on one rank: what it takes, what it refuses, and what TensorFlow makes of batches without samples.

Ranks with different numbers of batches are in tests/mpi/test_mpi_even_steps.py.
"""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import V2


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph):
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=8))
        yield made


def numbers(count, batch=2):
    return tf.data.Dataset.range(count).batch(batch)


def until_the_end(session, fetches):
    values = []
    while True:
        try:
            values.append(session.run(fetches))
        except tf.errors.OutOfRangeError as error:
            assert "sok1x.EvenSteps" in error.message
            return [np.asarray(value).tolist() for value in values]


def test_a_dataset_epoch_after_epoch(session):
    steps = sok.EvenSteps(tf.data.Dataset.range(5).shuffle(5, seed=1).batch(2, drop_remainder=True))
    values = steps.get_next()
    assert values.shape.as_list() == [None]
    for _ in range(2):
        session.run(steps.initializer)
        assert [len(value) for value in until_the_end(session, values)] == [2, 2]
        assert until_the_end(session, values) == []  # and again, as with TensorFlow's iterators


def test_batches_that_python_makes(session):
    made = tf.data.Dataset.from_generator(lambda: ([[i]] * i for i in range(1, 3)), tf.int64, tf.TensorShape([None, 1]))
    steps = sok.EvenSteps(made)
    session.run(tf.tables_initializer())
    assert until_the_end(session, steps.get_next()) == [[[1]], [[2], [2]]]


def test_iterators_of_all_kinds(session):
    one_shot = tf.data.make_one_shot_iterator(numbers(3))
    assert until_the_end(session, sok.EvenSteps(one_shot).get_next()) == [[0, 1], [2]]

    own = tf.data.make_initializable_iterator(numbers(4))
    steps = sok.EvenSteps(own)
    session.run(own.initializer)
    first = steps.get_next()
    assert session.run(first).tolist() == [0, 1]
    session.run(steps.initializer)
    assert until_the_end(session, first) == [[0, 1], [2, 3]]
    assert own.initializer not in tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)  # its maker's to run

    shared = tf.data.Iterator.from_structure(tf.int64, tf.TensorShape([None]))
    values = sok.EvenSteps(shared).get_next()
    for count in (3, 1):
        session.run(shared.make_initializer(numbers(count)))
        assert sum(until_the_end(session, values), []) == list(range(count))

    handle = tf.placeholder(tf.string, [])
    fed = sok.EvenSteps(tf.data.Iterator.from_string_handle(handle, tf.int64, tf.TensorShape([None]))).get_next()
    session.run(own.initializer)
    assert session.run(fed, {handle: session.run(own.string_handle())}).tolist() == [0, 1]


def test_an_estimator_trains_evaluates_and_predicts(tmp_path):
    def dataset():
        x = np.arange(10, dtype=np.float32)[:, None]
        return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(4)

    def input_fn():
        return sok.EvenSteps(dataset()).get_next()

    estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], model_dir=str(tmp_path))
    hooks = [sok.InitHook(global_batch_size=4)]
    estimator.train(input_fn, hooks=hooks)
    assert estimator.get_variable_value("global_step") == 3
    assert estimator.evaluate(input_fn, hooks=hooks)["label/mean"] == 9
    assert len(list(estimator.predict(input_fn, hooks=hooks))) == 10


def test_samples_are_those_of_dense_and_ragged_tensors(session):
    def sample(i):
        return {"keys": tf.SparseTensor([[0, 0]], [i], [2, 3]), "label": i}

    batches = tf.data.Dataset.range(5).map(sample).batch(3)
    flat = batches.map(lambda batch: dict(batch, keys=tf.sparse.reshape(batch["keys"], [-1, 3])))  # 2 rows a sample
    keys_alone = batches.map(lambda batch: batch["keys"])
    doubled = batches.map(lambda batch: (tf.repeat(batch["label"], 2), batch["label"]))
    for dataset in (flat, keys_alone):
        steps = sok.EvenSteps(dataset)
        session.run(steps.initializer)
        assert until_the_end(session, steps.samples) == [3, 2]
    steps = sok.EvenSteps(doubled)
    session.run(steps.initializer)
    assert [len(value) for value in session.run(steps.get_next())] == [6, 3]  # whoever does not ask may have these
    with pytest.raises(tf.errors.InvalidArgumentError, match="first dimensions that differ"):
        session.run(steps.samples)


@pytest.mark.parametrize("source, error, words", [
    (lambda: [1, 2], TypeError, r"got \[1, 2\] of type list, expected a tf.data.Dataset or an iterator"),
    (lambda: tf.data.Dataset.range(3), ValueError, r"the batch: got shape \[\].*call \.batch"),
    (lambda: tf.data.Dataset.range(3).map(lambda i: {"a": ([i], i)}), ValueError, r"'a/1': got shape \[\]"),
    (lambda: tf.data.Dataset.from_generator(list, (tf.int64, tf.int64), (tf.TensorShape([None]), None)), ValueError,
     r"'1': got an unknown number of dimensions.*output_shapes"),
    (lambda: tf.data.Dataset.range(3).window(2), TypeError, r"the batch is DatasetSpec.*expected a tensor"),
], ids=["list", "not_batched", "scalar_inside", "unknown_rank", "datasets"])
def test_what_cannot_be_emptied_is_refused(source, error, words, graph):
    given = source()
    collected = tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
    with pytest.raises(error, match="sok1x.EvenSteps: .*" + words):
        sok.EvenSteps(given)
    assert tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS) == collected


def test_places_where_ranks_cannot_agree_are_refused():
    with pytest.raises(ValueError, match="sok1x.EvenSteps: got a call inside a function's body"):
        tf.data.Dataset.range(3).map(lambda i: sok.EvenSteps(numbers(3)).get_next())
    with pytest.raises(ValueError, match="sok1x.EvenSteps: got a call inside a function's body, a tf.cond"):
        tf.cond(tf.constant(True), lambda: sok.EvenSteps(numbers(3)).get_next(), lambda: tf.zeros([1], tf.int64))
    with context.eager_mode(), pytest.raises(
            ValueError, match="EvenSteps: samples: got no batch yet" if V2 else "EvenSteps: got eager execution"):
        assert sok.EvenSteps(numbers(3)).samples
    with pytest.raises(TypeError, match="made in a graph, expected steps.get_next"):
        iter(sok.EvenSteps(numbers(3)))


def test_a_second_get_next_is_refused():
    steps = sok.EvenSteps(numbers(3))
    steps.get_next()
    with pytest.raises(ValueError, match="second call of get_next"):
        steps.get_next()


def test_what_tensorflow_makes_of_batches_without_samples(session):
    """As the docstring of EvenSteps says it."""
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    weights = tf.get_variable("weights", [3, 1])
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, weights))
    losses = [tf.reduce_sum(each), tf.losses.sigmoid_cross_entropy(y, tf.matmul(x, weights)), tf.reduce_mean(each)]
    gradients = [tf.gradients(loss, weights)[0] for loss in losses]
    normal = tf.layers.batch_normalization(x, training=True)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    of_normal = tf.gradients(tf.reduce_sum(normal), tf.trainable_variables("batch_normalization"))
    session.run(tf.global_variables_initializer())
    values, slopes, of_normal, _ = session.run([losses, gradients, of_normal, updates], {
        x: np.zeros([0, 3]), y: np.zeros([0, 1])})
    assert values[:2] == [0, 0] and np.isnan(values[2])
    assert not np.any(slopes)
    moving = session.run([v for v in tf.global_variables() if "moving" in v.name])
    assert np.isnan(moving).all() and np.isnan(of_normal).any()
