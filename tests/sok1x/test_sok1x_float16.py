"""Layers under Keras' float16 policies, on one rank: what the float32 lookup of the same table gives, rounded."""
import contextlib

import keras_policies as policies
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_constant, sparse_layer

import sok1x as sok
from sok1x.graph_ops.operations import embedding

v1 = tf
LAYERS = pytest.mark.parametrize("make", [dense_layer, sparse_layer], ids=["dense", "sparse"])
BAGS = [[5, -6, 7], [5], [], [8, 8], [2 ** 40, 9, 1], [3, 4]]


@contextlib.contextmanager
def global_policy(policy):
    """Keras takes one for all layers only where dtypes are as in TensorFlow 2."""
    before = policies.base_layer_utils.v2_dtype_behavior_enabled()
    policies.base_layer_utils.enable_v2_dtype_behavior()
    try:
        policies.set_policy(policy)
        yield
    finally:
        policies.set_policy(None)
        if not before:
            policies.base_layer_utils.disable_v2_dtype_behavior()


def inputs(make, training_keys=True):
    if make is sparse_layer:
        return sparse_constant(BAGS if training_keys else [[100 + k for k in bag] for bag in BAGS], 3)
    keys = np.array([[[5, -6, 7], [5, 5, 2 ** 40]], [[1, 2, 3], [-6, 9, 8]]])
    return tf.constant(keys if training_keys else keys + 100, tf.int64)


def look_up(layer, keys, training=False):
    """The float32 lookup of a layer's table."""
    variables = layer.embedding_variable.table_variables
    if isinstance(keys, tf.SparseTensor):
        return embedding.lookup_combined(variables, keys, layer.slot_num, layer.max_nnz, layer.combiner, training)
    return embedding.lookup_dense(variables, keys, training)


# ---- policies

@LAYERS
@pytest.mark.parametrize("given", ["float16", tf.float16, "mixed_float16", "float16_with_float32_vars", "policy"])
def test_policy_of_a_layer(make, given):
    with graph():
        layer = make(dtype=policies.Policy("mixed_float16") if given == "policy" else given)
        assert layer(inputs(make)).dtype == tf.float16
        assert layer.embedding_variable.dtype == tf.float32 and layer.dtype == "float32"
        twin = type(layer).from_config(layer.get_config())
        assert twin(inputs(make)).dtype == tf.float16 and twin.get_config()["dtype"] == layer.get_config()["dtype"]
        assert all(variable.dtype in (tf.float32, tf.int64) for variable in v1.global_variables())


@LAYERS
@pytest.mark.parametrize("given", [None, "float32", np.float32, policies.INFER])
def test_float32_otherwise(make, given):
    with graph():
        assert make(dtype=given)(inputs(make)).dtype == tf.float32
        assert make(dtype=policies.Policy(given) if isinstance(given, str) else given).dtype == "float32"


@LAYERS
@pytest.mark.parametrize("policy, dtype", [("mixed_float16", tf.float16), ("float16", tf.float16),
                                           ("float32", tf.float32), (policies.INFER, tf.float32), (None, tf.float32)])
def test_policy_of_all_layers(make, policy, dtype):
    with graph(), global_policy(policy):
        assert make()(inputs(make)).dtype == dtype
        assert make(dtype="float32")(inputs(make)).dtype == tf.float32


@LAYERS
def test_policies_that_tables_do_not_have(make):
    with graph():
        for policy in ("mixed_bfloat16", "float64"):
            words = "'ads': dtype: got .*{}.*expected".format(policy)
            with global_policy(policy), pytest.raises(TypeError, match=words):
                make(name="ads")
        with pytest.raises(TypeError, match="rows are float32"):
            make(dtype=policies.Policy(policies.DOUBLE))
        assert not any("Embedding" in variable.name for variable in v1.global_variables())


# ---- values

