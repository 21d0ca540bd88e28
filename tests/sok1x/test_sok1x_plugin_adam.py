"""sok.optimizers.Adam: TensorFlow's arithmetic, its initializer, embedding variables alone."""
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from adam_twins import StockAdam, Twins, applied, check, functions, slots, updated
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.core.tables.shard_variable import ShardVariable

v1 = tf
Adam = sok.optimizers.Adam
FEED_KEYS = [[[4, 6]]]


def feed(twins):
    return {twins.keys: FEED_KEYS, twins.weights: np.ones([1, 1, 2, 5], np.float32)}


@pytest.mark.parametrize("options", [
    dict(learning_rate=lambda twins: twins.rate),  # a tensor that changes at every step
    dict(lr=lambda twins: twins.rate, beta_1=0.5, beta_2=0.7, epsilon=1e-2),
    dict(learning_rate=lambda twins: lambda: 2 * twins.rate, beta_1=lambda twins: lambda: tf.constant(0.8)),
    dict(learning_rate=lambda twins: tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)),
    dict(lr=0.1, decay=0.05, name="Mine"),
    dict(),
], ids=["tensor", "lr", "callables", "schedule", "decay", "defaults"])
def test_equals_tensorflow(options, seed):
    with graph():
        twins = Twins()
        options = {name: value(twins) if callable(value) else value for name, value in options.items()}
        ours = Adam(**options)
        if "lr" in options:  # which TensorFlow's takes as a number only
            options["learning_rate"] = options.pop("lr")
        stock = StockAdam(**options)
        steps = [applied(ours, twins.our_loss, twins.ours)]
        assert functions().count("operations.adam.step") == 1
        assert "Unique" not in {op.type for op in v1.get_default_graph().get_operations()}
        steps.append(applied(stock, twins.stock_loss, twins.stock))
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


def test_two_lookups_and_a_dense_gradient(seed):
    """Repeated rows, which the step itself adds up; and a loss over all of the shard."""
    with graph():
        twins = Twins(lookups=2)
        ours, stock = Adam(0.1), StockAdam(0.1)
        steps = [updated(ours, twins.our_loss, twins.ours), updated(stock, twins.stock_loss, twins.stock)]
        assert functions().count("operations.adam.step") == 1 and "operations.segments.unique" not in functions()
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)
    with graph():
        twins = Twins()
        ours, stock = Adam(0.1), StockAdam(0.1)
        steps = [applied(ours, tf.reduce_sum(tf.abs(twins.ours)), twins.ours),
                 applied(stock, tf.reduce_sum(tf.abs(twins.stock)), twins.stock)]
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


