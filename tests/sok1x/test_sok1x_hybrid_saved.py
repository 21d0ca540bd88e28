"""Tables in host memory with a cache, saved and restored on one rank: by TensorFlow's Saver, by Keras, by ours."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hybrid_table import Both, Small

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, MismatchError
from sok1x.checkpoint.savers.table_saver import _PlainSaver
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.stores.host_column import HostColumn


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def test_what_is_not_pinned_is_saved_whole_before_the_cache_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(HostColumn, "reachable", property(lambda self: not self.rows))  # as a GPU has it
    small = Small(1, cache_rows=8)
    assert small.export() == {0: [0.0, 0.0]}
    for key in range(20):
        small.train(key)
    expected = small.export()
    with small.graph.as_default():
        saver = tf.train.Saver()
        for number in range(2):  # after a restore nothing is in the cache
            path = saver.save(small.session, str(tmp_path / "saved"), number)
            saver.restore(small.session, path)
            assert small.export() == expected and len(expected) == 20
        small.train(3)
        assert small.export() != expected


def test_tensorflows_saver_has_all_rows_on_one_rank(tmp_path):
    """What TensorFlow alone would save of the variables is the cache."""
    prefix, plain, small = str(tmp_path / "saved"), str(tmp_path / "plain"), Small(10)
    small.train(3)
    expected = small.export()

    def restored(path, **options):
        other = Small(20, **options)
        with other.graph.as_default():
            tf.train.Saver().restore(other.session, path)
        assert other.export() == expected
        other.train(0, 0, 3)  # with its slots
        assert other.export() != expected
        return other

    with small.graph.as_default():
        saver = tf.train.Saver()
        if not V2:  # there it takes the same way as a tf.train.Saver
            with pytest.raises(RuntimeError, match="tf.train.Checkpoint cannot save or restore 't'"):
                tf.train.Checkpoint(table=small.table).save(plain, session=small.session)
        assert saver.save(small.session, prefix, 1) == prefix + "-1" == tf.train.latest_checkpoint(str(tmp_path))
        with pytest.raises(CheckpointError, match="SavedModel cannot be written, .* in host memory"):
            saver.save(small.session, str(tmp_path / "variables" / "variables"), write_state=False)
        _PlainSaver().save(small.session, plain, write_meta_graph=False)
    for options in (dict(), dict(cache_rows=7), dict(var_type="hbm", cache_rows=None)):
        restored(prefix + "-1", **options)
    without = restored(prefix + "-1", var_type="hbm", cache_rows=None)
    expected = without.export()
    with without.graph.as_default():
        tf.train.Saver().save(without.session, str(tmp_path / "whole"))
    restored(str(tmp_path / "whole"))
    with small.graph.as_default(), pytest.raises(MismatchError, match="no more of table 't' than the rows .* cache"):
        saver.restore(small.session, plain)
    with tf.Graph().as_default(), tf.Session() as session:
        imported = tf.train.import_meta_graph(prefix + "-1.meta")
        with pytest.raises(CheckpointError, match="cannot save an imported graph: all rows of table 't'"):
            imported.save(session, prefix)
    with pytest.raises(CheckpointError, match="cannot save an imported graph: all rows of table 't'"):
        imported.save(tf.Session(graph=session.graph), prefix)  # from outside of the graph


def test_keras_weights_have_all_rows_on_one_rank(tmp_path):
    keys = np.arange(30).reshape(30, 1, 1)

    def predicted(path, **options):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.keras.backend.set_session(session)
            layer = sok.All2AllDenseEmbedding(None, 2, 1, 1, embedding_initializer="uniform", **options)
            inputs = tf.keras.Input([1, 1], dtype=tf.int64)
            model = tf.keras.Model(inputs, tf.keras.layers.Flatten()(layer(inputs)))
            model.compile(tf.train.GradientDescentOptimizer(0.5), "mse")
            if os.path.exists(path) or os.path.exists(path + ".index"):
                model.load_weights(path)
            else:
                model.fit(keys, np.ones([30, 2]), batch_size=6, verbose=0)
                model.save_weights(path)
                tf.train.Saver(model.weights).save(session, path + "_by_name")
                if "cache_rows" in options:
                    with pytest.raises(CheckpointError, match="model.save to .* in host memory"):
                        model.save(str(tmp_path / "model.h5"))
                else:
                    model.save_weights(path + ".h5")
            return model.predict(keys, batch_size=6)

    path = str(tmp_path / "weights")
    expected = predicted(path, cache_rows=8)
    for options in (dict(cache_rows=8), dict(cache_rows=11), dict()):
        np.testing.assert_array_equal(predicted(path, **options), expected)
    path = str(tmp_path / "weights_without_a_cache")
    expected = predicted(path)
    for file in (path, path + ".h5"):
        with pytest.raises(MismatchError, match="of tables without a cache.*save that by tf.train.Saver"):
            predicted(file, cache_rows=8)
    np.testing.assert_array_equal(predicted(path + "_by_name", cache_rows=8), expected)


@pytest.mark.parametrize("late", [False, True])
def test_a_checkpoint_is_restored_where_more_keys_have_come(late, tmp_path):
    if late and os.environ.get("SOK1X_TEST_DEVICE") == "gpu":
        pytest.skip("TensorFlow puts a table that has begun on a GPU not with Momentum's step, which only a CPU has")
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, initializer="zeros", init_capacity=16, max_capacity=16, cache_rows=4)
        keys = tf.placeholder(tf.int64, [None])
        vectors = sok.all2all_dense_embedding(table, keys)
        if late:  # the slot has memory of its own, not beside the rows
            session.run(tf.global_variables_initializer())
            session.run(vectors, {keys: [100]})
        optimizer = sok.OptimizerWrapper(tf.train.MomentumOptimizer(1.0, 0.5))
        step = optimizer.apply_gradients([(tf.gradients(vectors, table)[0], table)])
        session.run(tf.variables_initializer(optimizer.variables()) if late else tf.global_variables_initializer())
        session.run(step, {keys: [100]})
        manager = sok.CheckpointManager(str(tmp_path))
        manager.save(session, 1)
        for first in (0, 2):
            session.run(step, {keys: [first, first + 1]})
        manager.restore(session)
        session.run(step, {keys: [200, 100]})
        # By the gradient of this step alone, and with the momentum that was saved.
        assert session.run(vectors, {keys: [200, 100]}).tolist() == [[-1.0] * 2, [-2.5] * 2]


@pytest.mark.parametrize("how", ["restore_from_file", "load_embedding_values", "load"])
def test_more_rows_than_the_cache_has_into_any_table(tmp_path, how):
    """Into one that is new, and one that has been trained, whose initializers have run once more since."""
    folder, count = str(tmp_path), 50
    for first, again in ((0, False), (12, True), (40, True)):
        small = Small(first, tf.train.AdagradOptimizer(0.5))
        values = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
        with small.graph.as_default():
            loaded = sok.Saver().load_embedding_values(small.table, values)
            dumped = sok.Saver().dump_to_file(small.table, folder)
            restored = sok.Saver().restore_from_file(small.table, folder)
        if again:
            small.session.run(small.initial)
        if how == "load":
            np.arange(count).astype("<i8").tofile(os.path.join(folder, "t_keys.file"))
            values.tofile(os.path.join(folder, "t_values.file"))
            small.session.run(restored)
        else:
            small.session.run(loaded)
        if how != "load_embedding_values":
            small.session.run(dumped)
            sok.dump(folder + "/dump", small.table, session=small.session)
            small.session.run(small.initial)
            if how == "load":
                sok.load(folder + "/dump", small.table, session=small.session)
            else:
                small.session.run(restored)
        assert small.export() == dict(enumerate(values.tolist()))
        for key in range(0, count, 2):
            small.train(key, key + 1)  # whose accumulators begin at 0.1: of zeros the step would be greater
        stepped = np.array([row for _, row in sorted(small.export().items())])
        np.testing.assert_allclose(stepped, values - 0.5 / np.sqrt(1.1), rtol=1e-6)


@pytest.mark.parametrize("trained", [3, 12, 60])
def test_slots_that_nothing_is_loaded_for_stay_and_begin_as_without_a_cache(trained):
    """Of rows that are in the cache alone, that have left it, and that were not there."""
    found = []
    for options in ({}, {"var_type": "hbm", "cache_rows": None}):
        small = Small(trained, tf.train.AdagradOptimizer(0.5), **options)
        with small.graph.as_default():
            loaded = sok.Saver().load_embedding_values(small.table, np.zeros([50, 2], np.float32))
        small.session.run(loaded)
        for key in range(0, 50, 2):
            small.train(key, key + 1)
        found.append(small.export())
    assert found[0] == found[1]


@pytest.mark.parametrize("strategy", ["lru", "ttl"])
@pytest.mark.parametrize("how", ["load", "restore_from_file", "load_embedding_values"])
def test_what_is_loaded_has_changed_in_host_memory_too(tmp_path, how, strategy):
    """Of tables with and without a cache incremental dumps have all keys then, and by 'ttl' none of them leaves."""
    found = []
    for options in (dict(cache_rows=None, init_capacity=16), dict(cache_rows=4)):
        if strategy == "ttl":
            options.update(evict_strategy="ttl", time_to_live=10)
        small = Small(max_capacity=16, **options)
        folder = str(tmp_path / str(options["cache_rows"]))
        os.makedirs(folder)
        with small.graph.as_default():
            dumped = sok.Saver().dump_to_file(small.table, folder)
            loads = {"restore_from_file": sok.Saver().restore_from_file(small.table, folder),
                     "load_embedding_values": sok.Saver().load_embedding_values(small.table, np.ones([12, 2]))}
        small.session.run(dumped)
        sok.dump(folder + "/dump", small.table, session=small.session)
        for _ in range(20):
            small.train(0)
        before = int(small.session.run(small.table.steps))
        if how == "load":
            sok.load(folder + "/dump", small.table, session=small.session)
        else:
            small.session.run(loads[how])
        changed = [sok.incremental_dump(small.table, before + later, small.session)[0].tolist() for later in (0, 1)]
        for key in range(12, 16):
            small.train(key)
        if strategy == "ttl":
            with pytest.raises(tf.errors.ResourceExhaustedError):  # nothing has been as it is for so long
                small.train(16)
        found.append((changed, sorted(small.export())))
    assert found[0] == found[1] == ([list(range(12)), []], list(range(16)))


@pytest.mark.parametrize("strategy", [None, "lru", "lfu", "ttl"])
@pytest.mark.parametrize("by", [sok.CheckpointManager, tf.train.Saver], ids=["manager", "saver"])
def test_what_is_saved_of_each_row_is_as_without_a_cache(by, strategy, seed, tmp_path):
    """When it has changed and was used, and how often; and while rows are free, too."""
    options = dict(max_capacity=40, evict_strategy=strategy) if strategy else {}
    if strategy == "ttl":
        options.update(time_to_live=6)
    both, random = Both(lambda: tf.train.MomentumOptimizer(0.25, 0.5), **options), np.random.RandomState(seed)
    for length in (40, 60):  # before any has left, and after
        for _ in range(12):
            keys = (random.rand(random.randint(1, 9)) ** 1.5 * length).astype(np.int64)
            both.run("weighted", keys=keys, weights=random.randint(-3, 4, (len(keys), 2)).astype(np.float32))
        found = []
        for number, side in enumerate(both.sides):
            folder = str(tmp_path / "{} {}".format(length, number))
            with side.graph.as_default():
                saved = by(folder).save(side.session, 1) if by is sok.CheckpointManager else by().save(
                    side.session, os.path.join(folder, "saved"))
            other = Small(0, both.sides[1].optimizer.__class__(0.25, 0.5), **dict(
                options, cache_rows=None, var_type="hybrid" if options else "hbm"))
            with other.graph.as_default():
                if by is sok.CheckpointManager:
                    by(folder).restore(other.session)
                else:
                    by().restore(other.session, saved)
            of_rows = [other.table, other.table.stamps, *(other.table.forgetting[name] for name in ("used", "frequency")
                                                          if name in other.table.forgetting)]
            index, *values = other.session.run([other.table.index[0], *of_rows])
            found.append({key: [value[row].tolist() for value in values] for key, row in index.tolist() if row >= 0})
            for keys in np.arange(100, 148).reshape(-1, 8):
                try:
                    other.train(*keys)
                except tf.errors.ResourceExhaustedError:  # nothing has been there for so long
                    assert strategy == "ttl"
            if strategy != "lfu":  # of rows that were used as often any may leave
                found[-1]["later"] = sorted(other.export())
        assert found[0] == found[1] and len(found[0]) > 10


def test_one_ranks_saver_does_not_speak_of_several(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(2, cache_rows=4, name="cached")
        saver = tf.train.Saver({"other": table})
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        with pytest.raises(CheckpointError, match="cannot save tables with a cache, or in a folder of sok1x's files, "
                                                  "where it gives 'cached' another name") as error:
            saver.save(session, str(tmp_path / "saved"))
        assert "ranks" not in str(error.value)
