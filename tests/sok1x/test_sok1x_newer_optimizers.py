"""Keras' newer optimizers and its own loss scaling (TensorFlow 2) in graphs: tables train as stock variables do."""
import itertools
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.core.tables.shard_variable import ShardVariable

pytestmark = pytest.mark.skipif(tf.__version__.startswith("1."), reason="TensorFlow 1.15 has none of them")
HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, DIM, KEYS, STEPS = 12, 3, 5, 4


def optimizers():
    """{name: what makes one}: all but Adafactor, whose slots are no rows, and Nadam, which Keras has not for graphs."""
    keras = tf.compat.v2.keras.optimizers
    return {
        "SGD": lambda: keras.SGD(0.1), "nesterov": lambda: keras.SGD(0.1, momentum=0.9, nesterov=True),
        "Adam": lambda: keras.Adam(0.05), "amsgrad": lambda: keras.Adam(0.05, amsgrad=True),
        "AdamW": lambda: keras.AdamW(0.05, weight_decay=0.1), "Adagrad": lambda: keras.Adagrad(0.1),
        "Adadelta": lambda: keras.Adadelta(0.5), "RMSprop": lambda: keras.RMSprop(0.05, momentum=0.5, centered=True),
        "Adamax": lambda: keras.Adamax(0.05), "Ftrl": lambda: keras.Ftrl(0.1),
        "Lion": lambda: keras.Lion(0.05),
        "schedule": lambda: keras.Adam(keras.schedules.ExponentialDecay(0.1, 2, 0.5)),
        "clipnorm": lambda: keras.SGD(0.1, clipnorm=0.5), "clipvalue": lambda: keras.Adagrad(0.1, clipvalue=0.75),
        "global_clipnorm": lambda: keras.Adam(0.05, global_clipnorm=0.5)}


class Twins:
    """A table of ours and a variable of TensorFlow's, with dense weights each; gradients have no sums near zero."""

    def __init__(self, keys, factors, first, **table):
        self.ours = sok.EmbeddingVariable(**dict(dict(rows=ROWS, dim=DIM, use_hashtable=False), **table))
        self.stock = tf.Variable(first, use_resource=True)
        self.dense = [tf.Variable(first[:2], use_resource=True) for _ in range(2)]
        lookups = [sok.all2all_dense_embedding(self.ours, keys), tf.gather(self.stock, keys)]
        self.pairs = []
        for looked_up, table, dense in zip(lookups, (self.ours, self.stock), self.dense):
            loss = tf.reduce_sum(tf.reshape(looked_up, [-1, DIM]) * factors) + tf.reduce_sum(dense * factors[:2])
            self.pairs.append(list(zip(tf.gradients(loss, [table, dense]), [table, dense])))
        # A norm of ours is one of sums over equal keys.
        self.summed = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in self.pairs[1]]
        self.start = sok.assign(self.ours, tf.range(len(first), dtype=tf.int64), first)

    def step(self, make, wrap):
        """Of both: TensorFlow's in a tf.function, for which these optimizers are made."""
        made = [make(), make()]
        self.counts = [optimizer.iterations for optimizer in made]
        self.optimizer, stock = wrap(made[0]), made[1]
        pairs = self.summed if any(getattr(stock, name) for name in ("clipnorm", "clipvalue", "global_clipnorm")) \
            else self.pairs[1]
        stock.build([variable for _, variable in pairs])
        return [self.optimizer.apply_gradients(self.pairs[0]),
                tf.function(lambda: stock.apply_gradients(pairs), autograph=False)()]


@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, sok.DistributedOptimizer],
                         ids=["plain", "distributed"])
