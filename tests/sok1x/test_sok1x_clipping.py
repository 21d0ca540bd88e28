"""Clipping by norms on one rank is TensorFlow's; `program_gradients.py` has what needs two."""
import contextlib
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.graph_ops.bridge import op_types
from sok1x.optimizers import keras_clips

v1 = tf
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_gradients.py")


def test_two_ranks(seed):
    """Clipped, averaged once, of inner steps, exchanged by Horovod: right, or refused when the graph is built."""
    finished = run_ranks(2, PROGRAM, seed)
    assert sorted(finished.out.split()) == ["done-0", "done-1"]


BEFORE_INIT = """
import os
rank = os.environ["OMPI_COMM_WORLD_RANK"]
for name in [name for name in os.environ if name.startswith("OMPI_COMM_WORLD_")]:
    del os.environ[name]
os.environ.update(PMIX_RANK=rank, SLURM_PROCID=rank, SLURM_STEP_NUM_TASKS="2")
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
import sok1x as sok
layer = sok.All2AllDenseEmbedding(8, 2, 1, 1, use_hashtable=False)
w = tf.get_variable("w", initializer=[[1.0], [2.0]])
loss = tf.reduce_sum(tf.matmul(tf.reshape(layer(tf.constant([[[0]], [[1]]], tf.int64)), [-1, 2]), w))
optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
gradients, variables = zip(*optimizer.compute_gradients(loss))
try:
    optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 1.0)[0], variables))
except ValueError as error:
    print("clip_by_global_norm" in str(error))
"""


def test_graphs_of_ranks_that_srun_has_started():
    """By PMIx, which does not say how many: they are several before they have joined."""
    assert run_ranks(2, BEFORE_INIT).out.split() == ["True"] * 2


def made_of(values):
    """Tensors, IndexedSlices (of an array with two dimensions) and None."""
    return [None if value is None else tf.constant(value) if np.ndim(value) != 2 else tf.IndexedSlices(
        tf.constant(value), tf.range(len(value)), tf.constant([9, value.shape[1]])) for value in values]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_as_tensorflow_clips(dtype, seed):
    random = np.random.RandomState(seed)
    cases = [([random.randn(3), None, random.randn(4, 2), random.randn(2, 3, 1), np.float64(2.0)], limit)
             for limit in (0.5, 100.0)]
    cases += [([np.zeros(3), np.zeros([2, 2])], 1.0), ([np.array([1.0, np.inf])], 1.0),
              ([np.array([1.0, np.nan]), np.ones([1, 1])], 1.0), ([np.full(3, 1e20)], 1.0)]
    with graph():
        fetches = []
        for values, limit in cases:
            gradients = made_of([None if value is None else value.astype(dtype) for value in values])
            for use_norm in (None, tf.constant(3.0, dtype)):
                for clip in (sok.clip_by_global_norm, tf.clip_by_global_norm):
                    clipped, norm = clip(gradients, limit, use_norm=use_norm)
                    assert [each is None for each in clipped] == [value is None for value in values]
                    assert [type(each) for each in clipped] == [type(each) for each in gradients]
                    fetches.append([[each for each in clipped if each is not None], norm])
        with session() as run:
            found = run.run(fetches)
    for ours, stock in zip(found[::2], found[1::2]):
        for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(stock)):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_halves_and_mixtures():
    """Which TensorFlow's own takes for Inf, or not at all: sums are made in float32."""
    values = [np.full(4, 300.0, np.float16), np.full([2, 2], 3.0, np.float32), np.ones(2, np.float64)]
    with graph():
        clipped, norm = sok.clip_by_global_norm(made_of(values), 1.0)
        with session() as run:
            found, total = run.run([clipped, norm])
    expected = np.sqrt(sum(np.square(value.astype(np.float64)).sum() for value in values))
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    for one, value in zip(found, values):
        one = one.values if hasattr(one, "values") else one
        assert one.dtype == value.dtype
        np.testing.assert_allclose(one, value / expected, rtol=2e-3)


