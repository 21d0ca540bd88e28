"""Shards handed to sinks and replaced from sources: what arrives, what training goes on with, what is refused."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.transfer import shard_load, shard_parts, shard_transfer, used_rows

v1 = tf
V, D = 40, 3


class Sink:
    """Keeps copies of all that comes; checks the order."""

    def __init__(self):
        self.parts, self.facts, self.ended = {}, None, False

    def begin(self, facts):
        assert self.facts is None
        self.facts = facts
        self.parts = {part: [] for part in facts["parts"]}

    def write(self, part, array):
        places = list(self.facts["parts"])
        assert not any(self.parts[later] for later in places[places.index(part) + 1:]), "parts come in turn"
        self.parts[part].append(array.copy())

    def end(self):
        for part, fact in self.facts["parts"].items():
            empty = [np.empty([0] + fact["row_shape"], fact["dtype"])]
            self.parts[part] = np.concatenate(self.parts[part] + empty)
            assert self.parts[part].dtype == fact["dtype"]
            assert list(self.parts[part].shape) == [fact["count"]] + fact["row_shape"]
        self.ended = True


class Source:
    """Gives parts in chunks of some rows."""

    def __init__(self, parts, rows=None, total=None):
        self.parts = dict(parts)
        self._unused = self.parts.pop("unused", None)
        self.keys = self.parts.pop("keys")
        self.rows = rows or max(1, len(self.keys))
        self.total = len(self.keys) if total is None else total

    def chunks(self):
        for first in range(0, len(self.keys), self.rows):
            piece = slice(first, first + self.rows)
            yield self.keys[piece], {part: array[piece] for part, array in self.parts.items()}

    def unused(self):
        return None if self._unused is None else iter(np.array_split(self._unused, 2))


class Model:
    """A table with the slots of an optimizer that has no other state, saved and loaded in a finalized graph."""

    def __init__(self, **options):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.shard = sok.EmbeddingVariable(**dict(dict(rows=V, dim=D, initializer="normal"), **options))
            self.keys, self.token = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [])
            vectors = embedding.lookup_dense(self.shard.table_variables, self.keys, True)
            optimizer = v1.train.FtrlOptimizer(0.1)
            self.step = optimizer.minimize(tf.reduce_sum(vectors ** 2))
            self.read = embedding.lookup_dense(self.shard.table_variables, self.keys, False)
            self.slots = {"m": optimizer.get_slot(self.shard, "accum"), "v": optimizer.get_slot(self.shard, "linear")}
            self.save = shard_transfer.save(self.shard.table_variables, self.slots, self.token)
            self.load = shard_transfer.load(self.shard.table_variables, self.slots, self.token)
            init, variables = sok.Init(global_batch_size=1), v1.global_variables_initializer()
            self.all = [self.shard] + self.shard.index[:2] + list(self.slots.values())
            self.session = v1.Session()
            self.graph.finalize()
            self.session.run(init)
            self.session.run(variables)

    def train(self, *batches):
        for batch in batches:
            self.session.run(self.step, {self.keys: batch})

    def saved(self):
        sink = Sink()
        with shard_transfer.offered(sink) as token:
            self.session.run(self.save, {self.token: token})
        assert sink.ended
        return sink

    def loaded(self, source):
        with shard_transfer.offered(source) as token:
            self.session.run(self.load, {self.token: token})

    def values(self):
        return self.session.run(self.all)


@pytest.fixture
def small_chunks(monkeypatch):
    """Everything takes several chunks."""
    monkeypatch.setattr(shard_parts, "CHUNK_BYTES", 7 * 4 * D)
    monkeypatch.setattr(used_rows, "_KEYS_AT_ONCE", 15)
    monkeypatch.setattr(shard_load, "_KEYS_AT_ONCE", 4)


def batches(seed, keys=None):
    random = np.random.RandomState(seed)
    keys = random.randint(-2 ** 62, 2 ** 62, 30) if keys is None else keys
    return keys[random.randint(0, len(keys), [5, 12])]


@pytest.mark.parametrize("initializer", ["normal", tf.keras.initializers.RandomNormal(seed=1)],
                         ids=["by key", "by row"])
def test_what_is_saved_and_loaded_is_bit_for_bit_the_same(seed, small_chunks, initializer):
    """Also the index; and new keys then get the rows that they would have got."""
    given = batches(seed)
    model = Model(rows=2 * V, initializer=initializer)
    model.train(*given)
    expected = model.values()
    sink = model.saved()
    used = len(np.unique(given))
    assert sink.facts["used"] == used and sink.facts["table"] == model.shard.m_var_name
    assert list(sink.parts) == ["keys", "rows", "m", "v"] + ["unused"] * (initializer != "normal")
    np.testing.assert_array_equal(sink.parts["keys"], list(dict.fromkeys(given.ravel().tolist())))
    for part, value in zip(("rows", "m", "v"), (expected[0],) + tuple(expected[3:])):
        np.testing.assert_array_equal(sink.parts[part], value[:used])
    other = Model(rows=2 * V, initializer=initializer)
    for source in (Source(sink.parts, 11), Source(sink.parts)):
        other.train(*batches(seed + 1))  # something else, to be gone afterwards
        other.loaded(source)
        for value, same in zip(other.values(), expected):
            rows = slice(used if same.shape[:1] == (2 * V,) else None)  # those not in use are nobody's
            np.testing.assert_array_equal(value[rows] if same.shape else value, same[rows] if same.shape else same)
    fresh = Model(rows=2 * V, initializer=initializer)
    fresh.loaded(Source(sink.parts, 11))
    for one, two in zip(fresh.values(), expected):
        np.testing.assert_array_equal(one, two)
    for trained in model, fresh:
        trained.train(np.arange(5))
    for one, two in zip(fresh.values(), model.values()):
        np.testing.assert_array_equal(one, two)


def test_without_an_index_rows_follow_from_keys(seed, small_chunks):
    model = Model(use_hashtable=False)
    model.train(*batches(seed, np.arange(V)))
    sink, expected = model.saved(), model.values()
    assert sink.facts["used"] == V and "unused" not in sink.parts
    np.testing.assert_array_equal(sink.parts["keys"], np.arange(V))
    np.testing.assert_array_equal(sink.parts["rows"], expected[0])
    order = np.random.RandomState(seed).permutation(V)
    for keys in np.arange(V), order, order[:V // 2], np.arange(9, 20), np.zeros(0, np.int64):
        other = Model(use_hashtable=False)
        before = other.values()
        other.loaded(Source({part: values[keys] for part, values in sink.parts.items()}, 13))
        for value, old, new in zip(other.values(), before, expected):
            old[keys] = new[keys]
            np.testing.assert_array_equal(value, old)


def test_a_part_of_integers_without_columns(seed, small_chunks):
    for hashtable in True, False:
        with tf.Graph().as_default(), v1.Session() as session:
            shard = sok.EmbeddingVariable(rows=V, dim=D, use_hashtable=hashtable)
            stamps = tf.Variable(tf.zeros([V], tf.int32), use_resource=True, name="stamps")
            token = v1.placeholder(tf.int64, [])
            save = shard_transfer.save(shard.table_variables, {"stamps": stamps}, token)
            load = shard_transfer.load(shard.table_variables, {"stamps": stamps}, token)
            session.run(sok.Init(global_batch_size=1))
            session.run(v1.global_variables_initializer())
            random = np.random.RandomState(seed)
            keys = random.permutation(V)
            parts = {"keys": keys, "rows": random.standard_normal((V, D)).astype(np.float32),
                     "stamps": random.randint(-2 ** 31, 2 ** 31, V).astype(np.int32), "other": np.zeros(V)}
            sink = Sink()
            with shard_transfer.offered(Source(parts, 9)) as source, shard_transfer.offered(sink) as target:
                session.run(load, {token: source})
                session.run(save, {token: target})
            order = slice(None) if hashtable else np.argsort(keys)
            for part in "keys", "rows", "stamps":
                np.testing.assert_array_equal(sink.parts[part], parts[part][order])


def test_an_empty_table_and_a_full_one():
    model = Model()
    sink = model.saved()
    assert sink.facts["used"] == 0 and [len(values) for values in sink.parts.values()] == [0] * 4
    model.train(np.arange(V))
    full = model.saved()
    model.loaded(Source(sink.parts))
    np.testing.assert_array_equal(model.values()[1][:, 1], -1)
    assert model.values()[2] == 0
    model.loaded(Source(full.parts))
    assert model.values()[2] == V


def refused(model, source, error, message, empty=True):
    """A load fails, and leaves the table empty or as it was."""
    model.train(np.arange(5))
    before = model.values()
    with pytest.raises(error, match=message):
        model.loaded(source)
    if empty:
        assert model.values()[2] == 0 and (model.values()[1][:, 1] == -1).all()
    else:
        for one, two in zip(model.values(), before):
            np.testing.assert_array_equal(one, two)
    model.train(np.arange(3))


def parts_of(keys, **changes):
    rows = np.ones([len(keys), D], np.float32)
    return dict(dict(keys=np.array(keys), rows=rows, m=rows, v=rows), **changes)


def test_what_does_not_fit_is_refused():
    model, invalid = Model(), tf.errors.InvalidArgumentError
    full = tf.errors.ResourceExhaustedError
    refused(model, Source(parts_of(range(V + 1))), full, "'EmbeddingVariable' on rank 0: got 41 rows.* at most 40",
            empty=False)
    refused(model, Source(parts_of(range(V + 1)), 9, total=V), full, "got 41 rows")
    refused(model, Source(parts_of(range(V)), total=3), invalid, "got 40 rows to load, expected the 3")
    refused(model, Source(parts_of([7, 8, 7])), invalid, "a key twice among the 3")
    refused(model, Source(parts_of([7, 8, 9, 8]), 2), invalid, "a key twice among the 2 that end with row 4")
    wide = np.ones([2, D + 1], np.float32)
    refused(model, Source(parts_of([1, 2], rows=wide)), invalid, r"got float32 \[2, 4\] for 'rows', expected float32 "
                                                                 r"\[2, 3\]")
    refused(model, Source(parts_of([1, 2], m=wide.astype(np.float64)[:, :D])), invalid, "got float64 .* for 'm'")
    missing = parts_of([1, 2])
    del missing["v"]
    refused(model, Source(missing), invalid, "got nothing for 'v'")
    refused(model, Source(parts_of([1], unused=np.ones([V, D], np.float32))), full, "got 41 rows to load")
    direct = Model(use_hashtable=False)
    for wrong in -1, V, 2 ** 40:
        with pytest.raises(invalid, match=r"got key {} to load, expected keys in \[0, 40\)".format(wrong)):
            direct.loaded(Source(parts_of([3, wrong])))


class Failing(Sink, Source):
    def __init__(self, error):
        Sink.__init__(self)
        Source.__init__(self, parts_of([1, 2, 3]), 1)
        self.error = error

    def write(self, part, array):
        raise self.error

    def chunks(self):
        for chunk in Source.chunks(self):
            yield chunk
            raise self.error


class DiskIsFull(RuntimeError):
    code = 8


@pytest.mark.parametrize("error, expected, message", [
    (DiskIsFull("no room in /somewhere"), tf.errors.ResourceExhaustedError, "(?m)^no room in /somewhere"),
    (OSError("the disk is gone"), tf.errors.InternalError, "(?m)^the disk is gone"),
    (KeyError("a mistake"), tf.errors.InternalError, "KeyError: 'a mistake'(.|\n)*test_graph_ops_shard_transfer")])
def test_errors_of_objects_fail_the_op(error, expected, message):
    model = Model()
    refused(model, Failing(error), expected, message)
    model.train(np.arange(5))
    before = model.values()
    with pytest.raises(expected, match=message), shard_transfer.offered(Failing(error)) as token:
        model.session.run(model.save, {model.token: token})
    for one, two in zip(model.values(), before):
        np.testing.assert_array_equal(one, two)


def test_tokens_are_good_inside_their_block_only():
    model = Model()
    with shard_transfer.offered(Sink()) as token:
        pass
    for op in model.save, model.load:
        with pytest.raises(tf.errors.FailedPreconditionError, match="EmbeddingVariable.*got token {}".format(token)):
            model.session.run(op, {model.token: token})


def test_parts_that_are_not_rows_are_refused_in_the_graph():
    with tf.Graph().as_default():
        shard = sok.EmbeddingVariable(rows=V, dim=D)
        for wrong in (shard.index[0], shard.index[1], tf.Variable(tf.zeros([V], tf.uint8), use_resource=True)):
            with pytest.raises(ValueError, match="shard_transfer.save of table 'EmbeddingVariable': got 'x' of shape"):
                shard_transfer.save(shard.table_variables, {"x": wrong}, 1)