def test_in_a_graph_as_tensorflow_trains_in_a_function(wrap, seed, tmp_path):
    random = np.random.RandomState(seed)
    batches = [(random.randint(0, ROWS, [KEYS]), random.uniform(0.5, 2, [KEYS, DIM])) for _ in range(2 * STEPS)]
    first = random.uniform(-1, 1, [ROWS, DIM]).astype(np.float32)
    with graph():
        keys, factors = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, DIM])
        twins, steps = {}, []
        for name, make in optimizers().items():
            twins[name] = Twins(keys, factors, first)
            steps += twins[name].step(make, wrap)
        values = {name: [twin.ours, twin.stock] + twin.dense + [twin.optimizer.iterations]
                  for name, twin in twins.items()}
        for name in ("nesterov", "Adam", "Adagrad"):
            slots = [slot for slot in twins[name].optimizer.variables if slot.shape == [ROWS, DIM]]
            assert slots and all(isinstance(slot, ShardVariable) for slot in slots), name
        saver, ends = tf.train.Saver(), []
        with session(initialize=False) as run:
            # A schedule's variable starts from what it reads of them, and Keras says so to nobody: TensorFlow alone
            # fails to initialize ten such optimizers at once in 1 of 20 graphs.
            run.run([count.initializer for twin in twins.values() for count in twin.counts])
            run.run(tf.global_variables_initializer())
            run.run([twin.start for twin in twins.values()])
            for half in (batches[:STEPS], batches[STEPS:], batches[STEPS:]):
                if len(ends) == 2:  # as it was after the first half, slots and all
                    saver.restore(run, str(tmp_path / "half"))
                for batch in half:
                    run.run(steps, dict(zip((keys, factors), batch)))
                ends.append(run.run(values))
                if len(ends) == 1:
                    saver.save(run, str(tmp_path / "half"))
    for end, number in zip(ends, (STEPS, 2 * STEPS, 2 * STEPS)):
        for name, (ours, stock, dense, stock_dense, iterations) in end.items():
            assert iterations == number, name
            np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6, err_msg=name)
            np.testing.assert_allclose(dense, stock_dense, rtol=1e-4, atol=1e-6, err_msg=name)
            assert (ours != first).any(), name
    for name, values in ends[2].items():
        np.testing.assert_array_equal(values[0], ends[1][name][0], err_msg=name)


def test_tables_that_grow(seed):
    """As a variable that has all rows from the start; new keys come all along."""
    random = np.random.RandomState(seed)
    names = ("SGD", "nesterov", "Adam", "Adagrad", "RMSprop")  # which leave rows without a gradient
    with graph():
        keys, factors = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, DIM])
        first, steps, compared = np.ones([400, DIM], np.float32), [], {}
        for name in names:
            twin = Twins(keys, factors, first, rows=None, use_hashtable=True, init_capacity=4, initializer="ones")
            steps += twin.step(optimizers()[name], lambda optimizer: optimizer)
            read = sok.all2all_dense_embedding(twin.ours, keys)
            compared[name] = tf.reshape(read, [-1, DIM]), tf.gather(twin.stock, keys)
        with session() as run:
            seen = []
            for number in range(STEPS):
                batch = random.randint(0, 100 * (number + 1), 40)
                run.run(steps, {keys: batch, factors: random.uniform(0.5, 2, [len(batch), DIM])})
                seen += batch.tolist()
            for name, (ours, stock) in run.run(compared, {keys: seen}).items():
                np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("wrap", [lambda optimizer: optimizer, sok.DistributedOptimizer, sok.OptimizerWrapper],
                         ids=["plain", "distributed", "wrapped"])