def test_rows_that_two_lookups_share_count_as_their_sum(seed):
    random = np.random.RandomState(seed)
    keys = random.randint(0, 6, [2, 4, 2, 3])
    with graph():
        layer = dense_layer(embedding_initializer="normal")
        loss = tf.reduce_sum(layer(tf.constant(keys[0])) * random.randn(4, 1, 1, 4)) + tf.reduce_sum(
            layer(tf.constant(keys[1])) * random.randn(4, 1, 1, 4))
        gradient, = tf.gradients(loss, [layer.embedding_variable])
        (clipped,), norm = sok.clip_by_global_norm([gradient], 0.1)
        assert clipped.indices is gradient.indices
        dense = tf.convert_to_tensor(gradient)
        with session() as run:
            whole, cut, total = run.run([dense, tf.convert_to_tensor(clipped), norm])
    np.testing.assert_allclose(total, np.linalg.norm(whole), rtol=1e-5)
    np.testing.assert_allclose(cut, whole * 0.1 / np.linalg.norm(whole), rtol=1e-4, atol=1e-7)


def test_what_is_wrong():
    with graph():
        for wrong, error in ((tf.constant([1.0]), TypeError), ("ab", TypeError), ([], ValueError),
                             ([None], ValueError)):
            with pytest.raises(error, match="t_list"):
                sok.clip_by_global_norm(wrong, 1.0)
        with pytest.raises(ValueError, match="got 2 for 1 gradients"):
            sok.global_norm([tf.constant([1.0])], variables=[1, 2])
        for wrong in (0, -1.5, float("nan")):
            with pytest.raises(ValueError, match="clip_norm: got"):
                sok.DistributedOptimizer(v1.train.AdamOptimizer(), clip_norm=wrong)


@pytest.mark.parametrize("keras", [False, True])
def test_an_optimizer_that_clips(keras):
    """Also inside a LossScaleOptimizer, whose gradients are scaled."""
    results = []
    for ways in ("keyword", "scaled", "function"):
        with graph():
            layer = dense_layer(embedding_initializer="ones")
            w = v1.get_variable("w", initializer=np.ones(4, np.float32), use_resource=True)
            unused = v1.get_variable("unused", [2], use_resource=True)
            loss = tf.reduce_sum(layer(tf.constant([[[1, 2, 3]] * 2], tf.int64)) * w)
            variables = [layer.embedding_variable, w]
            plain = tf.keras.optimizers.SGD(1.0) if keras else v1.train.GradientDescentOptimizer(1.0)
            optimizer = sok.DistributedOptimizer(plain, clip_norm=None if ways == "function" else 0.5)
            gradients = tf.gradients(loss, variables)
            if ways == "function":
                gradients, _ = sok.clip_by_global_norm(gradients, 0.5)
            if ways == "scaled":
                optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(optimizer, 8.0)
            step = optimizer.apply_gradients(list(zip(gradients, variables)) + ([] if keras else [(None, unused)]))
            assert not [op for op in v1.get_default_graph().get_operations()
                        if op_types.is_ours(op) and op.get_attr("function") == b"operations.branches.agree"]
            with session() as run:
                run.run(step)
                results.append(run.run([w, layer(tf.constant([[[1, 2, 3]] * 2], tf.int64), training=False)]))
    for result in results[:2]:
        for one, other in zip(result, results[2]):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    assert 0 < np.abs(results[0][0] - 1).max() < 0.5


@pytest.mark.parametrize("clip_norm, error", [
    ("5", TypeError), (True, TypeError), (np.bool_(True), TypeError), ([1.0], TypeError), ({}, TypeError),
    (np.array([1.0, 2.0]), TypeError), (0, ValueError), (np.float32(-1), ValueError), (np.array(-1.0), ValueError)])
def test_a_norm_that_is_none_is_refused_at_once(clip_norm, error):
    with pytest.raises(error, match="DistributedOptimizer: clip_norm: got"):
        sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), clip_norm=clip_norm)
    for given in (2, np.float64(0.5), np.array(0.5), None):
        sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), clip_norm=given)