@LAYERS
@pytest.mark.parametrize("options", [
    dict(), dict(use_hashtable=False), dict(embedding_initializer="ones"),
    dict(embedding_initializer=lambda shape, dtype, **_: tf.random.normal(shape, dtype=dtype))],
    ids=["hash", "direct", "ones", "by row"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_outputs_are_those_of_float32_rounded(make, options, combiner, size):
    direct = not options.get("use_hashtable", True)
    more = dict(options, combiner=combiner) if make is sparse_layer else options
    with graph():
        layer = make(max_vocabulary_size_per_gpu=200, embedding_vec_size=size, dtype="float16", **more)
        keys, unseen = inputs(make), inputs(make, training_keys=False)
        if direct:
            keys, unseen = (tf.SparseTensor(k.indices, k.values % 200, k.dense_shape)
                            if make is sparse_layer else k % 200 for k in (keys, unseen))
        train, evaluate, nothing = layer(keys), layer(keys, training=False), layer(unseen, training=False)
        flag = v1.placeholder_with_default(False, [])
        either = layer(keys, training=flag)
        with session() as run:
            before = run.run([evaluate, look_up(layer, keys)])
            trained = run.run(train)
            after = run.run([evaluate, look_up(layer, keys)])
            rest = run.run([nothing, look_up(layer, unseen)])
            assert trained.dtype == np.float16 and np.abs(trained).max() > 0
            for half, single in (before, after, rest, (trained, after[1]), (run.run(either, {flag: True}), after[1])):
                np.testing.assert_array_equal(half, single.astype(np.float16))


@LAYERS
@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_sums_in_float32(make, combiner, training, seed):
    random = np.random.RandomState(seed)
    with graph():
        more = dict(combiner=combiner) if make is sparse_layer else {}
        layer = make(embedding_vec_size=5, dtype="float16", use_hashtable=False, max_vocabulary_size_per_gpu=40, **more)
        bags = [random.randint(0, 12, random.randint(0, 4)) for _ in range(40)]
        keys = (sparse_constant(bags, 3) if make is sparse_layer
                else tf.constant(random.randint(0, 12, [7, 2, 3]), tf.int64))
        out = layer(keys, training=training)
        weights = v1.placeholder(tf.float16, out.shape)
        slices = tf.gradients(out, layer.embedding_variable, grad_ys=weights)[0]
        assert slices.values.dtype == tf.float32
        given = random.standard_normal(out.shape.as_list()).astype(np.float16)
        with session() as run:
            values, indices = run.run([slices.values, slices.indices], {weights: given})
            keys = run.run(keys)
    assert values.dtype == np.float32 and len(set(indices)) == len(indices)
    got = np.zeros((40, 5))
    got[indices] = values
    if make is sparse_layer:
        lengths = np.array([len(bag) for bag in bags])
        terms = np.repeat(given.reshape(-1, 5), lengths, axis=0).astype(np.float64)
        terms /= np.repeat(lengths, lengths)[:, None] if combiner == "mean" else 1
        ids = np.concatenate(bags)
    else:
        terms, ids = given.reshape(-1, 5).astype(np.float64), keys.ravel()
    exact, absolute = np.zeros((40, 5)), np.zeros((40, 5))
    np.add.at(exact, ids, terms)
    np.add.at(absolute, ids, np.abs(terms))
    # Each of at most 120 additions, and a mean's weight and its product, rounds by 2**-24 of the terms.
    assert (np.abs(got - exact) <= 122 * 2.0 ** -24 * absolute).all()


def test_a_gradient_too_large_for_float16_is_not_one_for_its_sum():
    with graph():
        layer = dense_layer(slot_num=1, nnz_per_slot=4, dtype="float16")
        gradient = tf.gradients(tf.cast(layer(tf.constant([[[7, 7, 7, 7]]], tf.int64)), tf.float32) * 60000.0,
                                layer.embedding_variable)[0]
        with session() as run:
            np.testing.assert_array_equal(run.run(gradient.values), np.full([1, 4], 4 * np.float32(np.float16(60000))))


def test_model_of_keras_keeps_the_policy_and_learns():
    random = np.random.RandomState(3)
    with graph():
        keys = tf.keras.Input([2, 3], dtype=tf.int64)
        policy = policies.Policy("mixed_float16")
        vectors = dense_layer(dtype=policy)(keys)
        hidden = tf.keras.layers.Dense(8, activation="relu", dtype=policy)(tf.keras.layers.Flatten()(vectors))
        model = tf.keras.Model(keys, tf.keras.layers.Dense(1, dtype="float32")(tf.cast(hidden, tf.float32)))
        assert hidden.dtype == tf.float16
        optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(0.05), "dynamic")
        model.compile(optimizer, "mse")
        with session() as run:
            tf.keras.backend.set_session(run)
            try:
                batch = random.randint(0, 9, [64, 2, 3])
                losses = model.fit(batch, batch[:, 0, :1] / 4.0, batch_size=16, epochs=30, verbose=0).history["loss"]
            finally:
                tf.keras.backend.set_session(None)
        assert losses[-1] < 0.2 * losses[0]


def test_keras_reads_a_model_back():
    with graph():
        keys = tf.keras.Input([2, 3], dtype=tf.int64)
        model = tf.keras.Model(keys, dense_layer(dtype="mixed_float16", name="ads")(keys))
        text = model.to_json()
    with graph():
        read = tf.keras.models.model_from_json(text)
        assert read.get_layer("ads")._compute_dtype == "float16" and read.output.dtype == tf.float16
