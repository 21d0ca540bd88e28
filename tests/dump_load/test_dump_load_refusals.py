"""What `sok.load` and `sok.dump` refuse, before anything changes; and folders that hold something already."""
import os
import shutil
import struct

import kit_files
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from dump_model import Model, same

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.errors import DamagedError, MismatchError, NotFoundError

v1 = tf
KERAS = tf.keras.optimizers


@pytest.fixture(scope="module")
def model():
    sok.init()
    made = Model(lambda: KERAS.Adam(0.1))
    made.train()
    return made


@pytest.fixture
def dumped(model, tmp_path):
    path = str(tmp_path / "dump")
    model.dump(path)
    return path


def change(path, place, data):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(data)


def truncate(path, nbytes):
    os.truncate(path, os.path.getsize(path) + nbytes)


def key(place, value):
    return lambda folder: change(os.path.join(folder, "one_0-key"), 296 + 8 * place, struct.pack("<q", value))


def of_file(name, place, data):
    return lambda folder: change(os.path.join(folder, name), place, data)


def number(value, width=4):
    return value.to_bytes(width, "big", signed=True)


DAMAGES = {
    "no meta_info": (lambda folder: os.unlink(folder + "/meta_info"), NotFoundError, "has no meta_info"),
    "an empty meta_info": (lambda folder: os.truncate(folder + "/meta_info", 0), DamagedError, "got 0 bytes"),
    "a short meta_info": (lambda folder: truncate(folder + "/meta_info", -1), DamagedError, "for 3 tables"),
    "a long meta_info": (lambda folder: truncate(folder + "/meta_info", 1), DamagedError, "for 3 tables"),
    "another number of tables": (of_file("meta_info", 0, number(4)), DamagedError, "for 4 tables"),
    "a negative number of tables": (of_file("meta_info", 0, number(-1)), DamagedError, "for -1 tables"),
    "an unknown key dtype": (of_file("meta_info", 4, number(7)), DamagedError, "got 7 for a dtype"),
    "a negative dtype": (of_file("meta_info", 16, number(-1)), DamagedError, "got -1 for a dtype"),
    "another dtype": (of_file("meta_info", 16, number(6)), MismatchError, "rows of 3 float64.*model's are of 3 flo"),
    "another D": (of_file("meta_info", 28, number(4)), MismatchError, "rows of 4 float32"),
    "no D": (of_file("meta_info", 28, number(0)), DamagedError, "rows of 0 values"),
    "more rows": (of_file("meta_info", 40, number(12, 8)), DamagedError, "12 rows of 12 bytes"),
    "rows below zero": (of_file("meta_info", 40, number(-1, 8)), DamagedError, "-1 rows"),
    "a name that is no text": (of_file("meta_info", 64, b"\xff"), DamagedError, "no text"),
    "another name": (of_file("meta_info", 64 + 254, b"X"), CheckpointError, "no table 'one_0'.*two_2_0"),
    "no keys": (lambda folder: os.unlink(folder + "/one_0-key"), DamagedError, "one_0-key is missing"),
    "no rows": (lambda folder: os.unlink(folder + "/two_2_0-weight"), DamagedError, "two_2_0-weight is missing"),
    "no slot": (lambda folder: os.unlink(folder + "/one_0-Adam-v"), NotFoundError, "no slot 'v'.*one_0-Adam-m"),
    "a short head": (lambda folder: os.truncate(folder + "/one_0-key", 295), DamagedError, "got 295 bytes"),
    "another table's head": (of_file("one_0-weight", 250, b"abcdef"), DamagedError, "head says table"),
    "another type": (of_file("one_0-weight", 256, number(0)), DamagedError, "type 0"),
    "no such type": (of_file("one_0-weight", 256, number(3)), DamagedError, "a file of type 3"),
    "another slot": (of_file("one_0-Adam-m", 291, b"x"), DamagedError, "slot 'x'"),
    "another dtype in a head": (of_file("one_0-weight", 292, number(4)), DamagedError, "values of float16"),
    "another key dtype in a head": (of_file("one_0-key", 292, number(0)), DamagedError, "got keys of int32"),
    "another slot's dtype": (of_file("one_0-Adam-m", 292, number(4)), MismatchError, "values of float16"),
    "short keys": (lambda folder: truncate(folder + "/one_0-key", -8), DamagedError, "11 rows of 8 bytes"),
    "long keys": (lambda folder: truncate(folder + "/one_0-key", 8), DamagedError, "11 rows of 8 bytes"),
    "short rows": (lambda folder: truncate(folder + "/one_0-weight", -1), DamagedError, "11 rows of 12 bytes"),
    "long rows": (lambda folder: truncate(folder + "/one_0-weight", 12), DamagedError, "11 rows of 12 bytes"),
    "a short slot": (lambda folder: truncate(folder + "/EmbeddingVariable_0-Adam-v", -4), DamagedError, "4 rows"),
    "a key twice": (key(0, 3), DamagedError, "key 3 twice"),
    "a key below": (key(5, -1), MismatchError, r"key -1 at place 5.*\[0, 11\)"),
    "a key beyond": (key(10, 11), MismatchError, r"key 11 at place 10.*\[0, 11\)"),
    "a key that is too large": (of_file("two_2_0-key", 296, b"\xff" * 8), MismatchError, "below 2\\*\\*63"),
    "a pipe": (lambda folder: [os.unlink(folder + "/one_0-key"), os.mkfifo(folder + "/one_0-key")], DamagedError,
               "not a regular file"),
    "a link": (lambda folder: [os.rename(folder + "/one_0-key", folder + "/x"),
                               os.symlink(folder + "/x", folder + "/one_0-key")], DamagedError, "symbolic link"),
    "a folder in its place": (lambda folder: [os.unlink(folder + "/one_0-key"), os.mkdir(folder + "/one_0-key")],
                              DamagedError, "not a regular file"),
}


