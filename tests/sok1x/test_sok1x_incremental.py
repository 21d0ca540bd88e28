"""incremental_dump on one rank: what it gives for every step, and where it can be called."""
import gc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from incremental_model import D, Model, V, dump
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok
from sok1x.core import initialize

v1 = tf


@pytest.mark.parametrize("global_step", [True, False])
@pytest.mark.parametrize("make", [dense_layer, sparse_layer])
@pytest.mark.parametrize("options", [
    {}, {"key_dtype": "uint32"}, {"key_dtype": "int32"}, {"use_hashtable": False, "key_dtype": "uint32"},
    {"use_hashtable": False}], ids=str)
def test_every_step_and_every_since(seed, make, options, global_step):
    random = np.random.RandomState(seed)
    with graph():
        model = Model(make, global_step=global_step, **options)
        kind = np.iinfo(model.layer.key_dtype.as_numpy_dtype)
        choice = np.arange(V) if not model.layer.use_hashtable else np.append(
            random.randint(kind.min, kind.max, 20, kind.dtype), [kind.min, kind.max]).astype(kind.dtype)
        changed = {}  # a dict keeps the order of first appearance, which is that of the rows
        with session() as run:
            for step in range(1, 6):
                batch = random.choice(choice, 12)
                run.run(model.step, {model.keys: batch})
                for key in batch.tolist():
                    changed[key] = step
            assert run.run(model.shard.steps) == 5
            for since in (0, 1, 3, 4, 5, 99, 2 ** 40):
                expected = [key for key, step in changed.items() if step > since]
                assert dump(run, model, since) == (expected if model.layer.use_hashtable else sorted(expected))
            assert set(changed) <= set(dump(run, model, -1))
            assert len(dump(run, model, -1)) == (len(changed) if model.layer.use_hashtable else V)


def test_without_a_global_step_runs_that_train_are_counted():
    """Once each, however often the table is looked up in them; evaluations are not."""
    with graph():
        model = Model(global_step=False)
        read = model.layer(tf.reshape(model.keys, [-1, 2, 3]), training=False)
        more = tf.gradients(tf.reduce_sum(model.layer(tf.reshape(model.keys, [-1, 2, 3])) ** 3), model.shard)[0]
        with session() as run:
            run.run([model.step, more.values], {model.keys: np.arange(6)})
            run.run(read, {model.keys: np.arange(3, 9)})
            assert run.run(model.shard.steps) == 1
            run.run([model.step, more.values], {model.keys: [5] * 6})
            assert run.run(model.shard.steps) == 2
            assert [dump(run, model, since) for since in range(3)] == [[0, 1, 2, 3, 4, 5], [5], []]


@pytest.mark.parametrize("make", [dense_layer, sparse_layer])
@pytest.mark.parametrize("global_step", [True, False])
def test_inserted_keys_are_changed_and_an_evaluation_changes_nothing(make, global_step):
    with graph():
        training = v1.placeholder(tf.bool, [])
        model = Model(make, global_step=global_step, training=training)
        with session() as run:
            def go(fetch, keys, train):
                run.run(fetch, {model.keys: keys, training: train})

            go(model.looked_up, np.arange(6), True)
            assert dump(run, model, 0) == [0, 1, 2, 3, 4, 5] and dump(run, model, 1) == []
            go(model.step, np.arange(6), True)
            go(model.looked_up, np.arange(20, 26), False)
            assert dump(run, model, 1) == []
            go(model.looked_up, [5, 6, 7, 6, 5, 0], True)
            assert dump(run, model, 1) == [6, 7] and dump(run, model, 2) == []
            go(model.step, [1, 1, 1, 8, 8, 8], True)
            assert dump(run, model, 1) == [1, 6, 7, 8] and dump(run, model, 2) == []
            go(model.step, [9, 9, 2, 2, 2, 2], False)  # of an evaluation's gradient: key 9 has no row
            assert dump(run, model, 2) == [2]


def test_a_table_that_is_trained_less_often_than_others():
    """New keys of a lookup without gradient belong to the graph's step, not to the table's last one."""
    with graph():
        often = Model()
        seldom = dense_layer(max_vocabulary_size_per_gpu=V)
        vectors = seldom(tf.reshape(often.keys, [-1, 2, 3]))
        with session() as run:
            for step in range(4):
                run.run(often.step, {often.keys: np.arange(6)})
            run.run(vectors, {often.keys: np.arange(6)})
            run.run([vectors, often.step], {often.keys: np.arange(6, 12)})
            changed = [sok.incremental_dump(seldom.embedding_variable, since, run)[0].tolist() for since in (3, 4, 6)]
            assert changed == [list(range(12)), list(range(12)), []]


