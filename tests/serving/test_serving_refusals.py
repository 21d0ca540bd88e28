"""What an export cannot have is refused, with words, before it writes; and whoever saves our ops is warned."""
import os

import numpy as np
import pytest
import tensorflow as tf

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, NoSpaceError, WriteError
from sok1x.serving import __main__ as command

v1 = tf.compat.v1


def layer(**options):
    return sok.All2AllDenseEmbedding(**dict(dict(max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1,
                                                 nnz_per_slot=1), **options))


class Trained:
    """A graph with a table, saved; `by_row` is one whose rows begin with a matrix."""

    def __init__(self, folder):
        self.folder, self.saved = folder, os.path.join(folder, "saved")
        with tf.Graph().as_default() as self.graph, v1.Session() as self.session:
            self.keys = v1.placeholder(tf.int64, [None, 1, 1], "keys")
            self.rate = v1.placeholder(tf.float32, [], "rate")
            table, by_row = layer(), layer(embedding_initializer=tf.keras.initializers.Orthogonal())
            self.vectors = table(self.keys, training=True)
            self.of_matrix = by_row(self.keys, training=True)
            self.table = table.embedding_variable
            self.dense = v1.get_variable("dense", [4], initializer=v1.ones_initializer())
            self.later = v1.get_variable("later", [4])
            self.gradient, = tf.gradients(self.vectors * self.dense, self.dense)
            self.slices = tf.gradients(self.vectors, self.table)[0].values
            self.session.run(sok.Init(global_batch_size=1))
            self.session.run(v1.global_variables_initializer())
            self.session.run([self.vectors, self.of_matrix], {self.keys: [[[7]], [[-1]]]})
            v1.train.Saver([one for one in v1.global_variables() if one is not self.later]).save(
                self.session, self.saved, write_meta_graph=False)

    def export(self, output, **options):
        return sok.serving.export_saved_model(os.path.join(self.folder, "model"), self.saved, **dict(
            dict(inputs={"keys": self.keys}, outputs={"out": output}), **options))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return Trained(str(tmp_path_factory.mktemp("trained")))


def test_outputs_that_need_more(trained):
    with trained.graph.as_default():
        cases = [
            (trained.slices, ValueError, "runs operations.dense_lookup.backward: a served model can look up"),
            (trained.vectors * trained.rate, ValueError, "need the placeholder 'rate'.*constants={'rate:0': value}"),
            (tf.reduce_sum(trained.table), ValueError, "read variable 'EmbeddingVariable' of table 'Embedding"),
            (trained.vectors + trained.later, CheckpointError, "has no variable 'later', which the outputs need"),
            (trained.of_matrix, ValueError, "rows of table 'EmbeddingVariable_1' begin with those of a matrix"),
        ]
    for output, error, words in cases:
        with pytest.raises(error, match=words):
            trained.export(output)
    with pytest.raises(CheckpointError, match="no table|There is no"):
        trained.export(trained.vectors, step=3)
    for options, error, words in (
            (dict(storage="int8"), ValueError, "storage: got 'int8', expected 'float32' or 'float16'"),
            (dict(index="tree"), ValueError, "index: got 'tree', expected 'table' or 'search'"),
            (dict(unseen=[1.0, 2.0]), ValueError, r"of shape \[2\], expected a number or \[4\]"),
            (dict(outputs=None), ValueError, "got inputs alone, expected inputs and outputs"),
            (dict(model=lambda: None), ValueError, "got both a model, and inputs or outputs"),
            (dict(tables=["EmbeddingVariable"]), ValueError, "got tables beside a model, expected one of them"),
            (dict(model=lambda: 3, inputs=None, outputs=None, tables=["t"]), ValueError, "got tables beside a model"),
            (dict(tables="t", inputs=None, outputs=None), ValueError, "tables: got 't', expected a list of names"),
            (dict(tables=[], inputs=None, outputs=None), ValueError, r"tables: got \[\], expected a list of names"),
            (dict(model=3, inputs=None, outputs=None), TypeError, "expected a function"),
            (dict(model=lambda: 3, inputs=None, outputs=None), TypeError, r"expected \(inputs, outputs\)")):
        with pytest.raises(error, match=words):
            trained.export(trained.vectors, **options)
    assert not [name for name in os.listdir(trained.folder) if "model" in name]


def vocabulary(kind):
    """A lookup table of the model's own, words to ids, that whoever trains fills."""
    if kind == "dense":
        made = v1.raw_ops.MutableDenseHashTableV2(empty_key=tf.constant("", tf.string),
                                                  deleted_key=tf.constant("-", tf.string), value_dtype=tf.int64)
    else:
        made = v1.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    return made, v1.raw_ops.LookupTableInsertV2(table_handle=made, keys=tf.constant(["a", "b"]),
                                                values=tf.constant([5, 6], tf.int64))


