"""LossScaleOptimizer on one rank: scales, skipped steps, every kind of optimizer, against TensorFlow's own."""
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from sok1x_cases import dense_layer, graph, session

import sok1x as sok

v1 = tf.compat.v1
experimental = v1.train.experimental
Scaled = sok.tf.keras.mixed_precision.LossScaleOptimizer
KEYS = np.array([[[1, 2, 2], [3, 1, 0]]])
OPTIMIZERS = {
    "SGD": lambda: v1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "Adam": lambda: v1.train.AdamOptimizer(0.1),
    "contrib": lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
    "lazy": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    "distributed": lambda: sok.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)),
    "Keras": lambda: tf.keras.optimizers.Adam(0.1),
    "KerasMomentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "ours": lambda: sok.tf.keras.optimizers.Adam(0.1),
    "plugin": lambda: sok.optimizers.Adam(0.1),
    "KerasDistributed": lambda: sok.DistributedOptimizer(tf.keras.optimizers.Adagrad(0.1))}


def model(table_only=False):
    """Variables, the loss, and a placeholder by which it is multiplied."""
    layer = dense_layer(use_hashtable=False, embedding_initializer="normal")
    weights = v1.get_variable("weights", initializer=np.linspace(1, 2, 4).astype(np.float32), use_resource=True)
    factor, keys = v1.placeholder_with_default(1.0, []), v1.placeholder_with_default(KEYS, [None, 2, 3])
    loss = tf.reduce_sum(tf.square(layer(keys) * weights)) * factor
    return [layer.embedding_variable] + ([] if table_only else [weights]), loss, factor


def step_of(optimizer, loss, variables, number=None):
    gradients = optimizer.get_unscaled_gradients(tf.gradients(optimizer.get_scaled_loss(loss), variables))
    more = {} if number is None else {"global_step": number}
    return optimizer.apply_gradients(zip(gradients, variables), **more)


def state():
    """All variables but those of loss scales."""
    return [variable for variable in v1.global_variables() if "loss_scale" not in variable.name
            and "good_steps" not in variable.name]


# ---- the scale

@pytest.mark.parametrize("period, multiplier, first",
                         [(3, 2.0, 2.0 ** 10), (1, 4.0, 2.0), (4, 10.0, 1e37), (2, 3.0, 1.0)])
def test_schedule_is_tensorflows_step_for_step(seed, period, multiplier, first):
    """Scale, good steps and the variable are those of MixedPrecisionLossScaleOptimizer, after every step."""
    random = np.random.RandomState(seed)
    with graph():
        factor = v1.placeholder(tf.float32, [])
        twins = []
        for make in (experimental.MixedPrecisionLossScaleOptimizer, Scaled):
            scale = experimental.DynamicLossScale(first, period, multiplier)
            weights = v1.get_variable("weights{}".format(len(twins)), initializer=[1.0, 2.0], use_resource=True)
            number = tf.Variable(0, trainable=False)
            step = make(v1.train.GradientDescentOptimizer(0.25), scale).minimize(
                tf.reduce_sum(weights) * factor, global_step=number, var_list=[weights])
            twins.append((step, [scale(), scale._num_good_steps, weights, number]))
        with session() as run:
            for _ in range(60):
                given = random.choice([1.0, -0.5, np.inf, -np.inf, np.nan], p=[0.5, 0.3, 0.07, 0.06, 0.07])
                seen = []
                for step, values in twins:
                    run.run(step, {factor: given})
                    seen.append([np.asarray(value).tolist() for value in run.run(values)])
                assert seen[0] == seen[1]


@pytest.mark.parametrize("given", [64, 64.0, np.float32(64), np.int64(64), experimental.FixedLossScale(64)])
def test_fixed_scale(given):
    with graph():
        optimizer = Scaled(OPTIMIZERS["SGD"](), given)
        variables, loss, factor = model()
        step = step_of(optimizer, loss, variables)
        with session() as run:
            run.run(optimizer.initializer)
            before = run.run(state())
            run.run(step, {factor: np.inf})
            for old, new in zip(before, run.run(state())):
                np.testing.assert_array_equal(old, new)
            run.run(step)
            assert run.run(optimizer.loss_scale()) == 64
            assert all((old != new).any() for old, new in zip(before, run.run(variables)))