def test_damage_of_every_kind(model, dumped, tmp_path):
    before = model.state()
    for name, (damage, error, words) in DAMAGES.items():
        folder = str(tmp_path / name)
        shutil.copytree(dumped, folder)
        damage(folder)
        with pytest.raises(error, match=words):
            model.load(folder)
        assert same(model.state(), before), name
    model.train()
    model.load(dumped)
    assert same(model.state(), before)


def test_any_byte_of_heads_and_meta_info_changed(model, dumped, seed):
    """Whatever it makes of it, nothing but our errors comes out, and nothing has changed if one does."""
    random, before = np.random.RandomState(seed), model.state()
    refused = 0
    for name in ("meta_info", "one_0-key", "EmbeddingVariable_0-Adam-m"):
        path = os.path.join(dumped, name)
        with open(path, "rb") as file:
            data = file.read()
        for place in random.choice(296, 25, False):
            change(path, place, bytes([data[place] ^ random.randint(1, 256)]))
            try:
                model.load(dumped)
            except CheckpointError:
                refused += 1
            assert same(model.state(), before), (name, place)  # a load that went well brought the same
            change(path, place, data[place:place + 1])
    assert refused >= 60


def test_what_is_of_another_model(model, dumped, tmp_path):
    for other, words in ((Model(lambda: KERAS.Adam(0.1), rows=12), "11 rows, and the model's variable 'one' has 12"),
                         (Model(lambda: KERAS.Adagrad(0.1)), "no slot 'accumulator' of optimizer Adagrad.*Adam-m"),
                         (Model(lambda: v1.train.MomentumOptimizer(0.1, 0.9)), "no slot 'momentum'")):
        before = other.state()
        with pytest.raises(CheckpointError, match=words):
            other.load(dumped)
        assert same(other.state(), before)
    many = Model(keys=range(16))
    many.dump(str(tmp_path / "many"))
    with tf.Graph().as_default(), v1.Session() as session:
        few = sok.EmbeddingVariable(rows=15, dim=3)
        session.run(v1.global_variables_initializer())
        with pytest.raises(MismatchError, match="16 rows for rank 0 of 1.*at least 16"):
            sok.load(str(tmp_path / "many"), few)
        narrow = sok.Variable(np.zeros([11, 2]), dtype=tf.float32, name="one")
        session.run(narrow.initializer)
        with pytest.raises(MismatchError, match="rows of 3 float32 for table 'one', and the model's are of 2 float32"):
            sok.load(dumped, narrow)


