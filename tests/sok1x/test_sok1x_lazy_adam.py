"""Adam and LazyAdamOptimizer train a table as TensorFlow's own train a stock variable, step for step."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from adam_twins import DIM, ROWS, StockAdam, StockLazy, Twins, applied, check, functions, minimized, slots, updated
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.tf.keras.optimizers.adam import Adam
from sok1x.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer

v1 = tf

CASES = {
    "lazy minimize": (LazyAdamOptimizer, StockLazy, minimized),
    "lazy apply": (LazyAdamOptimizer, StockLazy, applied),
    "lazy distributed": (lambda *a, **k: sok.DistributedOptimizer(LazyAdamOptimizer(*a, **k)), StockLazy, minimized),
    "keras updates": (Adam, StockAdam, updated),
    "keras apply": (Adam, StockAdam, applied),
    "keras distributed": (lambda *a, **k: sok.DistributedOptimizer(Adam(*a, **k)), StockAdam, applied),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_tensorflow(case, seed):
    with graph():
        twins = Twins()
        ours, stock, step = CASES[case]
        ours, stock = ours(twins.rate), stock(twins.rate)
        steps = [step(ours, twins.our_loss, twins.ours)]
        operations = v1.get_default_graph().get_operations()
        assert not [op.name for op in operations if op.type in ("Unique", "ResourceScatterAdd", "ResourceScatterSub")]
        steps.append(step(stock, twins.stock_loss, twins.stock))
        assert functions().count("operations.adam.step" if "keras" in case else "operations.adam.lazy_step") == 1
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


@pytest.mark.parametrize("name", ["lazy", "keras"])
def test_gradient_with_repeated_rows(name, seed):
    """Two lookups in one loss, whose gradients TensorFlow puts one behind the other."""
    with graph():
        twins = Twins(lookups=2)
        ours, stock = (LazyAdamOptimizer(0.1), StockLazy(0.1)) if name == "lazy" else (Adam(0.1), StockAdam(0.1))
        steps = [applied(ours, twins.our_loss, twins.ours), applied(stock, twins.stock_loss, twins.stock)]
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


def test_minimize_of_a_function(seed):
    with graph():
        twins = Twins()
        ours, stock = Adam(0.1), StockAdam(0.1)
        steps = [ours.minimize(lambda: twins.loss(twins.layer(twins.keys)), [twins.ours]),
                 applied(stock, twins.stock_loss, twins.stock)]
        assert "operations.adam.step" in functions()
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


def test_arguments_as_tensorflows(seed):
    with graph():
        twins = Twins()
        arguments = (lambda: twins.rate, 0.8, tf.constant(0.9), 1e-3, True, "Mine")
        ours, stock = LazyAdamOptimizer(*arguments), StockLazy(*arguments)
        steps = [minimized(ours, twins.our_loss, twins.ours), minimized(stock, twins.stock_loss, twins.stock)]
        assert ours.get_name() == "Mine"
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


@pytest.mark.parametrize("options", [
    dict(lr=0.1, beta_1=0.5, beta_2=0.7, epsilon=1e-2, decay=0.1),
    dict(learning_rate=tf.keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.7), name="Mine"),
    dict(amsgrad=True),
], ids=["numbers", "schedule", "amsgrad"])
def test_arguments_as_keras(options, seed):
    with graph():
        twins = Twins()
        ours, stock = Adam(**options), StockAdam(**options)
        config = stock.get_config()
        assert ours.get_config() == config
        ours = Adam.from_config(config)
        steps = [updated(ours, twins.our_loss, twins.ours), updated(stock, twins.stock_loss, twins.stock)]
        assert ("operations.adam.step" in functions()) == ("amsgrad" not in options)
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


@pytest.mark.parametrize("name, kind", [  # Keras takes resource variables only
    ("lazy", "reference"), ("lazy", "resource"), ("lazy", "dense gradient"), ("keras", "resource"),
    ("keras", "dense gradient")])
def test_other_variables(name, kind, seed):
    """Here TensorFlow's optimizers and ours do the same operations, but for the sums of equal indices."""
    random = np.random.RandomState(seed)
    with graph():
        start = random.normal(size=[ROWS, DIM])
        variables = [v1.get_variable(each, initializer=start, use_resource=kind != "reference")
                     for each in ("ours", "stock")]
        keys, rate = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float64, [])
        losses = [tf.reduce_sum(tf.square(each if kind == "dense gradient" else tf.gather(each, keys)))
                  for each in variables]
        optimizers = (LazyAdamOptimizer(rate), StockLazy(rate)) if name == "lazy" else (Adam(rate), StockAdam(rate))
        steps = [applied(optimizers[0], losses[0], variables[0])]
        stock_ops = {op.type for op in v1.get_default_graph().get_operations()}
        assert not stock_ops & {"Unique", "UnsortedSegmentSum"}
        ours = [] if kind == "dense gradient" else ["operations.segments.unique", "operations.segments.segment_sum"]
        assert functions() == ours
        steps.append(applied(optimizers[1], losses[1], variables[1]))
        state = [[variable] + slots(optimizer, variable) for variable, optimizer in zip(variables, optimizers)]
        with session() as run:
            for i in range(5):
                run.run(steps, {keys: random.randint(0, ROWS, [6 * (i % 3)]), rate: 0.1 / (i + 1)})
                for ours, stock in zip(*run.run(state)):
                    np.testing.assert_allclose(ours, stock, rtol=1e-14, atol=1e-16)


