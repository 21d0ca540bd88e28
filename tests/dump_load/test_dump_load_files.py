"""The files of `sok.dump` on one rank: their bytes, and what `sok.load` makes of such files, SOK's own too."""
import importlib
import os

import kit_files
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from dump_model import ROWS, D, Model, same
from kit_files import Table

import sok1x as sok
from sok1x.dump_load import layout
from sok1x.dump_load.shard_sink import PartFile, create

v1 = tf
KERAS = tf.keras.optimizers
# {optimizer: (its name in files, {slot in files: its own name})}, of SOK2's description and the map in slot_names.py.
OPTIMIZERS = {
    "train.GradientDescent": (lambda: v1.train.GradientDescentOptimizer(0.1), "SGD", {}),
    "train.Momentum": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), "Momentum", {"momentum": "momentum"}),
    "train.Adagrad": (lambda: v1.train.AdagradOptimizer(0.1), "Adagrad", {"accumulator": "accumulator"}),
    "train.Adadelta": (lambda: v1.train.AdadeltaOptimizer(0.1), "Adadelta",
                       {"accum_grad": "accum", "accum_var": "accum_update"}),
    "train.Adam": (lambda: v1.train.AdamOptimizer(0.1), "Adam", {"m": "m", "v": "v"}),
    "train.RMSProp": (lambda: v1.train.RMSPropOptimizer(0.1, centered=True), "RMSprop",
                      {"rms": "rms", "momentum": "momentum", "mg": "mg"}),
    "train.Ftrl": (lambda: v1.train.FtrlOptimizer(0.1), "Ftrl", {"accumulator": "accum", "linear": "linear"}),
    "lazy": (lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), "Adam", {"m": "m", "v": "v"}),
    "keras.SGD": (lambda: KERAS.SGD(0.1), "SGD", {}),
    "keras.momentum": (lambda: KERAS.SGD(0.1, 0.9), "SGD", {"momentum": "momentum"}),
    "keras.Adagrad": (lambda: KERAS.Adagrad(0.1), "Adagrad", {"accumulator": "accumulator"}),
    "keras.Adadelta": (lambda: KERAS.Adadelta(0.1), "Adadelta", {"accum_grad": "accum_grad", "accum_var": "accum_var"}),
    "keras.Adam": (lambda: KERAS.Adam(0.1, amsgrad=True), "Adam", {"m": "m", "v": "v", "vhat": "vhat"}),
    "keras.Adamax": (lambda: KERAS.Adamax(0.1), "Adamax", {"m": "m", "v": "v"}),
    "keras.Ftrl": (lambda: KERAS.Ftrl(0.1), "Ftrl", {"accumulator": "accumulator", "linear": "linear"}),
    "keras.RMSprop": (lambda: KERAS.RMSprop(0.1, momentum=0.5), "RMSprop", {"rms": "rms", "momentum": "momentum"}),
    "keras.Nadam": (lambda: KERAS.Nadam(0.1), "Nadam", {"m": "m", "v": "v"}),
    "contrib.AdaMax": (lambda: importlib.import_module("tensorflow.contrib.opt").AdaMaxOptimizer(0.1), "Adamax",
                       {"m": "m", "v": "v"}),
    "ours": (lambda: sok.optimizers.Adam(0.1), "Adam", {"m": "m", "v": "v"})}
if not tf.__version__.startswith("1."):  # which has no contrib
    del OPTIMIZERS["contrib.AdaMax"]


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def expected(model, optimizer="None", renamed=None):
    """What the tables of a model on one rank are in files."""
    tables = []
    for table, keys in ((model.one, np.arange(ROWS)), (model.two, np.arange(5, dtype=np.uint64)),
                        (model.hashed, model.keys)):
        slots = model.slots(table)
        values, found = model.session.run([table, {slot: slots[own] for slot, own in (renamed or {}).items()}])
        n = len(keys)
        tables.append(Table(kit_files.stem(table.name), keys, values[:n], optimizer,
                            {slot: value[:n] for slot, value in found.items()}))
    return tables


def test_a_head_that_the_system_takes_by_pieces(tmp_path, monkeypatch):
    stock = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: stock(fd, bytes(data)[:100], offset))
    head = layout.Head("table", layout.KEY, "", "int64")
    create([PartFile("keys", str(tmp_path / "file"), head, 8)], 3)
    assert (tmp_path / "file").read_bytes() == kit_files.head("table", 0, "", "int64") + bytes(24)


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bytes_with_every_optimizer_and_back(name, tmp_path):
    make, called, renamed = OPTIMIZERS[name]
    model = Model(make)
    model.train()
    tables = expected(model, called, renamed)
    model.dump(str(tmp_path / "dump"))
    files = dict(meta_info=kit_files.meta(tables))
    for table in tables:
        files.update(kit_files.files(table))
    assert contents(str(tmp_path / "dump")) == files
    # Into a model that has gone on, and then one that has just begun.
    before = model.state()
    model.train()
    assert not same(model.state(), before)
    model.load(str(tmp_path / "dump"))
    assert same(model.state(), before)
    other = Model(make, keys=())
    other.load(str(tmp_path / "dump"))
    assert same(other.state(), before)


