"""The two layers as Keras layers: `training`, configurations, and models of every kind."""
import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_constant, sparse_layer

import sok1x as sok

v1 = tf
LAYERS = pytest.mark.parametrize("make", [dense_layer, sparse_layer], ids=["dense", "sparse"])


# ---- training

@LAYERS
def test_training_in_every_form(make):
    keys = tf.constant
    with graph():
        layer = make(embedding_initializer="normal")
        if make is dense_layer:
            keys = tf.constant([[[1, -2, 1]] * 2], tf.int64)
        else:
            keys = sparse_constant([[1, -2, 1], []], 3)
        flag = v1.placeholder(tf.bool, [])
        number = tf.Variable(0)
        reading = [layer(keys, False), layer(keys, training=False), layer(inputs=keys, training=False),
                   layer(keys, training=np.bool_(False)), layer(keys, training=0), layer(keys, tf.constant(False)),
                   layer(keys, training=number), layer(keys, training=flag)]
        writing = [layer(keys), layer(keys, None), layer(keys, True), layer(keys, training=True),
                   layer(keys, training=1), layer(keys, training=tf.constant(True))]
        phase = tf.keras.backend.learning_phase()  # a placeholder that says False unless it is fed
        reading += [layer(keys, training=phase)]
        writing += [layer(keys, None)]
        tf.keras.backend.set_learning_phase(0)
        reading += [layer(keys, None), layer(keys, training=tf.keras.backend.learning_phase())]
        tf.keras.backend.set_learning_phase(1)
        writing += [layer(keys, None)]
        with session() as run:
            used = layer.embedding_variable.index[-1]
            before = run.run(reading, {flag: False})
            table = run.run(layer.embedding_variable)
            assert run.run(used) == 0 and not table.any()
            for fetch in writing:
                run.run(tf.group(*[variable.initializer for variable in layer.embedding_variable.index]))
                after = run.run(fetch)
                assert run.run(used) == 2
                for value in before:
                    np.testing.assert_array_equal(value, after)
            assert after.any()
            for fetch, feed in ((reading[7], {flag: True}), (reading[8], {phase: True})):
                run.run(tf.group(*[variable.initializer for variable in layer.embedding_variable.index]))
                run.run(fetch, feed)
                assert run.run(used) == 2


@pytest.mark.parametrize("default", [None, True])
def test_training_is_the_default(default):
    with graph():
        layer = dense_layer()
        keys = tf.constant([[[1, 2, 1]] * 2], tf.int64)
        vectors = layer(keys) if default is None else layer(keys, training=None)
        with session() as run:
            run.run(vectors)
            assert run.run(layer.embedding_variable.index[-1]) == 2


@pytest.mark.parametrize("wrong, error", [
    ("yes", TypeError), (2, TypeError), (0.5, TypeError), ([True, False], TypeError)])
def test_wrong_training(wrong, error):
    with graph():
        layer = dense_layer()
        with pytest.raises(error, match="training: got .* expected"):
            layer(tf.constant([[[1, 2, 1]] * 2], tf.int64), training=wrong)
        with pytest.raises(ValueError, match="training: got a tensor of shape .* expected a scalar"):
            layer(tf.constant([[[1, 2, 1]] * 2], tf.int64), training=tf.constant([True, False]))


# ---- configurations

@pytest.mark.parametrize("initializer", [
    None, "ones", "glorot_uniform", tf.keras.initializers.Constant(2.0), tf.keras.initializers.TruncatedNormal(0, 2.0),
    {"class_name": "Constant", "config": {"value": 3.0}}],
    ids=["default", "ones", "glorot_uniform", "constant", "normal", "configuration"])
@LAYERS
def test_configuration_round_trip(make, initializer):
    arguments = dict(name="ads", key_dtype="uint32", use_hashtable=False, trainable=False,
                     embedding_initializer=initializer)
    arguments.update(dict(dynamic_input=True) if make is dense_layer else dict(
        combiner="Mean", max_feature_num=7, exchange="Reduce_Scatter"))
    with graph():
        layer = make(**arguments)
        config = json.loads(json.dumps(layer.get_config()))
        twin = type(layer).from_config(config)
        assert json.loads(json.dumps(twin.get_config())) == config
        assert type(twin) is type(layer) and twin.name == "ads" and not twin.trainable
        assert twin.embedding_variable.m_var_name == "EmbeddingVariable_1"
        assert (twin.embedding_variable.table.initializer == layer.embedding_variable.table.initializer)
        with session() as run:
            one, other = run.run([layer.embedding_variable, twin.embedding_variable])
        if initializer is not None and not isinstance(initializer, (str, tf.keras.initializers.TruncatedNormal)):
            np.testing.assert_array_equal(one, other)


def test_a_callable_without_configuration_cannot_be_saved():
    with graph():
        layer = dense_layer(embedding_initializer=lambda shape: np.zeros(shape, np.float32))
        with pytest.raises(ValueError, match="has no get_config.*tf.keras.initializers"):
            layer.get_config()


# ---- models

DENSE_KEYS = np.array([[[1, 2, 1], [4, 5, -6]], [[1, 1, 1], [0, 9, 2 ** 40]]], np.int64)
BAGS = [[1, 2], [], [-3], [2, 2, 1]]


class Wide(tf.keras.Model):
    """Layers as attributes and in lists, with Python control flow that AutoGraph rewrites."""

    def __init__(self):
        super().__init__()
        self.fields = [dense_layer(embedding_initializer="ones") for _ in range(2)]
        self.genres = sparse_layer(combiner="mean", embedding_initializer="ones")
        self.hidden = [tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)]

    def call(self, inputs, training=True):
        dense, sparse = inputs
        parts = []
        for layer in self.fields:
            parts.append(tf.reshape(layer(dense, training=training), [-1, 24]))
        parts.append(tf.reshape(self.genres(sparse, training), [-1, 8]))
        if tf.size(dense) > 0:
            value = tf.concat(parts, 1)
        else:
            value = tf.zeros([0, 56])
        for layer in self.hidden:
            value = layer(value)
        return value