def test_steps_that_keras_has_xla_compile_beside_a_gpu(wrap, seed):
    """A compiled step of a plain graph was one that nothing ran."""
    random = np.random.RandomState(seed)
    keys, factors = random.randint(0, ROWS, [KEYS]), random.uniform(0.5, 2, [KEYS, DIM])

    def compiled(optimizer):
        optimizer.jit_compile = True  # what Keras sets there, and XLA compiles for CPUs too
        return wrap(optimizer)

    with graph():
        first, steps, compared = np.ones([ROWS, DIM], np.float32), [], {}
        for grows in (False, True):
            twin = Twins(tf.constant(keys), tf.constant(factors, tf.float32), first, initializer="ones", **dict(
                rows=None, use_hashtable=True, init_capacity=4) if grows else {})
            steps += twin.step(optimizers()["Adam"], compiled)
            read = sok.all2all_dense_embedding(twin.ours, tf.constant(keys))
            compared[grows] = [tf.reshape(read, [-1, DIM]), tf.gather(twin.stock, keys)] + twin.dense
        alone = []  # no table is in its step
        for scaled in (False, True):
            made = compiled(tf.compat.v2.keras.optimizers.SGD(0.25))
            if scaled and wrap is sok.DistributedOptimizer:
                made = tf.keras.mixed_precision.LossScaleOptimizer(made, dynamic=False, initial_scale=1)
            alone.append(tf.Variable(first, use_resource=True))
            steps.append(made.apply_gradients([(tf.ones_like(alone[-1]), alone[-1])]))
        with session() as run:
            run.run(steps)
            for grows, (ours, stock, dense, stock_dense) in run.run(compared).items():
                np.testing.assert_allclose(ours, stock, rtol=1e-4, err_msg=str(grows))
                np.testing.assert_allclose(dense, stock_dense, rtol=1e-4, err_msg=str(grows))
            assert (np.array(run.run(alone)) == 0.75).all()


def test_a_wrapped_schedule_tells_each_the_rate_of_its_own_steps():
    """The two shared the variable that either assigns at each step, in whatever order."""
    class Falling(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return tf.where(tf.cast(step, tf.int64) < 1000, 1.0, 0.125)

    with graph():
        table = sok.EmbeddingVariable(rows=4, dim=2, use_hashtable=False, initializer="zeros")
        dense = [tf.Variable(tf.zeros([4, 2]), use_resource=True) for _ in range(30)]
        optimizer = tf.compat.v2.keras.optimizers.SGD(Falling())
        wrapped = sok.OptimizerWrapper(optimizer)
        steps = [wrapped.apply_gradients([(tf.ones([4, 2]), table)]),
                 optimizer.apply_gradients([(tf.ones([4, 2]), one) for one in dense])]
        with session(initialize=False) as run:
            run.run([optimizer.iterations.initializer])
            run.run(tf.global_variables_initializer())
            assert run.run(wrapped.lr) == 1
            run.run(optimizer.iterations.assign(1000))
            for number in range(1, 101):
                run.run(steps)
                rows, weights = run.run([table, dense])
                assert (rows == -number).all() and (np.array(weights) == -number / 8).all(), number
            assert run.run([wrapped.lr, optimizer.learning_rate]) == [1, 0.125]


def test_a_variable_whose_first_gradients_are_none():
    """Wrapped as TensorFlow's: the first step makes the slots of all variables that it names."""
    with graph():
        ours = [sok.EmbeddingVariable(rows=4, dim=2, use_hashtable=False, initializer="ones") for _ in range(2)]
        stock = [tf.Variable(tf.ones([4, 2]), use_resource=True) for _ in range(2)]
        wrapped = sok.OptimizerWrapper(tf.compat.v2.keras.optimizers.SGD(0.1, momentum=0.9))
        plain, count, given = tf.compat.v2.keras.optimizers.SGD(0.1, momentum=0.9), tf.train.create_global_step(), \
            [tf.ones([4, 2]), None]
        first = [wrapped.apply_gradients(zip(given, ours), global_step=count), plain.apply_gradients(zip(given, stock))]
        assert wrapped.trains(ours[0]) and not wrapped.trains(ours[1])
        both = [optimizer.apply_gradients([(tf.ones([4, 2]), one) for one in variables])
                for optimizer, variables in ((wrapped, ours), (plain, stock))]
        assert wrapped.trains(ours[1])
        with session() as run:
            for step in (first, both, both):
                run.run(step)
            for one, other in zip(*run.run([ours, stock])):
                np.testing.assert_allclose(one, other, rtol=1e-6)
            assert run.run(count) == 1


@pytest.mark.parametrize("table", [dict(use_hashtable=True), dict(rows=None, use_hashtable=True), dict()],
                         ids=["hashed", "growing", "by number"])
def test_what_reads_rows_reads_those_that_the_lookup_has_made(table, seed):
    """All keys of the step are new: Ftrl and weight decay begin with their rows' first values."""
    random = np.random.RandomState(seed)
    first, factors = np.ones([400, DIM], np.float32), random.uniform(0.5, 2, [400, DIM])
    names, wraps = ("Ftrl", "AdamW", "SGD with decay", "Adam"), (
        lambda optimizer: optimizer, sok.DistributedOptimizer, sok.OptimizerWrapper)
    makes = dict(optimizers(), **{"SGD with decay": lambda: tf.compat.v2.keras.optimizers.SGD(0.1, weight_decay=0.5)})
    with graph():
        keys, steps, compared = tf.constant(random.permutation(400)), [], {}
        for name, wrap in itertools.product(names, wraps):
            twin = Twins(keys, factors, first, **dict(dict(rows=400, initializer="ones"), **table))
            steps += twin.step(makes[name], wrap)
            read = sok.all2all_dense_embedding(twin.ours, keys)
            compared[name, wrap] = tf.reshape(read, [-1, DIM]), tf.gather(twin.stock, keys)
        with session() as run:
            run.run(steps)
            for name, (ours, stock) in run.run(compared).items():
                np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6, err_msg=str(name))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD with decay"])
