"""sok.Saver on one rank: the files' bytes, what a restore leaves in a table, what is refused without any change."""
import errno
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session

import sok1x as sok
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.transfer import distinct_keys, keyed_files, sok_dump, sok_files, sok_values

v1 = tf
V, D = 40, 3
ODD = {"int64": [-2 ** 63, 2 ** 63 - 1, 0, -1, 7], "uint32": [0, 2 ** 32 - 1, 2 ** 31, 5, 1],
       "int32": [-2 ** 31, 2 ** 31 - 1, 0, -1, 7]}


class Model:
    """A table with a lookup that inserts and one that does not, and all of a Saver's ops, in a finalized graph."""

    def __init__(self, folder, key_dtype="int64", tensors=None, **options):
        self.folder = str(folder)
        with tf.Graph().as_default() as made:
            self.table = sok.EmbeddingVariable(**dict(dict(rows=V, dim=D, key_dtype=key_dtype, initializer="normal"),
                                                      **options))
            self.keys = v1.placeholder(key_dtype, [None])
            self.train = embedding.lookup_dense(self.table.table_variables, self.keys, True)
            self.read = embedding.lookup_dense(self.table.table_variables, self.keys, False)
            saver = sok.Saver()
            self.dump = saver.dump_to_file(self.table, self.folder)
            self.restore = saver.restore_from_file(self.table, self.folder)
            self.load = None if tensors is None else saver.load_embedding_values(self.table, tensors)
            self.state = [self.table] + self.table.index
            init, variables = sok.Init(global_batch_size=1), v1.global_variables_initializer()
            made.finalize()
            self.session = v1.Session()
            self.session.run(init)
            self.session.run(variables)

    def insert(self, keys):
        return self.session.run(self.train, {self.keys: keys})

    def rows(self, keys):
        return self.session.run(self.read, {self.keys: keys})

    def run(self, op):
        assert self.session.run(op) == b"OK"

    def used(self):
        return self.session.run(self.table.index[1])

    def refused(self, op, error, message):
        before = self.session.run(self.state)
        with pytest.raises(error, match=message):
            self.session.run(op)
        for one, two in zip(self.session.run(self.state), before):
            np.testing.assert_array_equal(one, two)


def write(folder, keys, values, dtype="<i8", name="EmbeddingVariable"):
    np.asarray(keys).astype(dtype).tofile(os.path.join(str(folder), name + "_keys.file"))
    np.asarray(values).astype("<f4").tofile(os.path.join(str(folder), name + "_values.file"))


def content(folder, dtype="<i8"):
    name = os.path.join(str(folder), "EmbeddingVariable_{}.file")
    return np.fromfile(name.format("keys"), dtype), np.fromfile(name.format("values"), "<f4").reshape(-1, D)


@pytest.fixture
def small_buffers(monkeypatch):
    """Everything takes several rounds."""
    monkeypatch.setattr(sok_dump, "_BUFFER_BYTES", 5 * 4 * D)
    monkeypatch.setattr(keyed_files, "BUFFER_BYTES", 5 * 4 * D)
    monkeypatch.setattr(keyed_files, "KEYS_AT_ONCE", 7)
    monkeypatch.setattr(distinct_keys, "_COMPARED_AT_ONCE", 3)
    monkeypatch.setattr(sok_values, "_ROWS_AT_ONCE", 4)


@pytest.mark.parametrize("key_dtype", ["int64", "uint32", "int32"])
def test_files_hold_exactly_the_keys_in_row_order(tmp_path, small_buffers, key_dtype):
    model = Model(tmp_path / "made" / "on the way", key_dtype)
    model.run(model.dump)
    dtype = "<u4" if key_dtype == "uint32" else "<i8"
    assert [len(part) for part in content(model.folder, dtype)] == [0, 0]
    vectors = model.insert(ODD[key_dtype])
    model.rows([3, 4])
    model.run(model.dump)
    keys, values = content(model.folder, dtype)
    np.testing.assert_array_equal(keys, ODD[key_dtype])
    np.testing.assert_array_equal(values, vectors)
    assert len(os.listdir(model.folder)) == 2
    again = Model(model.folder, key_dtype)
    again.insert([11, 5, 12])
    for _ in range(2):
        again.run(again.restore)
        assert again.used() == 5
        for one, two in zip(again.session.run(again.state), model.session.run(model.state)):
            np.testing.assert_array_equal(one[:5] if one.shape == (V, D) else one,
                                          two[:5] if two.shape == (V, D) else two)
    np.testing.assert_array_equal(again.rows(ODD[key_dtype] + [11, 12]), model.rows(ODD[key_dtype] + [11, 12]))


