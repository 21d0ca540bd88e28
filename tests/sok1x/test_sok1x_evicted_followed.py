"""Who follows a table from one process to the next, or through restores, always has what it has."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import plan
from sok1x.graph_ops.stores import clock


class Followed:
    """A table, in a process of its own, of which others have what it tells them."""

    def __init__(self, folder, evicts=None, counts=False, **options):
        sok.init()
        self.graph = tf.Graph()
        with self.graph.as_default():
            if evicts is None:
                self.table = sok.DynamicVariable(2, "0", name="t", **options)
            else:  # rows leave when it is saved
                option = sok.deeprec.EmbeddingVariableOption(evict_option=evicts)
                self.table = sok.deeprec.get_embedding_variable(
                    "t", 2, initializer=tf.zeros_initializer(), ev_option=option)
            self.keys = tf.placeholder(tf.int64, [None])
            dense = tf.get_variable("dense", [], initializer=tf.ones_initializer())
            self.rows = sok.all2all_dense_embedding(self.table, self.keys)
            loss, step = tf.reduce_sum(self.rows * dense), None if counts else tf.train.get_or_create_global_step()
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            self.both, self.other = [optimizer.minimize(loss, step, [one]) for one in (self.table, dense)]
            self.exported, self.step = sok.export(self.table), self.table.steps if counts else step
            self.saver, self.initializer = tf.train.Saver(), tf.global_variables_initializer()
            self.session = tf.Session()
            self.session.run(self.initializer)
            self.manager = sok.CheckpointManager(str(folder / "manager"))
        self.path = str(folder / "saved")

    def train(self, *batches):
        for keys in batches:
            self.session.run(self.both, {self.keys: keys})

    def save(self, way):
        with self.graph.as_default():
            return {"saver": lambda: self.saver.save(self.session, self.path),
                    "manager": lambda: self.manager.save(self.session, 1)}[way]()

    def restore(self, way):
        with self.graph.as_default():
            return {"saver": lambda: self.saver.restore(self.session, self.path),
                    "manager": lambda: self.manager.restore(self.session)}[way]()

    def has(self):
        return {int(key): row.tolist() for key, row in zip(*self.session.run(self.exported))}

    def told(self, since, known):
        """(where a follower goes on, what it has then, whether it was told all): `since` and `known` as before."""
        gone, complete = sok.evicted_keys(self.table, since, self.session)
        changed = sok.incremental_dump(self.table, since if complete else -1, self.session)
        known = {key: row for key, row in known.items() if complete and key not in gone}
        known.update((int(key), row.tolist()) for key, row in zip(*changed))
        assert known == self.has(), (since, complete)
        return int(self.session.run(self.step)), known, bool(complete)


@pytest.mark.parametrize("remembered", [None, 0])
@pytest.mark.parametrize("way", ["saver", "manager"])
def test_what_left_when_a_table_was_saved_is_not_known_to_the_next_process(tmp_path, way, remembered):
    """Who has followed the table until then has these keys, at the very step that the checkpoint has."""
    first = Followed(tmp_path, sok.deeprec.GlobalStepEvict(3, remember_evicted=remembered))
    first.train(*([n, n + 1, n + 2] for n in range(8)))
    since, known, complete = first.told(-1, {})
    assert complete and since == 8
    first.save(way)
    assert len(first.has()) < len(known)
    second = Followed(tmp_path, sok.deeprec.GlobalStepEvict(3, remember_evicted=remembered))
    second.restore(way)
    for batch in ([], [7, 20], [21]):
        second.told(since, known)
        second.train(batch)
    since, known, _ = second.told(since, known)
    second.train([22], [23, 24])
    assert second.told(since, known)[2]


@pytest.mark.parametrize("remembered", [100, 0])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("way", ["saver", "manager"])
def test_what_came_and_left_after_a_save_is_not_known_to_the_next_process(tmp_path, way, full, remembered):
    """Who has followed the table until then has what came, and not what left, at the step that the checkpoint has."""
    options = dict(max_capacity=12, evict_strategy="lru", remember_evicted=remembered)
    first = Followed(tmp_path, **options)
    first.train(*([n] for n in range(12 if full else 5)))
    first.save(way)
    first.session.run(first.rows.op, {first.keys: [30, 31]})  # as of the next step
    since, known, _ = first.told(-1, {})
    assert {30, 31} < set(known) and (0 in known) != full
    second = Followed(tmp_path, **options)
    second.restore(way)
    for batch in ([], [7], [20]):
        second.told(since, known)
        second.train(batch)
    since, known, _ = second.told(since, known)
    second.train([22], [23, 24])
    assert second.told(since, known)[2] == (remembered > 0 or not full)


@pytest.mark.parametrize("cache", [{}, {"cache_rows": 6}])
@pytest.mark.parametrize("way", ["saver", "manager"])
def test_what_left_at_steps_that_trained_others_is_not_known_to_the_next_process(tmp_path, way, cache):
    """The table is behind the global step, by which its keys come and leave, and by which it is followed."""
    options = dict(max_capacity=12, evict_strategy="lru", remember_evicted=0, **cache)
    first = Followed(tmp_path, **options)
    first.train([1, 2], [3])
    for key in range(20, 29):
        first.session.run(first.other, {first.keys: [key]})
    since, known, complete = first.told(-1, {})
    assert complete and since == 11
    first.session.run(first.rows.op, {first.keys: [30, 31]})  # as of step 12
    assert not {1, 2} & set(first.has())
    first.save(way)
    for looks_up in (False, True):
        second = Followed(tmp_path, **options)
        second.restore(way)
        if looks_up:
            second.session.run(second.rows.op, {second.keys: [31]})
        second.told(since, known)


@pytest.mark.parametrize("cache", [{}, {"cache_rows": 6}])
@pytest.mark.parametrize("way", ["saver", "manager"])
def test_steps_that_others_trained_count_where_a_table_is_taken_back(tmp_path, way, cache):
    model = Followed(tmp_path, max_capacity=12, evict_strategy="lru", **cache)
    model.train([1])
    model.save(way)
    model.session.run(model.other, {model.keys: [2]})
    since, known, _ = model.told(-1, {})
    assert since == 2 and 2 in known
    model.restore(way)
    model.told(since, known)


@pytest.mark.parametrize("between", [[], [30]])
@pytest.mark.parametrize("ways", [("saver", "saver"), ("manager", "saver"), ("saver", "manager")])
def test_who_follows_a_table_learns_that_it_was_taken_back_twice(tmp_path, ways, between):
    model = Followed(tmp_path, max_capacity=12, evict_strategy="lru", remember_evicted=100)
    model.train([1], [2])
    model.save("saver")
    model.save("manager")
    model.train([10], [11], [12])
    since, known, _ = model.told(-1, {})
    model.restore(ways[0])
    model.session.run(model.rows.op, {model.keys: between})
    model.restore(ways[1])
    model.told(since, known)


def test_who_follows_a_new_table_from_step_0_on_needs_no_whole_dump(tmp_path):
    model = Followed(tmp_path, max_capacity=4, evict_strategy="lru", remember_evicted=100)
    since, known = 0, {}
    for batch in ([1, 2], [3, 4], [5], [6, 7]):
        model.train(batch)
        since, known, complete = model.told(since, known)
        assert complete


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("asks, counts", [
    ("all", True), ("changed", True), ("all", False), ("export", False)])  # counts: there is no global step
@pytest.mark.parametrize("way", ["saver", "manager"])
def test_who_has_followed_a_session_learns_that_the_next_one_goes_on_from_before(tmp_path, way, asks, counts, closed):
    """As where a MonitoredTrainingSession recovers: it has the checkpoint, and not what came after."""
    model = Followed(tmp_path, counts=counts, max_capacity=12, evict_strategy="lru", remember_evicted=100)
    model.train([1], [2])
    model.save(way)
    model.train([10], [11], [12])
    if asks == "all":
        since, known, _ = model.told(-1, {})
    else:
        since, known = int(model.session.run(model.step)), model.has()
    if asks == "changed":
        assert sorted(sok.incremental_dump(model.table, -1, model.session)[0]) == sorted(known)
    assert since == 5 and sorted(known) == [1, 2, 10, 11, 12]
    former = model.session
    if closed:
        former.close()
    model.session = tf.Session(graph=model.graph)
    model.restore(way)
    for batch in ([1], [2], [20], [21], [22]):
        model.train(batch)
        assert not model.told(since, known)[2]
    since, known, _ = model.told(since, known)
    model.train([23], [24, 25])
    assert model.told(since, known)[2]


def test_a_session_that_trains_while_another_is_restored_has_shown_its_steps(tmp_path):
    """What is told the one of the restored global step is not taken for what the other's runs have told it."""
    model = Followed(tmp_path, max_capacity=12, evict_strategy="lru", remember_evicted=100)
    other = tf.Session(graph=model.graph)
    other.run(model.initializer)
    model.train([1], [2])
    for key in range(6):
        other.run(model.both, {model.keys: [key]})

    class Between:  # the other trains when the one is told
        graph = model.graph

        @staticmethod
        def run(fetches, feed=None):
            if str(fetches).endswith("tell_restored_step"):
                other.run(model.both, {model.keys: [20]})
            return model.session.run(fetches, feed)

    clock.tell_outside(Between)
    told = plan.of(model.graph).told.values()
    assert max(one.get()[1] for one in told) == max(one.shown() for one in told) == 7