@pytest.mark.parametrize("lookups", [1, 2])
def test_clipvalue_is_of_a_rows_sum_however_many_lookups_have_it(lookups):
    """As of TensorFlow's dense gradient: 0.08 twice, at most 0.1."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.Variable([[1.0], [2.0]], name="items")
        rows = [sok.all2all_dense_embedding(table, tf.constant([1] * (3 - lookups))) for _ in range(lookups)]
        loss = 0.08 * tf.reduce_sum(tf.concat(rows, 0))
        optimizer = sok.DistributedOptimizer(tf.keras.optimizers.SGD(1.0, clipvalue=0.1), average=False)
        step = tf.group(*optimizer.get_updates(loss, [table]))
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(sok.export(table)[1]), [[1.0], [1.9]], rtol=1e-6)


LIMITS = [dict(clipnorm=1.0, clipvalue=1.0), dict(clipnorm=1.0, clipvalue=0.1), dict(clipvalue=2.0), dict(clipnorm=1.0)]
LIMITS_OF_2 = [dict(global_clipnorm=1.0, clipvalue=1.0), dict(global_clipnorm=0.5), dict(clipnorm=0.0),
               dict(clipnorm=0.0, clipvalue=1.0), dict(global_clipnorm=0.0, clipvalue=0.5)]


@pytest.mark.parametrize("newer", [False] + ([] if tf.__version__.startswith("1.") else [True]))
def test_several_limits_of_keras_as_keras_takes_them(newer):
    """In its order, which differs from release to release; newer optimizers take one of them."""
    values = [[0.6, 3.0], [[-2.0]]]
    first = tf.__version__.startswith("1.")
    kinds = tf.keras.optimizers if first else tf.compat.v2.keras.optimizers
    make = kinds.SGD if first or newer else kinds.legacy.SGD
    cases = LIMITS if first else LIMITS + LIMITS_OF_2
    with graph():
        variables, steps = [], []
        for options in cases:
            for wrap in (sok.DistributedOptimizer, lambda made: made):
                pair = [tf.Variable(np.zeros_like(value, np.float32), use_resource=True) for value in values]
                optimizer, loss = wrap(make(1.0, **options)), tf.add_n([
                    tf.reduce_sum(variable * value) for variable, value in zip(pair, values)])
                pairs = list(zip(tf.gradients(loss, pair), pair))
                if newer:
                    optimizer.build(pair)
                    steps.append(tf.function(lambda: optimizer.apply_gradients(pairs), autograph=False)())
                else:
                    steps.append(optimizer.get_updates(loss, pair) if first else optimizer.apply_gradients(pairs))
                variables.append(pair)
        with session() as run:
            run.run(steps)
            found = run.run(variables)
    for options, ours, stock in zip(cases, found[::2], found[1::2]):
        for one, other in zip(ours, stock):
            np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=str(options))


def test_limits_are_off_for_all_threads_that_step_at_once():
    """Who comes while another's step has them off clips all the same, and the last one puts them back."""
    begun, ended = contextlib.ExitStack(), contextlib.ExitStack()
    with graph():
        weights = tf.get_variable("weights", initializer=[1.0, 2.0], use_resource=True)
        optimizer = tf.keras.optimizers.SGD(0.5, clipvalue=2.0)
        clips = [stack.enter_context(keras_clips.lifted(optimizer)) for stack in (begun, ended)]
        clipped = [clip([(tf.constant([1.0, 3.0]), weights)])[0][0] for clip in clips]
        begun.close()
        assert getattr(optimizer, "clipvalue", None) is None
        ended.close()
        assert optimizer.clipvalue == 2.0
        with keras_clips.lifted(optimizer) as clip:
            clipped.append(clip([(tf.constant([1.0, 3.0]), weights)])[0][0])
            optimizer.clipvalue = 7.0  # by a program, for later steps: it stays
        assert optimizer.clipvalue == 7.0
        with tf.Session() as run:
            np.testing.assert_array_equal(run.run(clipped), [[1.0, 2.0]] * 3)


@pytest.mark.skipif(tf.__version__.startswith("1."), reason="the newer optimizers are TensorFlow 2's")
def test_limits_of_a_step_that_fails_are_not_those_of_the_next():
    """The newer optimizers compare them with 0."""
    with graph():
        weights = tf.Variable([0.0], use_resource=True)
        optimizer = tf.compat.v2.keras.optimizers.SGD(1.0)
        for wrong in ("2", tf.constant(2.0)):
            optimizer.clipnorm = wrong
            with pytest.raises(TypeError), keras_clips.lifted(optimizer):
                raise AssertionError("no error")
            assert optimizer.clipnorm is wrong
        optimizer.clipnorm = 10.0
        with keras_clips.lifted(optimizer) as clip:
            clipped = clip([(tf.constant([500.0]), weights)])[0][0]
        with tf.Session() as run:
            np.testing.assert_allclose(run.run(clipped), [10.0], rtol=1e-6)