def test_dynamic_scale_by_name():
    with graph():
        optimizer = Scaled(OPTIMIZERS["SGD"](), "dynamic")
        assert isinstance(optimizer.loss_scale, experimental.DynamicLossScale)
        assert optimizer.loss_scale.get_config() == experimental.DynamicLossScale().get_config()


@pytest.mark.parametrize("opt, scale, error, words", [
    ("SGD", None, TypeError, "loss_scale: got None of type NoneType"),
    ("SGD", "static", ValueError, "loss_scale: got 'static'"),
    ("SGD", 0.5, ValueError, "at least 1"),
    ("SGD", True, TypeError, "loss_scale: got True"),
    (None, 2, TypeError, "opt: got 'no optimizer' of type str, expected an optimizer of tf.train or"),
    ("clips", 2, ValueError, "clipnorm"),
    ("scales", 2, TypeError, "got a LossScaleOptimizer"),
])
def test_wrong_arguments(opt, scale, error, words):
    with graph():
        made = {None: lambda: "no optimizer", "clips": lambda: tf.keras.optimizers.SGD(0.1, clipnorm=1.0),
                "scales": lambda: Scaled(OPTIMIZERS["SGD"](), 2)}.get(opt, OPTIMIZERS["SGD"])()
        with pytest.raises(error, match=words):
            Scaled(made, scale)


def test_eager_execution_is_refused():
    text = ("import tensorflow as tf; tf.compat.v1.enable_eager_execution()\nimport sok1x as sok\n"
            "try: sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 'dynamic')\n"
            "except ValueError as error: assert 'got eager execution' in str(error)\nelse: raise AssertionError")
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True, timeout=120)


# ---- losses and gradients

def test_scaled_loss_and_unscaled_gradients():
    with graph():
        optimizer = Scaled(OPTIMIZERS["SGD"](), 2.0 ** 30)
        with session() as run:
            for dtype in ("float16", "float32", "float64"):
                loss = tf.constant(2.0 ** -20, dtype)
                for scaled in (optimizer.get_scaled_loss(loss), optimizer.get_scaled_loss(lambda: loss)()):
                    assert scaled.dtype == loss.dtype
                if dtype != "float16":  # in which 2 ** 30 is Inf
                    assert run.run(scaled) == 2.0 ** 10
            values = np.array([2.0 ** 15, -2.0 ** 15, 0, np.inf, np.nan])
            shape = tf.constant([9, 5], tf.int64)
            given = [tf.constant(values, dtype) for dtype in ("float16", "float32", "float64")] + [
                None, tf.IndexedSlices(tf.constant(values[None], tf.float32), tf.constant([3]), shape), None]
            got = optimizer.get_unscaled_gradients(given)
            assert [gradient is None for gradient in got] == [False] * 3 + [True, False, True]
            for one, kind in zip(got[:3], ("float16", "float32", "float64")):
                assert one.dtype == kind
                np.testing.assert_array_equal(run.run(one), values / 2.0 ** 30 if kind != "float16"
                                              else (values / 2.0 ** 30).astype(np.float16))
            assert got[4].indices is given[4].indices and got[4].dense_shape is shape
            np.testing.assert_array_equal(run.run(got[4].values), values[None] / 2.0 ** 30)


def test_one_scale_for_all_gradients_of_a_step(seed):
    """Also for those of other optimizers, that are unscaled while the scale is lowered or raised."""
    with graph():
        optimizer = Scaled(OPTIMIZERS["SGD"](), experimental.DynamicLossScale(4.0, 1, 2.0))
        weights = [v1.get_variable(name, initializer=[1.0], use_resource=True) for name in "ab"]
        loss = optimizer.get_scaled_loss(tf.reduce_sum(weights[0]) + tf.reduce_sum(weights[1]))
        scaled = tf.gradients(loss, weights)
        step = optimizer.apply_gradients([(optimizer.get_unscaled_gradients(scaled[:1])[0], weights[0])])
        other, = optimizer.get_unscaled_gradients(scaled[1:])
        with session() as run:
            for _ in range(40):
                assert run.run([step, other])[1].tolist() == [1.0]