@pytest.mark.parametrize("key_dtype", ["int64", "uint32", "int32"])
def test_without_optimizer_keys_of_every_kind(key_dtype, tmp_path):
    low, high = np.iinfo(key_dtype).min, np.iinfo(key_dtype).max
    model = Model(lambda: KERAS.Adam(0.1), keys=(low, high, 3, 0) if low else (high, 3, 0), key_dtype=key_dtype)
    model.train()
    model.dump(str(tmp_path / "dump"), optimizer=False)
    tables = expected(model)
    files = dict(meta_info=kit_files.meta(tables))
    for table in tables:
        files.update(kit_files.files(table))
    assert contents(str(tmp_path / "dump")) == files
    before = model.state()
    model.train()
    trained = model.state()
    model.load(str(tmp_path / "dump"), optimizer=False)
    after = model.state()
    for name, value in after.items():
        if name in ("one", "two/2", "EmbeddingVariable"):
            np.testing.assert_array_equal(value, before[name])
        elif name.startswith("Adam/EmbeddingVariable"):
            assert not value.any()  # a hash table's slots begin anew: its rows may be other keys' now
        else:
            np.testing.assert_array_equal(value, trained[name])
    # All rows count as changed.
    assert (model.session.run(model.one.stamps) > 0).all()


def test_keys_to_come_find_no_slots_of_keys_before(tmp_path):
    sok.init()
    tables = [dict(var_type="hbm", init_capacity=2), dict(init_capacity=16, max_capacity=16),
              dict(init_capacity=4, max_capacity=16, cache_rows=4)]
    with tf.Graph().as_default(), v1.Session() as session:
        layer = sok.All2AllDenseEmbedding(16, D, 1, 1, embedding_initializer="zeros")
        tables = [layer.embedding_variable] + [sok.DynamicVariable(D, initializer="zeros", **one) for one in tables]
        keys = v1.placeholder(tf.int64, [None])
        optimizer = sok.OptimizerWrapper(v1.train.MomentumOptimizer(1.0, 0.5))
        looked_up = [sok.all2all_dense_embedding(table, keys) for table in tables]
        step = optimizer.apply_gradients(zip(v1.gradients(looked_up, tables), tables))
        session.run(v1.global_variables_initializer())
        session.run(step, {keys: [100]})
        sok.dump(str(tmp_path / "dump"), tables, optimizer)
        for first in (0, 2, 0, 2):
            session.run(step, {keys: [first, first + 1]})
        sok.load(str(tmp_path / "dump"), tables, optimizer)
        # As of a key that has just come, by the gradient of this step alone; and of one that has its momentum.
        session.run(step, {keys: [200, 100]})
        for vectors in session.run(looked_up, {keys: [200, 100]}):
            assert vectors.tolist() == [[-1.0] * D, [-2.5] * D]


@pytest.mark.parametrize("key_type", ["int64", "int32"])
def test_negative_keys_of_a_growing_table_on_one_rank_alone(tmp_path, key_type):
    keys, folder = [-1, 5, np.iinfo(key_type).min], str(tmp_path / "dump")
    with tf.Graph().as_default(), v1.Session() as session:
        items = sok.DynamicVariable(D, initializer="1", mode="localized:0", key_type=key_type, name="items")
        session.run(v1.global_variables_initializer())
        values = np.arange(3 * D, dtype=np.float32).reshape(3, D)
        session.run(sok.assign(items, tf.constant(keys, tf.int64), values))
        sok.dump(folder, items, session=session)
        assert kit_files.read(folder)["items_0"].keys.dtype == key_type
        for changed in (False, True):
            if changed:  # as sok1x once wrote them
                kit_files.write(folder + " before", [Table("items_0", np.array(keys).astype(np.uint64), values)])
                folder += " before"
            session.run(items.initializer)
            sok.load(folder, items, session=session)
            found = dict(zip(*(array.tolist() for array in sok.export(items, session))))
            assert found == dict(zip(keys, values.tolist()))