def test_learning_rate_is_set_between_steps():
    with graph():
        twins = Twins()
        optimizer = Adam(0.5)
        step = applied(optimizer, twins.our_loss, twins.ours)
        with session() as run:
            twins.start(run)
            tf.keras.backend.set_session(run)
            try:
                optimizer.learning_rate = 0.0
                before = run.run(twins.ours)
                run.run(step, feed(twins))
                assert (run.run(twins.ours) == before).all()
                optimizer.lr = 0.25
                run.run(step, feed(twins))
                # TensorFlow computes 1 - beta_2^t in float32, of which few places are left in the first steps.
                np.testing.assert_allclose(run.run(twins.ours)[4], before[4] - 0.25, rtol=1e-4)
            finally:
                tf.keras.backend.set_session(None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_initializer(when):
    """In one session.run with the variables' initializers, or alone; it may be asked for before there are slots."""
    with graph():
        twins = Twins()
        optimizer = Adam(0.5)
        early = optimizer.initializer
        assert optimizer.initializer is early
        step = applied(optimizer, twins.our_loss, twins.ours)
        initializer = early if when == "before" else optimizer.initializer
        state = slots(optimizer, twins.ours) + [optimizer.iterations]
        own = set(v1.global_variables()) - set(state) - set(optimizer._hyper.values())
        init = sok.Init(global_batch_size=8)
        with v1.Session() as run:
            run.run(init)
            run.run([v1.variables_initializer(own), initializer])
            assert not run.run(v1.report_uninitialized_variables()).size
            twins.start(run)
            run.run(step, feed(twins))
            assert all(np.any(value) for value in run.run(state))
            run.run(initializer)
            assert not any(np.any(value) for value in run.run(state))
        with v1.Session() as run:
            run.run(init)
            run.run([v1.global_variables_initializer(), initializer])
            twins.start(run)
            run.run(step, feed(twins))
            assert run.run(optimizer.iterations) == 1


def test_initializer_before_two_steps_are_built():
    with graph():
        layers = [dense_layer(embedding_initializer="ones") for _ in range(2)]
        optimizer = Adam(0.5)
        initializer = optimizer.initializer
        keys = tf.constant([[[1, 2, 3], [4, 5, 6]]], tf.int64)
        steps = [applied(optimizer, tf.reduce_sum(layer(keys)), layer.embedding_variable) for layer in layers]
        with session(initialize=False) as run:
            run.run([v1.variables_initializer(v1.global_variables()[:2 * 5]), initializer])
            run.run(steps)
            assert [run.run(layer.embedding_variable)[0, 0] for layer in layers] == pytest.approx([0.5, 0.5], abs=0.2)


def test_other_variables_are_refused():
    with graph():
        layer = dense_layer()
        dense = v1.get_variable("weights", [4], use_resource=True)
        loss = tf.reduce_sum(layer(tf.constant([[[1, 2, 3], [4, 5, 6]]], tf.int64)) * dense)
        variables = [layer.embedding_variable, dense]
        before = len(v1.global_variables())
        for optimizer in Adam(), sok.DistributedOptimizer(Adam()):
            with pytest.raises(ValueError, match="'weights:0', which is no embedding variable"):
                optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
            with pytest.raises(ValueError, match="'weights:0'"):
                optimizer.get_updates(loss, variables)
        assert len(v1.global_variables()) == before
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            Adam().apply_gradients([(None, layer.embedding_variable)])


def test_distributed_optimizer(seed):
    with graph():
        twins = Twins()
        ours, stock = sok.DistributedOptimizer(Adam(twins.rate)), StockAdam(twins.rate)
        steps = [applied(ours, twins.our_loss, twins.ours), applied(stock, twins.stock_loss, twins.stock)]
        assert ours.initializer.type == "NoOp"
        check(twins, *steps, slots(ours, twins.ours), slots(stock, twins.stock), seed)


@pytest.mark.parametrize("make, error, words", [
    (lambda: Adam(-0.1), ValueError, "learning_rate: got -0.1"), (lambda: Adam(lr=-1), ValueError, "got -1"),
    (lambda: Adam(beta_1=-0.5), ValueError, "beta_1: got -0.5"), (lambda: Adam(amsgrad=True), TypeError, "amsgrad"),
    (lambda: Adam(rate=1), TypeError, "rate"),
])
def test_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_config():
    made = Adam(lr=0.25, beta_1=0.5, decay=0.125, name="Mine", clipnorm=3.0)
    assert isinstance(made, type(StockAdam()).__mro__[1])  # OptimizerV2
    config = made.get_config()
    assert config == dict(learning_rate=0.25, beta_1=0.5, beta_2=0.999, epsilon=1e-7, decay=0.125, name="Mine",
                          clipnorm=3.0)
    assert Adam.from_config(dict(config)).get_config() == config
    assert Adam.from_config({"lr": 0.5}).get_config()["learning_rate"] == 0.5


def test_variables_have_tensorflows_names():
    names = []
    for optimizer in (Adam, StockAdam):
        with graph():
            twins = Twins()
            made = optimizer(0.1)
            applied(made, twins.our_loss, twins.ours)
            assert made.get_slot_names() == ["m", "v"]
            assert all(type(slot) is ShardVariable for slot in slots(made, twins.ours))  # they belong to this rank
            names.append([variable.name for variable in v1.global_variables()])
            names[-1] += [variable.name for variable in made.weights]
    assert names[0] == names[1] and "Adam/iter:0" in names[0] and "Adam/EmbeddingVariable/m:0" in names[0]


def test_checkpoint(tmp_path):
    with graph():
        twins = Twins()
        optimizer = Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.7))
        step = applied(optimizer, twins.our_loss, twins.ours)
        state = [twins.ours, optimizer.iterations] + slots(optimizer, twins.ours)
        saver = v1.train.Saver()
        with session() as run:
            twins.start(run)
            run.run(step, feed(twins))
            path = saver.save(run, str(tmp_path / "model"))
            run.run(step, feed(twins))
            expected = run.run(state)
        with session(initialize=False) as run:
            saver.restore(run, path)
            run.run(step, feed(twins))
            for one, two in zip(expected, run.run(state)):
                np.testing.assert_array_equal(one, two)
        assert expected[1] == 2


def test_monitored_training_session():
    with graph():
        twins = Twins()
        optimizer = Adam(0.1)
        step = applied(optimizer, twins.our_loss, twins.ours)
        number = v1.train.get_or_create_global_step()
        step = tf.group(step, number.assign_add(1))
        hooks = [sok.InitHook(global_batch_size=2), v1.train.StopAtStepHook(last_step=3)]
        values = []
        with v1.train.MonitoredTrainingSession(hooks=hooks) as run:
            while not run.should_stop():
                values.append(run.run([step, twins.our_loss], feed(twins))[1])
        assert len(values) == 3 and values[0] > values[1] > values[2]


def test_names():
    """Lazily, without a word, also under SOK's name."""
    program = ("import sok1x; optimizers = sok1x.optimizers; import sys; assert 'tensorflow' not in sys.modules\n"
               "sok1x.install_as_sparse_operation_kit(); import sparse_operation_kit as sok\n"
               "from sparse_operation_kit.operations import unique, unsorted_segment_sum\n"
               "assert sok.optimizers.Adam is optimizers.Adam and 'Adam' in dir(optimizers)\n"
               "assert sok.operations.unique is unique and 'unique' in dir(sok.operations)\n"
               "for module, word in ((sok.optimizers, 'Adam'), (sok.operations, 'unsorted_segment_sum')):\n"
               "    try: module.Nothing\n"
               "    except AttributeError as error: assert word in str(error)\n"
               "    else: raise AssertionError\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