def test_gradients_without_any():
    with graph():
        weights = v1.get_variable("weights", initializer=[1.0])
        for name in ("SGD", "Keras"):
            with pytest.raises(ValueError, match="No gradients provided"):
                Scaled(OPTIMIZERS[name](), 2).apply_gradients([(None, weights)])


# ---- optimizers

@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_power_of_two_changes_no_bit_and_a_bad_step_nothing(name):
    """Against the same optimizer without a scale; with variables and slots of the same names."""
    ends, names = [], []
    for scale in (None, experimental.DynamicLossScale, "dynamic", 2.0 ** 12):
        with graph():
            variables, loss, factor = model(table_only=name == "plugin")
            optimizer = OPTIMIZERS[name]()
            if scale is None:
                step = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
            else:
                optimizer = Scaled(optimizer, scale(2.0 ** 8, 2) if callable(scale) else scale)
                step = step_of(optimizer, loss, variables)
                assert isinstance(optimizer, Scaled)
            names.append(sorted(variable.name for variable in state()))
            with session() as run:
                if scale is not None:
                    run.run([optimizer.initializer, v1.global_variables_initializer()])
                for number in range(6):
                    if scale is not None and number in (0, 3, 4):
                        before = run.run(state())
                        run.run(step, {factor: (np.inf, np.nan, -np.inf)[number % 3]})
                        for variable, old, new in zip(state(), before, run.run(state())):
                            np.testing.assert_array_equal(old, new, err_msg=variable.name)
                    run.run(step)
                ends.append(dict(zip([variable.name for variable in state()], run.run(state()))))
    assert names[1:] == names[:1] * 3
    for end in ends[1:]:
        for variable, value in ends[0].items():
            # On a GPU sums are in any order.
            np.testing.assert_allclose(end[variable], value, rtol=1e-6 if tf.test.is_gpu_available() else 0,
                                       atol=1e-6 if tf.test.is_gpu_available() else 0, err_msg=variable)


@pytest.mark.parametrize("name", ["SGD", "lazy", "Keras", "KerasDistributed", "distributed"])
def test_minimize_and_get_updates_scale_by_themselves(name):
    with graph():
        variables, loss, factor = model()
        number = v1.train.get_or_create_global_step()
        optimizer = Scaled(OPTIMIZERS[name](), experimental.DynamicLossScale(2.0 ** 8, 2))
        if name.startswith("Keras"):
            step = optimizer.get_updates(loss, variables)
            counter = optimizer.iterations
        else:
            step = optimizer.minimize(loss, global_step=number)
            counter = number
        plain = tf.gradients(loss, variables[1])[0]
        with session() as run:
            start, gradient = run.run([variables[1], plain])
            run.run(step)
            moved = start - run.run(variables[1])
            assert (np.sign(moved) == np.sign(gradient)).all()
            if name == "SGD":
                np.testing.assert_allclose(moved, 0.1 * gradient, rtol=1e-5, atol=1e-6)
            run.run(step, {factor: np.inf})
            assert run.run([counter, optimizer.loss_scale()]) == [1, 2.0 ** 7]
            run.run([step])
            assert run.run(counter) == 2


def test_around_distributed_optimizer_and_within():
    ends = []
    for make in (lambda o: Scaled(sok.DistributedOptimizer(o), 16), lambda o: sok.DistributedOptimizer(Scaled(o, 16))):
        with graph():
            variables, loss, _ = model()
            optimizer = make(v1.train.AdamOptimizer(0.1))
            step = optimizer.minimize(loss, var_list=variables)
            averaged = [op for op in v1.get_default_graph().get_operations()
                        if op.type == "Sok1xCall" and op.get_attr("function") == b"all_reduce"]
            assert len(averaged) == 1 and averaged[0]._get_control_flow_context() is None
            assert optimizer.get_slot(variables[1], "m") is not None and optimizer.get_slot_names() == ["m", "v"]
            with session() as run:
                run.run(step)
                ends.append(run.run(variables[1]))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def test_the_train_op_can_be_fetched():
    with graph():
        variables, loss, _ = model()
        step = Scaled(OPTIMIZERS["Adam"](), "dynamic").minimize(loss, name="train")
        assert step.name == "train" and v1.get_collection("train_op") == [step]
        with session() as run:
            run.run("train")