def test_rows_of_other_dtypes(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        made = [sok.Variable(np.arange(6).reshape(3, 2), dtype=dtype, name=dtype)
                for dtype in ("int32", "int64", "float32", "float64")]
        session.run(v1.global_variables_initializer())
        sok.dump(str(tmp_path / "dump"), made)  # in the default session
        found = kit_files.read(str(tmp_path / "dump"))
        for variable in made:
            table = found[variable.op.name + "_0"]
            assert table.values.dtype == variable.dtype.as_numpy_dtype and table.keys.tolist() == [0, 1, 2]
            np.testing.assert_array_equal(table.values, np.arange(6).reshape(3, 2))
            session.run(variable.initializer)
        sok.load(str(tmp_path / "dump"), made)
        other = sok.Variable(np.zeros([3, 2]), dtype=tf.float64, name="other")
        session.run(other.initializer)
        with pytest.raises(sok.checkpoint.CheckpointError, match="no table 'other_0'.*float32_0"):
            sok.load(str(tmp_path / "dump"), other)


def written(model, seed, optimizer="None", slots=(), key_dtype=np.int64):
    """Tables of other values, as another job would have written them: rows in any order."""
    random = np.random.RandomState(seed)
    tables = []
    for table, keys in ((model.one, np.arange(ROWS)), (model.two, np.arange(5)), (model.hashed, model.keys)):
        keys = random.permutation(keys).astype(key_dtype)
        tables.append(Table(kit_files.stem(table.name), keys, random.randn(len(keys), D).astype(np.float32), optimizer,
                            {slot: random.randn(len(keys), D).astype(np.float32) for slot in slots}))
    return tables


def check(model, tables):
    """The model has what the tables say."""
    for table, written_table in zip(model.tables, tables):
        expected = written_table.by_key()
        slots = dict(model.slots(table), **{"": table})
        for name, values in expected.items():
            got = model.session.run(slots[name])
            if table is model.hashed:  # rows are in the order of the file's keys
                np.testing.assert_array_equal(got[:len(written_table.keys)], values[np.argsort(np.argsort(
                    written_table.keys))])
            else:
                np.testing.assert_array_equal(got, values)
    rows = dict(zip(tables[2].keys.tolist(), tables[2].values))
    np.testing.assert_array_equal(model.session.run(model.look), [rows[key] for key in model.keys.tolist()])


def test_files_of_soks_own_with_their_quirks(tmp_path, seed):
    model = Model(lambda: KERAS.Adamax(0.1), key_dtype="uint32")
    adam = written(model, seed, "Adam", ("m", "v"))  # SOK calls Adamax so
    kit_files.write(str(tmp_path / "adam"), adam)
    model.load(str(tmp_path / "adam"))
    check(model, adam)

    wide = written(model, seed + 1)
    kit_files.write(str(tmp_path / "wide"), wide)
    for table in wide:  # keys of eight bytes under the number of uint32
        with open(str(tmp_path / "wide" / (table.name + "-key")), "wb") as file:
            file.write(kit_files.head(table.name, 0, "", "uint32") + table.keys.astype("<u8").tobytes())
    with open(str(tmp_path / "wide" / "meta_info"), "wb") as file:
        file.write(kit_files.meta(wide, ["uint32"] * 3))
    model.load(str(tmp_path / "wide"), optimizer=False)
    check(Model_without_slots(model), wide)

    mixed = written(model, seed + 2)
    kit_files.write(str(tmp_path / "mixed"), mixed)
    with open(str(tmp_path / "mixed" / "meta_info"), "wb") as file:  # all tables under the last one's name
        file.write(kit_files.meta([Table(mixed[-1].name, table.keys, table.values) for table in mixed]))
    model.load(str(tmp_path / "mixed"), optimizer=False)
    check(Model_without_slots(model), mixed)

    plain = written(model, seed + 3)
    for table in plain:  # named without TensorFlow's ':0'
        table.name = table.name[:-2]
    kit_files.write(str(tmp_path / "plain"), plain)
    model.load(str(tmp_path / "plain"), optimizer=False)
    check(Model_without_slots(model), plain)


class Model_without_slots:
    """A model of which the tables alone are looked at."""

    def __init__(self, model):
        self.tables, self.hashed, self.session = model.tables, model.hashed, model.session
        self.look, self.keys = model.look, model.keys

    def slots(self, table):
        return {}


def test_slots_of_one_kind_load_into_the_other(tmp_path, seed):
    for train, keras in (("Adam", KERAS.Adam), ("Adagrad", KERAS.Adagrad), ("Adadelta", KERAS.Adadelta),
                         ("Ftrl", KERAS.Ftrl)):
        make, called, renamed = OPTIMIZERS["train." + train]
        model = Model(make)
        tables = written(model, seed, called, renamed)
        kit_files.write(str(tmp_path / train), tables)
        model.load(str(tmp_path / train))
        model.dump(str(tmp_path / ("again " + train)))
        other = Model(lambda: keras(0.1))
        other.load(str(tmp_path / ("again " + train)))
        check(other, tables)