@pytest.mark.parametrize("make_step", [
    lambda: v1.train.AdagradOptimizer(0.1), lambda: sok.OptimizerWrapper(v1.train.MomentumOptimizer(0.1, 0.9)),
    lambda: sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1))], ids=["stock", "wrapped", "distributed"])
def test_new_keys_of_steps_that_train_no_table(make_step):
    """As of a model's other half, or where the table is frozen: the global step moves, and no gradient says so."""
    with graph():
        dense = v1.get_variable("dense", [D])
        model = Model()
        loss = tf.reduce_sum(model.looked_up * dense)
        both, frozen = [make_step().apply_gradients(zip(tf.gradients(loss, variables), variables), model.number)
                        for variables in ([model.shard, dense], [dense])]
        with session() as run:
            for step, train in enumerate([both, both, frozen, frozen, frozen, both, frozen]):
                key = 10 + step
                run.run(train, {model.keys: [key] * 6})
                assert dump(run, model, step) == [key] and dump(run, model, step + 1) == []
            assert run.run([model.number, model.shard.steps]) == [7, 6]


def test_steps_that_train_no_table_need_none():
    """Where there is one, they train before sok.Init as they did without."""
    with graph():
        number, dense = v1.train.create_global_step(), v1.get_variable("dense", [D])
        dense_layer(max_vocabulary_size_per_gpu=V)
        step = v1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(dense), number)
        made = v1.get_default_graph().get_operations()
        own = v1.get_variable("own", [], tf.int64, v1.zeros_initializer())
        v1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(dense), own)
        assert not [op for op in v1.get_default_graph().get_operations()[len(made):] if "Sok1x" in op.type]
        with v1.Session() as run:
            run.run([number.initializer, dense.initializer])
            run.run(step)
            assert run.run(number) == 1


def test_a_global_step_that_did_not_begin_at_zero():
    with graph():
        model = Model()
        with session() as run:
            run.run(v1.assign(model.number, 1000))
            run.run(model.step, {model.keys: np.arange(6)})
            assert dump(run, model, 1000) == [0, 1, 2, 3, 4, 5] and dump(run, model, 1001) == []
            run.run(model.step, {model.keys: [7] * 6})
            assert dump(run, model, 1001) == [7] and run.run([model.shard.steps, model.number]) == [1002, 1002]


@pytest.mark.parametrize("make", [
    lambda: v1.Variable(41, name="global_step", trainable=False),
    lambda: v1.Variable(np.int64(41), name="global_step", trainable=False, use_resource=True)], ids=["ref", "resource"])
def test_a_global_step_that_is_one_by_its_name(make):
    with graph():
        number = make()
        model = Model(global_step=False)
        with session() as run:
            run.run(model.step, {model.keys: np.arange(6)})
            assert run.run([model.shard.steps, number]) == [42, 41]


def test_what_is_called_global_step_and_is_none():
    with graph():
        v1.placeholder(tf.int64, [], name="global_step")
        model = Model(global_step=False)
        with session() as run:
            run.run(model.step, {model.keys: np.arange(6)})
            assert run.run(model.shard.steps) == 1


def test_tensors_while_the_graph_may_grow():
    with graph():
        model, other = Model(), sparse_layer()
        since = v1.placeholder(tf.int32, [])
        both = sok.incremental_dump([model.shard, other.embedding_variable], since)
        fixed = sok.incremental_dump(model.shard, 0)
        variable = v1.get_variable("since", initializer=1)
        held = sok.incremental_dump((model.shard,), variable)
        assert isinstance(both, list) and isinstance(held, list) and isinstance(fixed, tuple)
        assert fixed[0].dtype == tf.int64 and fixed[0].shape.as_list() == [None]
        assert fixed[1].dtype == tf.float32 and fixed[1].shape.as_list() == [None, D]
        assert sok.incremental_dump([], 0) == []
        with session() as run:
            for keys in (np.arange(6), np.arange(3, 9)):
                run.run(model.step, {model.keys: keys})
            got = run.run([both, fixed, held], {since: 1})
            assert got[0][0][0].tolist() == [3, 4, 5, 6, 7, 8] and got[0][1][0].shape == (0,)
            assert got[1][0].tolist() == list(range(9)) and got[2][0][0].tolist() == [3, 4, 5, 6, 7, 8]
            assert got[0][1][1].shape == (0, 4)