def test_arguments(model, tmp_path, dumped):
    path = str(tmp_path / "new")
    for function in (sok.dump, sok.load):
        for error, words, arguments in (
                (TypeError, "path: got 3", (3, model.one)), (TypeError, "path: got ''", ("", model.one)),
                (TypeError, "sok_vars: got 3 of type int, expected a sok1x.Variable", (path, [model.one, 3])),
                (ValueError, "got no variables", (path, [])),
                (ValueError, "got a variable twice", (path, [model.one, model.one])),
                (ValueError, "of two graphs", (path, [model.one, Model().one])),
                (TypeError, "optimizer: got 'Adam'", (path, model.one, "Adam")),
                (ValueError, "has not trained 'one'", (path, model.one, sok.OptimizerWrapper(KERAS.Adam()))),
                (ValueError, "has not trained 'one'", (path, model.one, KERAS.SGD(0.1, 0.9))),
                (ValueError, "of another graph", (path, model.one, None, Model().session)),
                (RuntimeError, "no session of the variables' graph", (path, model.one))):
            with pytest.raises(error, match=words):
                function(*arguments)
    assert not os.path.exists(path)
    with pytest.raises(NotFoundError, match="no such folder"):
        model.load(path)
    # An optimizer that is not wrapped, in a finalized graph; what it could do before that.
    with tf.Graph().as_default() as graph, v1.Session() as session:
        table = sok.Variable(np.ones([3, 2]), dtype=tf.float32, name="a/b")
        twin = sok.Variable(np.ones([3, 2]), dtype=tf.float32, name="a.b")
        optimizers = [v1.train.AdamOptimizer() for _ in range(2)]
        for optimizer in optimizers:
            optimizer.apply_gradients([(tf.ones([3, 2]), table)])
        session.run(v1.global_variables_initializer())
        with pytest.raises(ValueError, match="'a/b' and 'a.b' would have files of one name, 'a_b_0'"):
            sok.dump(path, [table, twin])
        sok.dump(path, table, optimizers[0])
        graph.finalize()
        sok.load(path, table, optimizers[0])
        sok.dump(path, table)
        sok.dump(path, table, v1.train.GradientDescentOptimizer(0.1))
        with pytest.raises(RuntimeError, match="the graph is finalized.*OptimizerWrapper"):
            sok.dump(path, table, optimizers[1])
    # The files of 'items', items_0-key and so on, could be those of 'items_0' where there is no 'items'.
    with tf.Graph().as_default(), v1.Session() as session:
        tables = [sok.Variable(np.full([3, 2], 1.0 + i), dtype=tf.float32, name=name)
                  for i, name in enumerate(("items", "items_0"))]
        session.run(v1.global_variables_initializer())
        sok.dump(str(tmp_path / "one"), tables[0])
        sok.dump(str(tmp_path / "both"), tables)
        for given in (tables, tables[1]):
            with pytest.raises(CheckpointError, match="has no table 'items_0_0'.*it has items_0"):
                sok.load(str(tmp_path / "one"), given)
        sok.load(str(tmp_path / "both"), tables)
        assert [value[0, 0] for value in session.run(tables)] == [1.0, 2.0]
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.Variable(np.zeros([3, 2]), dtype=tf.float32, name="items_0")
        session.run(table.initializer)
        sok.load(str(tmp_path / "one"), table)
        assert session.run(table)[0, 0] == 1.0
    long = "x" * 300
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.Variable(np.ones([3, 2]), dtype=tf.float32, name=long)
        session.run(table.initializer)
        with pytest.raises(CheckpointError, match="names of 256 bytes|File name too long"):
            sok.dump(path + "2", table)
    assert sorted(os.listdir(str(tmp_path))) == ["both", "dump", "new", "one"]


class RowWise(v1.train.Optimizer):
    """Adagrad with one number for each row: its slot is [V, 1]."""

    def __init__(self):
        super().__init__(False, "RowWise")

    def _create_slots(self, var_list):
        for variable in var_list:
            self._get_or_make_slot(variable, tf.zeros_like(variable)[:, :1], "acc", self._name)

    def _resource_apply_dense(self, grad, handle):
        acc = self.get_slot(handle, "acc")
        with tf.control_dependencies([acc.assign_add(tf.reduce_mean(grad ** 2, 1, keepdims=True))]):
            return handle.assign_sub(grad / tf.sqrt(acc.read_value() + 1e-8)).op


