"""Models that Keras runs: what trains a table and what must not, and Keras' own session."""
import keras_policies
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok

v1, keras = tf, tf.keras
ROWS, SHAPE = 32, [6, 2, 3]


def to_sparse(keys):
    keys = tf.reshape(keys, [-1, 3])
    where = tf.where(tf.ones_like(keys, dtype=tf.bool))
    return tf.SparseTensor(where, tf.gather_nd(keys, where), tf.shape(keys, out_type=tf.int64))


class Nested(keras.layers.Layer):
    """Changes its keys before it looks them up."""

    def __init__(self):
        super().__init__()
        self.table = sparse_layer()

    def call(self, keys):
        return self.table(to_sparse(keys + 1))


class Subclass(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.dense = inner, keras.layers.Dense(1)

    def call(self, keys):
        return self.dense(keras.layers.Flatten()(self.inner(keys)))


class Told(Subclass):
    def call(self, keys, training=None):
        return super().call(keys)


class ToldAndTells(Subclass):
    def call(self, keys, training=True):
        return self.dense(keras.layers.Flatten()(self.inner(keys, training=training)))


def functional(build):
    """A model of Keras' functional API; `build`: from keys to vectors."""
    keys = keras.Input(SHAPE[1:], dtype=tf.int64)
    return keras.Model(keys, keras.layers.Dense(1)(keras.layers.Flatten()(build(keys))))


def inner_model():
    keys = keras.Input(SHAPE[1:], dtype=tf.int64)
    return keras.Model(keys, dense_layer()(keys))


def over_time(keys):
    return keras.layers.TimeDistributed(dense_layer())(keras.layers.Reshape([1] + SHAPE[1:])(keys))


MODELS = {
    "functional": lambda: functional(lambda keys: dense_layer()(keys)),
    "keys changed outside layers": lambda: functional(lambda keys: dense_layer()(keys + 1)),
    "keys made sparse outside layers": lambda: functional(lambda keys: sparse_layer()(to_sparse(keys))),
    "keys made sparse in a Lambda": lambda: functional(lambda keys: sparse_layer()(keras.layers.Lambda(to_sparse)(
        keys))),
    "layer in a layer": lambda: functional(lambda keys: Nested()(keys)),
    "TimeDistributed": lambda: functional(over_time),
    "model in a model": lambda: functional(lambda keys: inner_model()(keys)),
    "Sequential": lambda: keras.Sequential([dense_layer(), keras.layers.Flatten(), keras.layers.Dense(1)]),
    "subclass": lambda: Subclass(dense_layer()),
    "subclass with training": lambda: Told(Nested()),
    "subclass that passes training on": lambda: ToldAndTells(dense_layer()),
    "subclass with a model in it": lambda: Subclass(inner_model()),
}


def table_of():
    return v1.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES)[0]


@pytest.mark.parametrize("name", MODELS)
def test_only_fit_trains(name, seed):
    random = np.random.RandomState(seed)
    keys, labels = random.randint(0, 12, SHAPE), random.normal(size=[SHAPE[0], 1])
    unseen = np.arange(2, 2 + 12 * ROWS).reshape([-1] + SHAPE[1:]) * 1000  # more than fit into the table
    with graph(), session() as run:
        model = MODELS[name]()
        model.compile(sok.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")

        def state():
            table = table_of()
            return run.run([table, table.index, table.stamps, table.steps])

        def evaluate(keys):
            results = [model.predict(keys), model.evaluate(keys, labels[np.arange(len(keys)) % len(labels)], verbose=0)]
            return results + [model.predict_on_batch(keys[:4]), model.test_on_batch(keys[:4], labels[:4])]

        early = evaluate(keys)
        evaluate(unseen)
        rows, (_, used), stamps, steps = state()
        assert used == steps == 0 and not rows.any() and not stamps.any()
        assert table_of() in model.trainable_variables
        model.fit(keys, labels, epochs=2, verbose=0, validation_data=(unseen[:4], labels[:4]))
        trained = state()
        expected = len(np.unique(keys))
        assert trained[1][1] == expected and (trained[2] > 0).sum() == expected
        late = evaluate(keys)
        evaluate(unseen)
        for before, after in zip(trained, state()):
            np.testing.assert_equal(before, after)
        assert (early[0] != late[0]).any() and late[1] < early[1]
        model.train_on_batch(unseen[:1], labels[:1])
        assert state()[1][1] == expected + 6 and state()[3] == steps + 3


def test_a_session_loop_trains_what_it_is_not_told_about(seed):
    keys = np.random.RandomState(seed).randint(0, 12, SHAPE)
    for name, make in MODELS.items():
        with graph():
            fed, model = v1.placeholder(tf.int64, [None] + SHAPE[1:]), make()
            result = model(fed)
            step = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(result))
            reading = None if type(model) is Subclass else model(fed, training=False)
            with session() as run:
                used = table_of().index[-1]
                if reading is not None:
                    run.run(reading, {fed: keys})
                    assert run.run(used) == 0, name
                run.run(step, {fed: keys})
                assert run.run(used) == len(np.unique(keys)), name
                if reading is not None:
                    run.run(reading, {fed: keys + 1000})
                    assert run.run(used) == len(np.unique(keys)), name