@pytest.mark.parametrize("kind", ["plain", "dense"])
def test_a_lookup_table_that_nothing_fills(kind, tmp_path):
    """It would be empty where it is served; one that is filled when the model is loaded is not."""
    with tf.Graph().as_default(), v1.Session() as session:
        words = v1.placeholder(tf.string, [None], "words")
        table, filled = vocabulary(kind)
        ids = v1.raw_ops.LookupTableFindV2(table_handle=table, keys=words, default_value=tf.constant(-1, tf.int64))
        rows = sok.all2all_dense_embedding(sok.DynamicVariable(2, "3", name="d"), ids)
        session.run(v1.global_variables_initializer())
        sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
        outputs = {"ids": tf.identity(ids), "rows": rows}

        def export(number, inputs):
            return sok.serving.export_saved_model(str(tmp_path / number), str(tmp_path / "saved"), inputs=inputs,
                                                  outputs=outputs)

        with pytest.raises(ValueError, match="need the lookup table '{}', which nothing fills".format(table.op.name)):
            export("1", {"words": words})
        assert not (tmp_path / "1").exists()
        export("2", {"ids": ids})
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, filled)
        path = export("3", {"words": words})
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        fed = {found.inputs["words"].name: ["b", "c", "a"]}
        assert session.run(found.outputs["ids"].name, fed).tolist() == [6, -1, 5]


def test_what_may_be_chosen(trained, tmp_path):
    """Constants, a row for unseen keys where none is known, a gradient that is none of a table; and the command."""
    with trained.graph.as_default():
        outputs = {"scaled": trained.of_matrix * trained.rate, "of_dense": trained.gradient}
    path = str(tmp_path / "1")
    sok.serving.export_saved_model(path, trained.saved, inputs={"keys": trained.keys}, outputs=outputs,
                                   constants={trained.rate: 2.0}, unseen={"EmbeddingVariable_1": [1, 2, 3, 4]})
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        scaled, of_dense = session.run([found.outputs["scaled"].name, found.outputs["of_dense"].name],
                                       {found.inputs["keys"].name: [[[8]], [[7]]]})
    np.testing.assert_array_equal(scaled[0, 0, 0], [2, 4, 6, 8])
    assert scaled.shape == (2, 1, 1, 4) and of_dense.shape == (4,)
    with pytest.raises(CheckpointError, match="it is there already"):
        sok.serving.export_saved_model(path, trained.saved, inputs={}, outputs={})


@pytest.mark.parametrize("key_type, fits, beyond", [
    ("int32", [7, -2 ** 31], 2 ** 31), ("uint32", [7, 2 ** 32 - 1], -1)])
def test_a_key_beyond_its_tables_type(key_type, fits, beyond, tmp_path):
    path, saved = str(tmp_path / "1"), str(tmp_path / "saved")
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.placeholder(tf.int64, [None], "ids")
        table = sok.DynamicVariable(2, "0", key_type=key_type, name="narrow")
        bags = tf.RaggedTensor.from_row_lengths(ids, tf.ones_like(ids))
        outputs = {"rows": sok.all2all_dense_embedding(table, ids), "sums": sok.lookup_sparse(table, bags)}
        assigned = sok.assign(table, fits, [[1.0, 2.0], [3.0, 4.0]])
        session.run(v1.global_variables_initializer())
        session.run(assigned)
        v1.train.Saver().save(session, saved, write_meta_graph=False)
        sok.serving.export_saved_model(path, saved, inputs={"ids": ids}, outputs=outputs, unseen=0.0)
    with tf.Graph().as_default(), v1.Session() as session:
        served = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        for name in outputs:
            def run(given, name=name):
                return session.run(served.outputs[name].name, {served.inputs["ids"].name: given})
            assert run(fits + [1]).tolist() == [[1, 2], [3, 4], [0, 0]]
            with pytest.raises(tf.errors.InvalidArgumentError, match="'narrow.*{}.*{}".format(key_type, beyond)):
                run([7, beyond])


