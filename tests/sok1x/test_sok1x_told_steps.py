"""How far the global step is, as tables hear of it where nobody trains them: what rows are stamped with then."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from incremental_model import D, Model, dump
from sok1x_cases import dense_layer, graph, session
from tensorflow.python.eager import function

import sok1x as sok

v1 = tf


class Halves(Model):
    """Besides a step that trains a table one of a dense variable, by which the global step moves alone."""

    def __init__(self, around=lambda step: step()):
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True):  # functions have no others
            v1.train.create_global_step()
            self.dense = v1.get_variable("dense", [D], initializer=v1.ones_initializer())
        super().__init__()
        self.other = around(self.step_of_dense)

    def step_of_dense(self):
        return v1.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.ones([D]), self.dense)], self.number)

    def train(self, run, others):
        run.run(self.step, {self.keys: np.arange(6)})
        for _ in range(others):
            run.run(self.other)

    def look_up_after(self):
        """A lookup of the same keys that runs when the dense step has."""
        with tf.control_dependencies([self.other]):
            self.keys, fed = tf.identity(self.keys), self.keys
        after = self.look_up(dense_layer, True)
        self.keys = fed
        return after

    def insert(self, run, key):
        run.run(self.looked_up, {self.keys: [key] * 6})


class Managed:
    """A CheckpointManager as a Saver."""

    def __init__(self, folder):
        self.manager = sok.CheckpointManager(folder)

    def save(self, run, path):
        self.manager.save(run, run.run(v1.train.get_global_step()))

    def restore(self, run, path):
        assert self.manager.restore(run) is not None


class Objects:
    """A tf.train.Checkpoint as a Saver."""

    def __init__(self, folder):
        self.checkpoint = v1.train.Checkpoint(number=v1.train.get_global_step())

    def save(self, run, path):
        self.checkpoint.write(path, session=run)

    def restore(self, run, path):
        self.checkpoint.restore(path).run_restore_ops(run)


SAVERS = {"saver": lambda folder: v1.train.Saver(), "manager": Managed, "objects": Objects,
          "of the step alone": lambda folder: v1.train.Saver([v1.train.get_global_step()])}


@pytest.mark.parametrize("made", sorted(SAVERS))
def test_keys_that_are_new_after_a_restore(tmp_path, made):
    """The table has rested longer than the global step: its own clock is behind."""
    path = str(tmp_path / "model")
    with graph():
        model = Halves()
        saver = SAVERS[made](str(tmp_path))
        with session() as run:
            model.train(run, 9)
            saver.save(run, path)
            model.insert(run, 20)
            assert dump(run, model, 10) == [20] and dump(run, model, 11) == []
    with graph() as other:
        model = Halves()
        saver = SAVERS[made](str(tmp_path))
        with session() as run:
            if made != "objects":  # these make ops as they are restored
                other.finalize()
            saver.restore(run, path)
            model.insert(run, 20)
            assert dump(run, model, 10) == [20] and dump(run, model, 11) == []
            run.run([model.looked_up, model.other], {model.keys: [21] * 6})
            assert dump(run, model, 10) == [20, 21] and dump(run, model, 11) == []
            model.insert(run, 22)
            assert dump(run, model, 11) == [22] and run.run(model.number) == 11


def test_keys_that_are_new_after_a_monitored_session_has_restored(tmp_path):
    for first, last in ((0, 5), (5, 8)):
        with graph():
            model = Halves()
            hooks = [sok.InitHook(global_batch_size=8), sok.CheckpointSaverHook(str(tmp_path), save_steps=100)]
            with v1.train.MonitoredTrainingSession(hooks=hooks) as run:
                assert run.run(model.number) == first
                model.insert(run, 20 + first)
                raw = run._tf_sess()
                assert dump(raw, model, first) == [20 + first] and dump(raw, model, first + 1) == []
                if not first:
                    run.run(model.step, {model.keys: np.arange(6)})
                while run.run(model.number) < last:
                    run.run(model.other)


def test_hooks_of_a_monitored_session_see_a_restore_as_one_run(tmp_path):
    class Counts(v1.train.SessionRunHook):
        runs = 0

        def after_run(self, run_context, run_values):
            self.runs += 1

    with graph():
        model, hook = Model(), Counts()
        saver = v1.train.Saver([v1.train.get_global_step()])
        with v1.train.MonitoredSession(hooks=[sok.InitHook(global_batch_size=1), hook]) as run:
            run.run(model.step, {model.keys: np.arange(6)})
            path = saver.save(run._tf_sess(), str(tmp_path / "step"))
            before = hook.runs
            saver.restore(run, path)
            assert hook.runs == before + 1


def test_sessions_of_one_graph_that_are_at_other_steps():
    """What one has told is no other's: not of one that begins anew, nor of one that goes on beside it."""
    with graph():
        model = Halves()
        with session() as run:
            model.train(run, 50)
            with session() as other:
                model.insert(other, 20)
                model.train(other, 2)
                model.insert(other, 21)
                stamps = other.run(model.shard.stamps)[:8].tolist()
                assert stamps == [1] + 6 * [1] + [4]
            model.insert(run, 22)
            assert dump(run, model, 51) == [22] and dump(run, model, 52) == []