@pytest.mark.parametrize("written, read", [("int64", "uint32"), ("uint32", "int64"), ("uint32", "int32"),
                                           ("int32", "uint32"), ("int32", "int64")])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_width_of_keys_follows_from_the_files(tmp_path, written, read, count):
    keys = [2 ** 31 - 1, 0, 5, 3, 1, 2, 7][:count]
    model, other = Model(tmp_path, written), Model(tmp_path, read)
    vectors = model.insert(keys)
    model.run(model.dump)
    other.run(other.restore)
    assert other.used() == count
    np.testing.assert_array_equal(other.rows(keys), vectors)


def test_keys_of_four_bytes_are_unsigned(tmp_path):
    write(tmp_path, [2 ** 32 - 1, 2 ** 31], np.arange(6), "<u4")
    model = Model(tmp_path)
    model.run(model.restore)
    np.testing.assert_array_equal(model.rows([2 ** 31, 2 ** 32 - 1]), [[3, 4, 5], [0, 1, 2]])
    small = Model(tmp_path, "int32")
    small.refused(small.restore, tf.errors.InvalidArgumentError,
                  r"'EmbeddingVariable' on rank 0: got key 4294967295 at place 0 .*\[-2147483648, 2147483648\)")


@pytest.mark.parametrize("key_dtype", ["int64", "uint32"])
def test_without_a_hash_table_in_key_order(tmp_path, small_buffers, key_dtype):
    model = Model(tmp_path, key_dtype, use_hashtable=False)
    model.run(model.dump)
    keys, values = content(tmp_path, "<u4" if key_dtype == "uint32" else "<i8")
    np.testing.assert_array_equal(keys, np.arange(V))
    np.testing.assert_array_equal(values, model.session.run(model.table))
    order = np.random.RandomState(0).permutation(V)[:25]
    write(tmp_path, order, -values[order])
    model.run(model.restore)
    values[order] *= -1
    np.testing.assert_array_equal(model.session.run(model.table), values)
    for wrong in -1, V:
        write(tmp_path, [3, wrong], np.ones(6))
        model.refused(model.restore, tf.errors.InvalidArgumentError,
                      r"got key {} at place 1 of .*, expected keys in \[0, 40\).*use_hashtable=False".format(wrong))


def test_a_layer_that_computes_in_float16_has_float32_rows(tmp_path):
    with graph():
        dense_layer()
        second = dense_layer(dtype="float16", embedding_initializer="normal")
        vectors = second(tf.constant([[[5, 6, 7], [8, 9, 9]]], tf.int64))
        with tf.control_dependencies([vectors]):
            dumped = sok.Saver().dump_to_file(second.embedding_variable, str(tmp_path))
        with tf.control_dependencies([dumped]):
            after = tf.constant(1)
        with session() as run:
            got, one, rows = run.run([vectors, after, second.embedding_variable])
            assert one == 1 and run.run(dumped) == b"OK"
            rows = run.run(second.embedding_variable)
    assert sorted(os.listdir(str(tmp_path))) == ["EmbeddingVariable_1_keys.file", "EmbeddingVariable_1_values.file"]
    values = np.fromfile(str(tmp_path / "EmbeddingVariable_1_values.file"), "<f4").reshape(-1, 4)
    np.testing.assert_array_equal(values, rows[:5])
    np.testing.assert_array_equal(got.reshape(6, 4), values.astype(np.float16)[[0, 1, 2, 3, 4, 4]])