def test_those_that_write_whole_variables_are_refused_for_tables_with_a_cache(name):
    """`assign_add` of a slot, `assign_sub` of the rows: they left out what was not in the cache."""
    keras = tf.compat.v2.keras.optimizers
    make = dict(optimizers(), **{"SGD with decay": lambda: keras.SGD(0.1, weight_decay=0.1)})[name]
    with graph():
        table = sok.DynamicVariable(2, cache_rows=4)
        looked_up = sok.all2all_dense_embedding(table, tf.constant([[1], [2]], tf.int64))
        with pytest.raises(ValueError, match="would leave out what is not in the cache"):
            make().apply_gradients([(tf.gradients(looked_up, table)[0], table)])


def test_averages_in_a_graph_are_refused():
    keras = tf.compat.v2.keras.optimizers
    with graph():
        table = sok.EmbeddingVariable(rows=4, dim=2, use_hashtable=False, initializer="ones")
        for wrap in (lambda made: made, sok.OptimizerWrapper, sok.DistributedOptimizer):
            with pytest.raises(ValueError, match="use_ema=True in a tf.Graph, in which Keras never puts averages"):
                wrap(keras.SGD(0.1, use_ema=True)).apply_gradients([(tf.ones([4, 2]), table)])


@pytest.mark.skipif(os.environ.get("SOK1X_TEST_BEHAVIOR") == "v2",
                    reason="there Keras' fit of graphs takes no newer ones")
def test_compile_keeps_them_distributed():
    """With TensorFlow 2's behavior off, Keras makes an older optimizer of a newer one."""
    keras = tf.compat.v2.keras.optimizers
    with graph():
        inputs = tf.keras.Input([1], dtype=tf.int64)
        layer = sok.All2AllDenseEmbedding(32, 4, 1, 1, embedding_initializer="ones")
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones")(
            tf.keras.layers.Flatten()(layer(inputs[:, None]))))
        rate = keras.schedules.ExponentialDecay(0.25, 1000, 0.5)  # of one that is a variable Keras reads no value there
        model.compile(sok.DistributedOptimizer(keras.Adam(rate), average=False, clip_norm=1e3), "mse")
        assert isinstance(model.optimizer, tf.keras.optimizers.Adam)
        assert model.optimizer._sok1x_average is False and model.optimizer._sok1x_clip_norm == 1e3
        tf.keras.backend.get_session().run(sok.Init(global_batch_size=4))
        losses = model.fit(np.arange(4)[:, None], np.ones([4, 1]), epochs=30, verbose=0).history["loss"]
        assert losses[-1] < losses[0]
        assert tf.keras.backend.get_session().run(model.optimizer.iterations) == 30


@pytest.mark.parametrize("ranks", [1, 2])
def test_keras_own_loss_scaling(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_keras_loss_scale.py"), seed, timeout=240)
    assert finished.out.count("ok") == ranks