@pytest.mark.parametrize("wrapped", [True, False])
def test_slots_whose_rows_are_not_the_tables(tmp_path, wrapped):
    """The files would be read as of D values a row, and the table be empty by the time that this is found out."""
    path = str(tmp_path / "dump")
    with tf.Graph().as_default(), v1.Session() as session:
        sok.init()
        table = sok.Variable(np.ones([3, 2]), dtype=tf.float32, name="items")
        optimizer = sok.OptimizerWrapper(RowWise()) if wrapped else RowWise()
        step = optimizer.apply_gradients([(0.5 + table, table)])
        session.run(v1.global_variables_initializer())
        session.run(step)
        before = session.run(v1.global_variables())
        for function in (sok.dump, sok.load):
            with pytest.raises(ValueError, match=r"RowWise, whose slot 'acc' .* \[1\] for .* 'items', .* \[2\] as"):
                function(path, table, optimizer)
        assert not os.path.exists(path)
        for one, other in zip(before, session.run(v1.global_variables())):
            np.testing.assert_array_equal(one, other)
        sok.dump(path, table)
        sok.load(path, table)


def test_sessions(model, tmp_path):
    """A session of each kind; inside a MonitoredTrainingSession and its hooks, of a finalized graph."""
    class Dumping(v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            sok.dump(str(tmp_path / "hook"), table, wrapped, run_context.session)

    with tf.Graph().as_default():
        table = sok.Variable(np.ones([3, 2]), dtype=tf.float32)
        wrapped = sok.OptimizerWrapper(v1.train.AdagradOptimizer(0.1))
        step = wrapped.apply_gradients([(tf.ones([3, 2]), table)], v1.train.get_or_create_global_step())
        with v1.train.MonitoredTrainingSession(hooks=[Dumping(), sok.InitHook()]) as session:
            session.run(step)
            sok.dump(str(tmp_path / "monitored"), table, wrapped, session)
            sok.dump(str(tmp_path / "found"), table, wrapped)  # the one that InitHook has seen
            value = session.run(table)
        found = [kit_files.read(str(tmp_path / name))["Variable_0"] for name in ("hook", "monitored", "found")]
        for one in found:
            np.testing.assert_array_equal(one.values, value)
            assert list(one.slots) == ["accumulator"]


def test_folders(model, tmp_path, monkeypatch):
    one = str(tmp_path / "one")
    os.makedirs(one)
    monkeypatch.chdir(str(tmp_path))
    model.dump(one)  # empty before
    inode = os.stat(one).st_ino
    with open(one + "/mine.txt", "w") as file:
        file.write("kept")
    os.mkdir(one + "/models")
    with open(one + "/models-key", "w") as file:
        file.write("no dump's, for all its name")
    os.chmod(one, 0o750)
    sok.dump("./one/", [model.one, model.two], session=model.session)  # other tables: those before are gone
    assert os.stat(one).st_ino != inode and os.stat(one).st_mode & 0o777 == 0o750
    assert sorted(os.listdir(one)) == ["meta_info", "mine.txt", "models", "models-key", "one_0-key", "one_0-weight",
                                       "two_2_0-key", "two_2_0-weight"]
    os.symlink(one, str(tmp_path / "link"))
    model.dump(str(tmp_path / "link"))
    assert os.path.islink(str(tmp_path / "link")) and os.path.exists(one + "/one_0-Adam-m")
    model.load(str(tmp_path / "link"))
    model.dump(str(tmp_path / "a" / "b" / "c"))
    with pytest.raises(CheckpointError, match="it is a file"):
        model.dump(one + "/mine.txt")
    with pytest.raises(CheckpointError, match="Cannot write"):
        model.dump(one + "/mine.txt/below")
    assert sorted(os.listdir(str(tmp_path))) == ["a", "link", "one"]
    assert os.listdir(str(tmp_path / "a" / "b")) == ["c"]