def test_with_tensorflows_saver(tmp_path):
    path = str(tmp_path / "model")
    with graph():
        model = Model()
        with session() as run:
            for keys in (np.arange(6), np.arange(3, 9)):
                run.run(model.step, {model.keys: keys})
            v1.train.Saver().save(run, path)
    with graph():
        model = Model()
        with session(initialize=False) as run:
            v1.train.Saver().restore(run, path)
            assert dump(run, model, 1) == [3, 4, 5, 6, 7, 8]
            run.run(model.step, {model.keys: [0] * 6})
            assert dump(run, model, 2) == [0]


class Dumps(v1.train.SessionRunHook):
    """After every second step, what has changed since the dump before."""

    def __init__(self, shard, given=False):
        self.shard, self.given, self.last, self.found = shard, given, 0, []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        assert v1.get_default_graph().finalized
        now = run_context.session.run(v1.train.get_global_step())
        if now % 2 == 0:
            options = {"session": run_context.session} if self.given else {}
            self.found.append(sok.incremental_dump([self.shard], self.last, **options)[0])
            self.last = now


@pytest.mark.parametrize("given", [False, True])
def test_hooks_in_a_finalized_graph(given):
    with graph():
        model = Model()
        dumps = Dumps(model.shard, given)
        with v1.train.MonitoredTrainingSession(hooks=[sok.InitHook(global_batch_size=1), dumps]) as run:
            for step in range(6):
                run.run(model.step, {model.keys: np.arange(step, step + 6)})
            for since in np.int64(5), np.array(5):
                keys, values = sok.incremental_dump(model.shard, since)
                assert keys.tolist() == [5, 6, 7, 8, 9, 10] and values.shape == (6, D)
        assert [found[0].tolist() for found in dumps.found] == [
            list(range(7)), list(range(2, 9)), list(range(4, 11))]


def test_the_session_in_a_finalized_graph():
    with graph() as made:
        model = Model()
        with session() as run:
            made.finalize()
            run.run(model.step, {model.keys: np.arange(6)})
            with pytest.raises(TypeError, match="since_step: got <tf.Tensor.*expected an integer"):
                sok.incremental_dump(model.shard, model.loss)
            assert sok.incremental_dump(model.shard, 0)[0].tolist() == list(range(6))
            with graph(), v1.Session():  # the default session is of another graph now
                with pytest.raises(RuntimeError, match="no session of the variables' graph.*session=.*InitHook"):
                    sok.incremental_dump(model.shard, 0)
                with pytest.raises(RuntimeError, match="^sok1x.export: no session of the variables' graph"):
                    sok.export(model.shard)
                initialize.InitHook().after_create_session(run, None)
                assert sok.incremental_dump(model.shard, 5)[0].tolist() == []
                assert sok.export(model.shard)[0].tolist() == list(range(6))


def test_sessions_are_not_kept():
    with graph() as made:
        run = v1.Session()
        sok.InitHook().after_create_session(run, None)
        assert initialize.last_session(made) is run
        other = v1.Session()
        sok.InitHook().after_create_session(other, None)
        assert initialize.last_session(made) is other
        other.close()
        assert initialize.last_session(made) is None
        sok.InitHook().after_create_session(run, None)
        del run
        gc.collect()
        assert initialize.last_session(made) is None


def test_what_it_refuses():
    with graph():
        shard = Model().shard
        other = v1.get_variable("dense", [4])
        for wrong in (other, [shard, other], None, "EmbeddingVariable", {shard: 1}):
            with pytest.raises(TypeError, match="sok1x.incremental_dump: variables: got .* expected a sok1x.Variable"):
                sok.incremental_dump(wrong, 0)
        for wrong in (1.5, True, "7", None):
            with pytest.raises((TypeError, ValueError)):
                sok.incremental_dump(shard, wrong)
            with v1.Session() as run, pytest.raises(TypeError, match="since_step: got .*expected an integer"):
                sok.incremental_dump(shard, wrong, run)
        with pytest.raises(ValueError, match=r"since_step: got shape \(2,\), expected a scalar"):
            sok.incremental_dump(shard, [1, 2])
        with graph():
            elsewhere = dense_layer().embedding_variable
            with v1.Session() as run, pytest.raises(ValueError, match="session: got one of another graph"):
                sok.incremental_dump(shard, 0, run)
        with pytest.raises(TypeError, match="session: got 3 of type int, expected a tf.Session"):
            sok.incremental_dump(shard, 0, 3)
        with pytest.raises(ValueError, match="'EmbeddingVariable' and 'EmbeddingVariable' of two graphs"):
            sok.incremental_dump([shard, elsewhere], 0)


def test_before_init_and_before_the_variables_have_values():
    with graph():
        model = Model()
        with session(initialize=False) as run:
            with pytest.raises(tf.errors.FailedPreconditionError, match="global_variables_initializer"):
                sok.incremental_dump(model.shard, 0, run)