@pytest.mark.parametrize("hashtable", [True, False])
def test_load_embedding_values(tmp_path, small_buffers, hashtable):
    whole = np.arange(13 * D, dtype=np.float32).reshape(13, D)
    for tensors in (whole, [whole], [whole[:5].astype(np.int32), whole[5:5], whole[5:].astype(np.float64)]):
        model = Model(tmp_path, tensors=tensors, use_hashtable=hashtable)
        model.insert([20, 3])
        before = model.rows(np.arange(V))
        model.run(model.load)
        np.testing.assert_array_equal(model.rows(np.arange(13)), whole)
        np.testing.assert_array_equal(model.rows(np.arange(13, V)), before[13:])
        if hashtable:
            assert model.used() == 13
            model.run(model.dump)
            np.testing.assert_array_equal(content(tmp_path)[0], np.arange(13))
    too_many = Model(tmp_path, tensors=[np.ones([V, D]), np.ones([1, D])], use_hashtable=hashtable)
    too_many.refused(too_many.load, tf.errors.InvalidArgumentError, "got 41 rows of values, expected at most 40")


def test_restored_rows_count_as_changed(tmp_path):
    model = Model(tmp_path, tensors=np.ones([2, D]))
    for op in model.restore, model.load:
        write(tmp_path, [5, 6], np.zeros(6))
        before = model.session.run(model.table.steps)
        model.run(op)
        assert (model.session.run(model.table.stamps)[:2] > before).all()


def test_what_the_files_may_not_be(tmp_path):
    model, invalid = Model(tmp_path), tf.errors.InvalidArgumentError
    model.insert([1, 2, 3])
    missing = "'EmbeddingVariable' on rank 0: '.*EmbeddingVariable_keys.file': No such file"
    model.refused(model.restore, tf.errors.NotFoundError, missing)
    rows = np.ones([4, D], np.float32)
    for keys, values, dtype in ((range(4), rows[:3], "<i8"), (range(4), rows.ravel()[:-1], "<i8"),
                                (range(4), rows, "<i2"), (range(3), rows, "<i8"), (range(1), rows[:0], "<i8"),
                                ([], rows, "<i8")):
        write(tmp_path, keys, values, dtype)
        model.refused(model.restore, invalid, r"got '.*_values.file' of {} bytes and '.*_keys.file' of {} bytes, "
                      r"expected 4 x 3 bytes".format(values.nbytes, len(keys) * np.dtype(dtype).itemsize))
    write(tmp_path, [7, 8, 9, 8], rows)
    model.refused(model.restore, invalid, "got key 8 twice in '.*_keys.file' of 4 keys of 8 bytes")
    write(tmp_path, range(V + 1), np.ones([V + 1, D]))
    model.refused(model.restore, tf.errors.ResourceExhaustedError, "got 41 rows to load, expected at most 40 ")
    # Half as many floats a row: 8-byte keys look like two of 4 bytes.
    write(tmp_path, [7, 8, 9], np.ones([3, 2 * D]))
    model.refused(model.restore, invalid, "got key 0 twice .*another embedding_vec_size")
    for wrong in -1, 2 ** 32:
        write(tmp_path, [0, wrong], rows[:2])
        small = Model(tmp_path, "uint32")
        small.refused(small.restore, invalid, r"got key {} at place 1 of .* in \[0, 4294967296\) \(key_dtype "
                                              r"uint32\)".format(wrong))


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_dump_that_fails_leaves_the_old_files(tmp_path, monkeypatch, calls):
    """When the disk is full, and when a file cannot get its name."""
    model = Model(tmp_path)
    model.insert([1, 2, 3])
    model.run(model.dump)
    before = [part.tolist() for part in content(tmp_path)]
    model.insert([4, 5, 6])
    for name, message in (("rename", "Permission denied"),
                          ("pwrite", "No space left on device: [0-9]+ bytes were to be written, [0-9]+ are free")):
        if (name, calls) in (("pwrite", 3), ("pwrite", 4)):  # it takes two
            continue
        real, left = getattr(os, name), [calls]

        def failing(*arguments, name=name, real=real, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.ENOSPC if name == "pwrite" else errno.EACCES, os.strerror(
                    errno.ENOSPC if name == "pwrite" else errno.EACCES))
            return real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(os, name, failing)
            model.refused(model.dump, (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError),
                          "'EmbeddingVariable' on rank 0: '.*EmbeddingVariable_.*file.*': " + message)
        assert [part.tolist() for part in content(tmp_path)] == before
        assert len(os.listdir(str(tmp_path))) == 2
    model.run(model.dump)
    assert len(content(tmp_path)[0]) == 6