def test_a_place_that_cannot_be_written_is_said_and_left_as_it_was(trained, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    arguments = {"inputs": {"keys": trained.keys}, "outputs": {"vectors": trained.vectors}}
    for to in (str(tmp_path / "file" / "model"), "/proc/model"):
        with pytest.raises(WriteError, match="Cannot write {}".format(to)):
            sok.serving.export_saved_model(to, trained.saved, **arguments)

    def full(self, as_text=False):
        raise tf.errors.ResourceExhaustedError(None, None, "saved_model.pb; No space left on device")

    monkeypatch.setattr(type(v1.saved_model.Builder(str(tmp_path / "other"))), "save", full)
    with pytest.raises(NoSpaceError, match="No space left to write {}".format(tmp_path / "model")):
        sok.serving.export_saved_model(str(tmp_path / "model"), trained.saved, **arguments)
    assert sorted(os.listdir(str(tmp_path))) == ["file", "other"]


def test_the_command_says_what_is_wrong(trained, tmp_path, capsys):
    to = str(tmp_path / "model")
    for arguments, words in (
            (["export", str(tmp_path / "nothing"), "--to", to], "There is no folder"),
            (["export", trained.saved, "--to", to], "does not say how rows of table 'EmbeddingVariable' begin"),
            (["export", trained.saved, "--to", to, "--input", "keys", "--output", "a=b"], "expected NAME=VALUE"),
            (["export", trained.saved, "--to", to, "--output", "a=b"], "has no graph (a .meta file)"),
            (["export", trained.saved, "--to", to, "--input", "keys=keys"], "got --input without --output"),
            (["export", trained.saved, "--to", to, "--input", "a=b", "--output", "a=b", "--table", "t"],
             "got --table beside --input and --output"),
            (["export", trained.saved, "--to", to, "--tables_alone", "--constant", "a=1"],
             "got --tables_alone beside --constant"),
            (["export", trained.saved, "--to", to, "--constant", "a=abc"],
             "--constant a: got 'abc', expected a number, true or false"),
            (["update", str(tmp_path), "--to", to], "is no SavedModel that sok1x.serving has exported"),
            (["update", str(tmp_path), "--to", to, "--changes", "t=none.npz"], "Cannot read keys and values")):
        assert command.main(arguments) == 1
        assert words in capsys.readouterr().err
    assert not os.listdir(str(tmp_path))


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "an array", "a header"])
def test_an_update_with_a_damaged_file_is_an_error_in_words(tmp_path, capsys, damage):
    path = str(tmp_path / "gone.npz")
    np.savez(path, keys=np.array([9]))
    with open(path, "rb") as file:
        whole = file.read()
    flipped = whole.replace(np.array([9]).tobytes(), np.array([8]).tobytes())
    with open(path, "wb") as file:
        file.write({"cut": whole[:len(whole) // 2], "empty": b"", "flipped": flipped, "a header": whole[:4]}.get(
            damage, b""))
        if damage == "an array":
            np.save(file, np.array([9]))
    assert command.main(["update", str(tmp_path), "--to", str(tmp_path / "to"), "--evicted", "t=" + path]) == 1
    assert "Cannot read keys from " + path in capsys.readouterr().err


def test_a_saved_model_with_our_ops_is_warned_of(tmp_path, caplog):
    v1.logging.set_verbosity(v1.logging.WARN)
    with tf.Graph().as_default(), v1.Session() as session:
        keys = v1.placeholder(tf.int64, [None, 1, 1])
        vectors = layer()(keys, training=True)
        session.run(sok.Init(global_batch_size=1))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "ours"), {"keys": keys}, {"vectors": vectors})
    words = [record.getMessage() for record in caplog.records if "has ops of sok1x" in record.getMessage()]
    assert len(words) == 1 and "sok1x.serving.export_saved_model" in words[0] and str(tmp_path / "ours") in words[0]
    caplog.clear()
    with tf.Graph().as_default(), v1.Session() as session:
        keys = v1.placeholder(tf.int64, [None, 1, 1])
        v1.saved_model.simple_save(session, str(tmp_path / "stock"), {"keys": keys}, {"keys": keys + 1})
    assert not [record for record in caplog.records if "sok1x" in record.getMessage()]


def test_a_frozen_graph_has_no_tables(trained):
    """With outputs that need none it is as ever, and tables may stay variables."""
    freeze = v1.graph_util.convert_variables_to_constants
    with trained.graph.as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        of_dense = trained.dense * 2.0
        both = [of_dense.op.name, tf.identity(trained.of_matrix).op.name]
        definition = trained.graph.as_graph_def()
        tables = [variable.op.name for variable in v1.global_variables() if variable.op.name.startswith("Embedding")]
        for outputs in ([trained.vectors.op.name], both):
            with pytest.raises(ValueError, match="of sok1x, which reads 'EmbeddingVariable.*export_saved_model"):
                freeze(session, definition, outputs)
        with pytest.raises(ValueError, match="of sok1x, which reads 'EmbeddingVariable"):
            v1.lite.TFLiteConverter.from_session(session, [trained.keys], [trained.vectors]).convert()
        dense = freeze(session, definition, both[:1])
        left = freeze(session, definition, both, variable_names_blacklist=tables)
    assert "VarHandleOp" in {node.op for node in left.node}
    with tf.Graph().as_default(), v1.Session() as alone:
        found, = tf.import_graph_def(dense, return_elements=[of_dense.name])
        assert alone.run(found).tolist() == [2.0] * 4


@pytest.mark.parametrize("nested", [False, True])
def test_a_frozen_graph_has_no_tables_in_branches_and_loops(nested):
    """There a lookup gets them by way of Switch and Enter."""
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.DynamicVariable(dimension=2, initializer="3", name="d")
        flag = v1.placeholder_with_default(True, [])

        def rows():
            return sok.all2all_dense_embedding(table, tf.constant([1], tf.int64))

        def branch():
            return tf.cond(flag, rows, lambda: tf.zeros([1, 2]))

        _, looped = tf.while_loop(lambda step, _: step < 2, lambda step, sums: (
            step + 1, sums + (branch() if nested else rows())), [0, tf.zeros([1, 2])])
        outputs = [looped] if nested else [looped, branch()]
        session.run(v1.global_variables_initializer())
        for output in outputs:
            name, definition = tf.identity(output).op.name, session.graph.as_graph_def()
            with pytest.raises(ValueError, match="of sok1x, which reads 'd.*export_saved_model"):
                v1.graph_util.convert_variables_to_constants(session, definition, [name])