def test_a_session_loop_around_a_keras_graph_feeds_the_learning_phase():
    keys = np.arange(12).reshape([2, 2, 3])
    with graph():
        model = MODELS["functional"]()
        step = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(model.output))
        with session() as run:
            table, used = table_of(), table_of().index[-1]
            before = run.run(table), run.run(model.output, {model.input: keys})
            with pytest.raises(tf.errors.InvalidArgumentError, match="learning phase is 0.*feed .*learning_phase.*: 1"):
                run.run(step, {model.input: keys})
            # TensorFlow may have changed the Dense layer's variables before: nothing orders them after the table's.
            np.testing.assert_array_equal(run.run(table), before[0])
            assert run.run(used) == 0
            run.run(step, {model.input: keys, keras.backend.learning_phase(): 1})
            assert run.run(used) == 12 and (run.run(model.output, {model.input: keys}) < before[1]).all()


def test_set_learning_phase_is_obeyed():
    keys = np.arange(12).reshape([2, 2, 3])
    for phase, rows in ((0, 0), (1, 12)):
        with graph():
            keras.backend.set_learning_phase(phase)
            model = MODELS["functional"]()
            result = model(tf.constant(keys))
            with session() as run:
                model.predict(keys)
                assert run.run(table_of().index[-1]) == rows
                run.run(result)
                assert run.run(table_of().index[-1]) == rows


def test_averaged_metrics_and_broadcasts_name_what_is_wrong():
    for wrong, error in ((-1, ValueError), ("0", TypeError), (True, TypeError)):
        with pytest.raises(error, match="root_rank: got"):
            sok.BroadcastGlobalVariablesCallback(wrong)
    with graph(), session():
        logs = {"loss": np.float32(0.5), "auc": float("nan")}
        sok.MetricAverageCallback().on_epoch_end(0, logs)
        assert logs["loss"] == 0.5 and np.isnan(logs["auc"])


def test_broadcasts_of_one_model_are_made_once():
    with graph() as made, session():
        model, callback = keras.Sequential([keras.layers.Dense(1, input_shape=[2])]), \
            sok.BroadcastGlobalVariablesCallback(0)
        model.compile("sgd", "mse")
        numbers = []
        for _ in range(3):
            model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0, callbacks=[callback])
            numbers.append(len(made.get_operations()))
        assert numbers[0] == numbers[1] == numbers[2]
        later = v1.get_variable("later", initializer=1.0)  # of which the next one knows
        keras.backend.get_session().run(later.initializer)
        model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0, callbacks=[callback])
        assert [op for op in made.get_operations() if later.op in [one.op for one in op.inputs] and
                "broadcast" in op.name]


def test_autocast_variables_are_variables():
    """Keras wraps dense layers' variables under a policy that computes in float16."""
    policy = keras_policies.Policy(keras_policies.HALF)
    with graph():
        layer, dense = dense_layer(dtype=policy), keras.layers.Dense(1, dtype=policy)
        dense(layer(tf.zeros([1, 2, 3], tf.int64)))
        variables = dense.trainable_variables + layer.trainable_variables
        assert [type(variable).__name__ for variable in variables] == ["AutoCastVariable"] * 2 + ["EmbeddingVariable"]
        tables, others = sok.split_embedding_variable_from_others(variables)
        assert tables == [layer.embedding_variable] and others[0] is variables[0] and others[1] is variables[1]
        with sok.OptimizerScope(variables):
            pass
        with pytest.raises(ValueError, match="position 1, expected a variable"):
            sok.split_embedding_variable_from_others([variables[0], tf.constant(1.0)])


@pytest.mark.parametrize("average", [True, False])
def test_an_optimizer_that_keras_makes_anew_sums_or_averages_as_before(average):
    with graph():
        optimizer = sok.DistributedOptimizer(keras.optimizers.SGD(0.1), average=average)
        twin = type(optimizer).from_config(optimizer.get_config())
        assert twin._sok1x_average is average and optimizer._sok1x_average is average
        assert twin.apply_gradients([(tf.ones([2]), keras.backend.variable([1.0, 2.0]))]).type


class _Summed(tf.keras.layers.Layer):
    """Sums the rows of a sample's ids, of `make(values)`, by `look_up`."""

    def __init__(self, make, look_up, values):
        super().__init__()
        self._make, self._look_up, self._values = make, look_up, values

    def build(self, shape):
        self.table = self._make(self._values)
        super().build(shape)

    def call(self, ids):
        return self._look_up(self.table, ids)

    def compute_output_shape(self, shape):
        return shape[0], self._values.shape[1]


def test_a_layer_of_the_users_own_with_a_variable_of_ours(seed):
    sok.init()
    random = np.random.RandomState(seed)
    values, kernel = random.randn(7, 3).astype(np.float32), random.randn(3, 1)
    ids, wanted = random.randint(0, 7, [8, 4]), random.randn(8, 1)
    found = []
    for make, look_up in (
            (lambda value: tf.Variable(value, use_resource=True),
             lambda table, rows: tf.reduce_sum(tf.nn.embedding_lookup(table, rows), axis=1)),
            (sok.Variable, lambda table, rows: sok.lookup_sparse(table, tf.RaggedTensor.from_tensor(rows),
                                                                 combiners="sum"))):
        with graph(), session(initialize=False) as run:
            tf.keras.backend.set_session(run)
            inputs = tf.keras.layers.Input([4], dtype=tf.int64)
            dense = tf.keras.layers.Dense(1, kernel_initializer=tf.constant_initializer(kernel))
            model = tf.keras.Model(inputs, dense(_Summed(make, look_up, values)(inputs)))
            assert len(model.trainable_weights) == 3
            model.compile(tf.keras.optimizers.SGD(0.01), "mse")
            model.fit(ids, wanted, batch_size=4, epochs=2, shuffle=False, verbose=0)
            found.append(model.predict(ids))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)