@pytest.mark.parametrize("number, kind", [(errno.EMFILE, tf.errors.ResourceExhaustedError),
                                          (errno.EEXIST, tf.errors.FailedPreconditionError)])
def test_what_the_system_refuses_has_its_class(number, kind):
    with pytest.raises(sok_files.CallError, match="^label: 'path': " + os.strerror(number)) as caught:
        with sok_files.errors("label", "path"):
            raise OSError(number, os.strerror(number))
    assert tf.errors.exception_type_from_error_code(caught.value.code) is kind


def test_before_the_variables_are_initialized(tmp_path):
    with graph():
        table = sok.EmbeddingVariable(rows=V, dim=D)
        saver = sok.Saver()
        ops = [saver.dump_to_file(table, str(tmp_path)), saver.restore_from_file(table, str(tmp_path)),
               saver.load_embedding_values(table, np.ones([1, D]))]
        with session(initialize=False) as run:
            for op in ops:
                with pytest.raises(tf.errors.FailedPreconditionError, match="'EmbeddingVariable' have not been init"):
                    run.run(op)
    assert os.listdir(str(tmp_path)) == []


def test_arguments():
    with graph():
        table, saver = sok.EmbeddingVariable(rows=V, dim=D), sok.Saver()
        for method, other in ((saver.dump_to_file, "x"), (saver.restore_from_file, "x"),
                              (saver.load_embedding_values, np.ones([2, D]))):
            for wrong in (None, "EmbeddingVariable", tf.Variable([1.0], use_resource=True)):
                with pytest.raises(TypeError, match="embedding_variable: got .* expected an EmbeddingVariable"):
                    method(wrong, other)
        for method in saver.dump_to_file, saver.restore_from_file:
            for wrong in (None, 5, b"folder", tf.constant("folder")):
                with pytest.raises(TypeError, match="filepath: got .* expected a folder's path as a str"):
                    method(table, wrong)
            with pytest.raises(ValueError, match="filepath: got an empty str"):
                method(table, "")
            with pytest.raises(ValueError, match="filepath: got 'hdfs://host/folder', expected a folder's path and no"):
                method(table, "hdfs://host/folder")
        with pytest.raises(TypeError, match="position 1 a tensor of string, expected numbers"):
            saver.load_embedding_values(table, [np.ones([2, D]), ["a"]])
        for wrong in np.ones([2, D + 1]), np.ones([D]), np.ones([2, D, 1]):
            with pytest.raises(ValueError, match=r"position 0 .*expected \[rows, 3\] for table 'EmbeddingVariable'"):
                saver.load_embedding_values(table, wrong)
        with pytest.raises(ValueError, match="empty list"):
            saver.load_embedding_values(table, [])
        unknown = v1.placeholder(tf.float32)
        load = saver.load_embedding_values(table, unknown)
        with session() as run, pytest.raises(tf.errors.InvalidArgumentError, match=r"got values of shape \[2, 4\]"):
            run.run(load, {unknown: np.ones([2, D + 1])})


def test_a_file_url_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "file://{}/files".format(tmp_path)
    with graph(), session() as run:
        table, saver = sok.EmbeddingVariable(rows=V, dim=D, initializer="ones"), sok.Saver()
        dumped, restored = saver.dump_to_file(table, url), saver.restore_from_file(table, url)
        run.run(v1.global_variables_initializer())
        assert run.run(dumped) == b"OK" and os.listdir(str(tmp_path)) == ["files"]
        assert run.run(restored) == b"OK"


def test_dotted_path():
    from sok1x.saver import Saver
    assert Saver is sok.Saver is sok.saver.Saver
