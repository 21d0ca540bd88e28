"""LossScaleOptimizer around every kind of optimizer, on one rank: the same steps as without it, or none."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from loss_scale_model import OPTIMIZERS, Scaled, model, state, step_of
from ranks import run_ranks
from sok1x_cases import graph, session

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf
experimental = v1.train.experimental


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
                        if op_types.is_ours(op) and op.get_attr("function") == b"operations.collectives.all_reduce"]
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
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [here, os.path.dirname(here)]
    text = ("import sys; sys.path[:0] = {!r}\nimport tensorflow.compat.v1 as tf; tf.enable_control_flow_v2()\n"
            "import test_sok1x_loss_scale_optimizers as tests\n"
            "for name in ('lazy', 'ours', 'plugin', 'distributed'):\n"
            "    tests.test_a_power_of_two_changes_no_bit_and_a_bad_step_nothing(name)\n").format(folders)
    run_ranks(0, text, timeout=300)
