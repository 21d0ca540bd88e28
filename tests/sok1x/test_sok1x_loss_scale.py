"""LossScaleOptimizer on one rank: scales step for step as TensorFlow's, losses and gradients, arguments, names."""
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from loss_scale_model import OPTIMIZERS, Scaled, model, state, step_of
from ranks import run_ranks
from sok1x_cases import graph, session

v1 = tf
experimental = v1.train.experimental


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
    text = ("import tensorflow.compat.v1 as tf; tf.enable_eager_execution()\nimport sok1x as sok\n"
            "try: sok.tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 'dynamic')\n"
            "except ValueError as error: assert 'got eager execution' in str(error)\nelse: raise AssertionError")
    run_ranks(0, text)


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
                          stderr=subprocess.STDOUT, universal_newlines=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "")