def test_a_copy_of_the_graph_that_is_imported(tmp_path):
    """Its ops are known as those of the graph that it is of."""
    path = str(tmp_path / "model")
    with graph():
        model = Halves()
        with session() as run:
            model.train(run, 0)
            v1.train.Saver().save(run, path)
            with v1.Graph().as_default(), v1.Session() as copy:
                v1.train.import_meta_graph(path + ".meta").restore(copy, path)
                for _ in range(30):
                    copy.run(model.other.name)
                assert copy.run("global_step/Read/ReadVariableOp:0") == 31
            model.insert(run, 20)
            assert dump(run, model, 1) == [20] and dump(run, model, 2) == []


def test_a_restore_without_a_global_step_that_counts(tmp_path):
    """Tables that count their own runs go on from where they were; and so they do where there is no step at all."""
    path = str(tmp_path / "model")
    for number in (True, False):
        with graph():
            model = Model(global_step=False)
            if number:
                v1.train.create_global_step()
            with session() as run:
                if number:
                    run.run(v1.assign(v1.train.get_global_step(), 100))
                saver = v1.train.Saver()
                for _ in range(2):
                    run.run(model.step, {model.keys: np.arange(6)})
                saver.save(run, path)
                saver.restore(run, path)
                run.run(model.looked_up, {model.keys: [20] * 6})
                assert dump(run, model, 2) == [20] and dump(run, model, 3) == []


def test_one_gradient_before_the_global_step():
    """As for a summary: what trains by the global step says what rows that are loaded go by."""
    with graph():
        layer = dense_layer(max_vocabulary_size_per_gpu=8, use_hashtable=False)
        table, keys = layer.embedding_variable, np.arange(6).reshape(1, 2, 3)
        dense = v1.get_variable("dense", [D], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(layer(tf.constant(keys, tf.int64), training=True) * dense)
        tf.gradients(loss, [table])
        number = v1.train.create_global_step()
        both, other = [v1.train.GradientDescentOptimizer(0.1).minimize(loss, number, var_list=variables)
                       for variables in ([table, dense], [dense])]
        with session() as run:
            for step in [both] + 10 * [other]:
                run.run(step)
            table.load(np.full([8, D], 7, np.float32), run)
            assert run.run(table.stamps).tolist() == 8 * [12]


def test_tables_that_count_their_own_runs_beside_a_dense_step_of_the_global_step():
    with graph():
        model = Model(global_step=False)
        number, dense = v1.train.create_global_step(), v1.get_variable("dense", [D])
        other = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(dense), number)
        with session() as run:
            run.run(model.step, {model.keys: np.arange(6)})
            for _ in range(100):
                run.run(other)
            run.run([other, model.looked_up], {model.keys: [20] * 6})
            run.run(model.step, {model.keys: np.arange(6)})
            assert dump(run, model, 1) == [0, 1, 2, 3, 4, 5, 20] and dump(run, model, 2) == []


def _in_branch(step):
    return tf.cond(v1.placeholder_with_default(True, []), lambda: _run(step), lambda: tf.constant(0))


def _in_function(step):
    return tf.function(lambda: _run(step), autograph=False)()


def _called(step):
    """In a function that stays one: TensorFlow tells what runs there neither its session nor its run."""
    stays = {"_noinline": True}
    if tf.__version__ >= "2":
        return tf.function(lambda: _run(step), autograph=False, experimental_attributes=stays)()
    return function.defun_with_attributes(lambda: _run(step), autograph=False, attributes=stays)()


def _run(step):
    with tf.control_dependencies([step()]):
        return tf.constant(1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("around", [_run, _in_branch, _in_function, _called])
def test_dense_steps_in_branches_and_functions(around, after):
    """after: the lookup runs behind the dense step in one run of the session, else before it or behind it."""
    with graph():
        model = Halves(around)
        looked_up = model.look_up_after() if after else model.looked_up
        with session() as run:
            model.train(run, 10)
            model.insert(run, 20)
            run.run([looked_up, model.other], {model.keys: [21] * 6})
            model.insert(run, 22)
            assert run.run(model.number) == 12
            assert [dump(run, model, since) for since in (11, 12, 13)] == [[20, 21, 22], [22], []]


@pytest.mark.parametrize("around", [_run, _called])
def test_another_session_s_earlier_step_is_not_told(around):
    """Else keys that are new would be in no dump."""
    with graph():
        model = Halves(around)
        with session() as run, session() as other:
            model.train(run, 50)
            model.train(other, 2)
            model.insert(run, 22)
            assert other.run(model.number) == 3 and dump(run, model, 51) == [22] and dump(run, model, 52) == []
            model.train(other, 60)
            model.insert(other, 23)
            assert dump(other, model, 64) == [23] and dump(other, model, 65) == []