def test_saved_and_restored(tmp_path):
    path = str(tmp_path / "model")
    with graph():
        variables, loss, factor = model()
        optimizer = Scaled(OPTIMIZERS["lazy"](), "dynamic")
        step = step_of(optimizer, loss, variables)
        saver, scale = v1.train.Saver(), [optimizer.loss_scale(), optimizer.loss_scale._num_good_steps]
        with session() as run:
            for given in (np.inf, np.inf, 1.0, 1.0, 1.0):
                run.run(step, {factor: given})
            saver.save(run, path)
            run.run(step)
            expected = run.run(state())
        with session(initialize=False) as run:
            saver.restore(run, path)
            assert run.run(scale) == [2.0 ** 13, 3]
            run.run(step)
            for variable, old, new in zip(state(), expected, run.run(state())):
                np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-7, err_msg=variable.name)


def test_monitored_training():
    with graph():
        variables, loss, factor = model()
        number = v1.train.get_or_create_global_step()
        step = step_of(Scaled(OPTIMIZERS["Adam"](), "dynamic"), loss, variables, number)
        hooks = [sok.InitHook(global_batch_size=8), v1.train.StopAtStepHook(last_step=3)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as run:
            runs = 0
            while not run.should_stop():
                run.run(step, {factor: np.nan if runs in (0, 2) else 1.0})
                runs += 1
        assert runs == 5  # two were skipped


def test_learning_rate_of_keras_is_the_wrapped_one():
    with graph():
        optimizer = Scaled(tf.keras.optimizers.SGD(0.5), 2)
        optimizer.learning_rate = 0.25
        weights = v1.get_variable("weights", initializer=[1.0], use_resource=True)
        step = step_of(optimizer, tf.reduce_sum(weights), [weights])
        with session() as run:
            run.run(step)
            assert run.run([weights, optimizer.lr]) == [[0.75], 0.25]


def test_control_flow_of_tensorflow_2():
    """Where tf.cond makes functions of its branches, in a process of its own: the switch is for good."""
    path = os.path.dirname(os.path.abspath(__file__))
    text = ("import sys; sys.path.insert(0, {!r})\nimport tensorflow as tf; tf.enable_control_flow_v2()\n"
            "import test_sok1x_loss_scale as tests\n"
            "for name in ('lazy', 'ours', 'plugin', 'distributed'):\n"
            "    tests.test_a_power_of_two_changes_no_bit_and_a_bad_step_nothing(name)\n").format(path)
    subprocess.run([sys.executable, "-W", "ignore", "-c", text], check=True, timeout=300)


@pytest.mark.parametrize("program", [
    "import sok1x as sok; module = sok.tf.keras.mixed_precision; "
    "import sys; assert 'tensorflow' not in sys.modules; ours = module.LossScaleOptimizer",
    "from sok1x.tf.keras.mixed_precision.loss_scale_optimizer import LossScaleOptimizer as ours",
    "import sok1x; sok1x.install_as_sparse_operation_kit(); import sparse_operation_kit as sok; "
    "ours = sok.tf.keras.mixed_precision.LossScaleOptimizer"], ids=["attribute", "module", "alias"])
def test_names(program):
    program += ("\nassert ours.__module__ == 'sok1x.tf.keras.mixed_precision.loss_scale_optimizer'\n"
                "import sok1x.tf.keras.mixed_precision as module\nassert dir(module).count('LossScaleOptimizer') == 1\n"
                "try: module.Nothing\nexcept AttributeError as error: assert 'LossScaleOptimizer' in str(error)\n"
                "else: raise AssertionError\n")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")