def test_subclassed_model():
    with graph():
        model = Wide()
        keys = v1.placeholder(tf.int64, [None, 2, 3])
        result = model((keys, sparse_constant(BAGS, 3)), training=True)
        assert [variable.name for variable in model.trainable_variables[:3]] == [
            "EmbeddingVariable:0", "EmbeddingVariable_1:0", "EmbeddingVariable_2:0"]
        assert len(model.trainable_variables) == 3 + 4 and len(model.non_trainable_variables) == 3 * 4
        shards, others = sok.split_embedding_variable_from_others(model.trainable_variables)
        assert [layer.embedding_variable for layer in model.fields + [model.genres]] == shards and len(others) == 4
        gradients = tf.gradients(result, shards + others)
        with session() as run:
            value, gradients = run.run([result, gradients], {keys: DENSE_KEYS})
            assert value.shape == (2, 1)
            assert [len(gradient.indices) for gradient in gradients[:3]] == [8, 8, 3]


def test_functional_model_is_built_on_inputs_never_fed_and_then_used_on_data():
    with graph():
        dense, sparse = dense_layer(embedding_initializer="normal"), sparse_layer(embedding_initializer="normal")
        inputs = [tf.keras.Input([2, 3], dtype=tf.int64), tf.keras.Input([3], dtype=tf.int64, sparse=True)]
        outputs = [dense(inputs[0]), sparse(inputs[1])]
        assert [output.shape.as_list() for output in outputs] == [[None, 2, 3, 4], [None, 2, 4]]
        model = tf.keras.Model(inputs, outputs)
        assert model.trainable_variables == [dense.embedding_variable, sparse.embedding_variable]
        data = [tf.constant(DENSE_KEYS), sparse_constant(BAGS, 3)]
        reading, training = model(data, training=False), model(data)
        bare = [dense(data[0], training=False), sparse(data[1], training=False)]
        assert [output.shape.as_list() for output in training] == [[2, 2, 3, 4], [2, 2, 4]]
        with session() as run:
            before = run.run(reading)
            counts = [dense.embedding_variable.index[-1], sparse.embedding_variable.index[-1]]
            assert run.run(counts) == [0, 0]
            after = run.run(training)
            assert run.run(counts) == [8, 3]
            for one, two, three in zip(before, after, run.run(bare)):
                np.testing.assert_array_equal(one, two)
                np.testing.assert_array_equal(two, three)


def test_models_from_configurations_and_clones():
    with graph():
        inputs = [tf.keras.Input([2, 3], dtype=tf.int64), tf.keras.Input([3], dtype=tf.int64, sparse=True)]
        model = tf.keras.Model(inputs, [
            dense_layer(embedding_initializer=tf.keras.initializers.Constant(2.0))(inputs[0], training=False),
            sparse_layer(combiner="mean", embedding_initializer="ones")(inputs[1])])
        twins = [tf.keras.Model.from_config(json.loads(json.dumps(model.get_config()))),
                 tf.keras.models.clone_model(model)]
        tables = {variable.name for each in [model] + twins for variable in each.trainable_variables}
        assert len(tables) == 6
        data = [tf.constant(DENSE_KEYS), sparse_constant(BAGS, 3)]
        results = [each(data) for each in [model] + twins]
        with session() as run:
            for dense, sparse in run.run(results):
                assert (dense == 2).all()
                assert sparse.tolist() == [[[1.0] * 4, [0.0] * 4], [[1.0] * 4, [1.0] * 4]]
            # `training=False` of the first call is part of the model's configuration.
            for each in [model] + twins:
                counts = [run.run(layer.embedding_variable.index[-1]) for layer in each.layers
                          if isinstance(layer, (sok.All2AllDenseEmbedding, sok.DistributedEmbedding))]
                assert sorted(counts) == [0, 3]


def test_sequential_model_and_compute_output_shape():
    with graph():
        model = tf.keras.Sequential([tf.keras.layers.InputLayer([2, 3], dtype=tf.int64), dense_layer(),
                                     tf.keras.layers.Flatten()])
        assert model.output_shape == (None, 24)
        assert model(tf.constant(DENSE_KEYS)).shape.as_list() == [2, 24]


def test_keras_own_loop_and_files(tmp_path, seed):
    """compile, fit, predict, save and load_model, in a session in which Init has run."""
    random = np.random.RandomState(seed)
    keys = random.randint(0, 10, [200, 2, 3])
    labels = (keys[:, 0, 0] > 4).astype(np.float32)
    path = str(tmp_path / "model.h5")
    with graph():
        inputs = tf.keras.Input([2, 3], dtype=tf.int64)
        hidden = tf.keras.layers.Flatten()(dense_layer()(inputs))
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(hidden))
        model.compile(sok.DistributedOptimizer(tf.keras.optimizers.Adam(0.05)), "binary_crossentropy")
        try:
            with session(initialize=False) as run:
                tf.keras.backend.set_session(run)
                losses = model.fit(keys, labels, batch_size=20, epochs=8, verbose=0).history["loss"]
                assert losses[-1] < 0.5 * losses[0]
                model.save(path)
                loaded = tf.keras.models.load_model(path)
                assert loaded.trainable_variables[0].name == "EmbeddingVariable_1:0"
                np.testing.assert_array_equal(loaded.predict(keys), model.predict(keys))
        finally:
            tf.keras.backend.set_session(None)