def test_rows_not_in_the_batch():
    """LazyAdam leaves them; Adam moves them on."""
    with graph():
        twins = Twins()
        lazy, adam = LazyAdamOptimizer(0.1), Adam(0.1)
        steps = [minimized(lazy, twins.our_loss, twins.ours), applied(adam, twins.our_loss, twins.ours)]
        with session() as run:
            twins.start(run)
            for step, optimizer in zip(steps, (lazy, adam)):
                for keys in ([[[0, 1]]], [[[2, 2]]]):
                    before = run.run([twins.ours] + slots(optimizer, twins.ours))
                    run.run(step, {twins.keys: keys, twins.weights: np.ones([1, 1, 2, DIM])})
                    after = run.run([twins.ours] + slots(optimizer, twins.ours))
                changed = [np.flatnonzero((one != two).any(axis=1)).tolist() for one, two in zip(before, after)]
                assert changed == [[2] if optimizer is lazy else [0, 1, 2]] * 3


@pytest.mark.parametrize("name", ["lazy", "keras"])
def test_not_a_number_stays_in_its_row(name):
    with graph():
        twins = Twins()
        optimizer = LazyAdamOptimizer(0.1) if name == "lazy" else Adam(0.1)
        step = applied(optimizer, twins.our_loss, twins.ours)
        weights = np.ones([1, 1, 2, DIM], np.float32)
        weights[0, 0, 1, 3] = np.nan
        with session() as run:
            twins.start(run)
            for _ in range(2):
                run.run(step, {twins.keys: [[[4, 6]]], twins.weights: weights})
            for value in run.run([twins.ours] + slots(optimizer, twins.ours)):
                assert np.argwhere(np.isnan(value)).tolist() == [[6, 3]]


@pytest.mark.parametrize("name", ["lazy", "keras"])
def test_slots_have_tensorflows_names(name):
    names = []
    for optimizer in ((LazyAdamOptimizer, StockLazy) if name == "lazy" else (Adam, StockAdam)):
        with graph():
            twins = Twins()
            made = optimizer(0.1)
            applied(made, twins.our_loss, twins.ours)
            assert made.get_slot_names() == ["m", "v"]
            assert all(type(slot) is ShardVariable for slot in slots(made, twins.ours))  # they belong to this rank
            names.append([variable.name for variable in v1.global_variables()])
    assert names[0] == names[1]


def test_checkpoint(tmp_path):
    with graph():
        twins = Twins()
        lazy, adam = LazyAdamOptimizer(0.1), Adam(0.1)
        steps = [minimized(lazy, twins.our_loss, twins.ours), applied(adam, twins.our_loss, twins.ours)]
        mine = slots(lazy, twins.ours) + slots(adam, twins.ours)
        saver = v1.train.Saver()
        feed = {twins.keys: [[[4, 6]]], twins.weights: np.ones([1, 1, 2, DIM])}
        with session() as run:
            twins.start(run)
            for step in steps:
                run.run(step, feed)
            path = saver.save(run, str(tmp_path / "model"))
            for step in steps:
                run.run(step, feed)
            expected = run.run([twins.ours] + mine)
        with session() as run:
            saver.restore(run, path)
            for step in steps:
                run.run(step, feed)
            for one, two in zip(expected, run.run([twins.ours] + mine)):
                np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["lazy", "keras"])
def test_gradients_that_do_not_fit(name):
    """Values of another shape than the indices ask for; see also test_sok1x_refusals.py."""
    with graph():
        twins = Twins()
        optimizer = LazyAdamOptimizer(0.1) if name == "lazy" else Adam(0.1)
        slices, = tf.gradients(twins.our_loss, [twins.ours])
        short = tf.IndexedSlices(slices.values[:, 1:], slices.indices)
        step = optimizer.apply_gradients([(short, twins.ours)])
        with session() as run:
            twins.start(run)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"'EmbeddingVariable'.*got gradients of shape "
                                                                     r"\[2, 4\] for 2 rows, expected \[2, 5\]"):
                run.run(step, {twins.keys: [[[4, 6]]], twins.weights: np.ones([1, 1, 2, DIM])})


def test_monitored_training_session():
    with graph():
        twins = Twins()
        number = v1.train.get_or_create_global_step()
        step = LazyAdamOptimizer(0.1).minimize(twins.our_loss, global_step=number, var_list=[twins.ours])
        hooks = [sok.InitHook(global_batch_size=2), v1.train.StopAtStepHook(last_step=3)]
        feed = {twins.keys: [[[4, 6]]], twins.weights: np.ones([1, 1, 2, DIM])}
        values = []
        with v1.train.MonitoredTrainingSession(hooks=hooks) as run:
            while not run.should_stop():
                values.append(run.run([step, twins.our_loss], feed)[1])
        assert len(values) == 3 and values[0] > values[1] > values[2]
