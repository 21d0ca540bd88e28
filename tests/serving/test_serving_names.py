"""Names and numbers of an export that nothing has, or that two things have: refused, in Python and by the command."""
import numpy as np
import pytest
import tensorflow as tf

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError
from sok1x.serving import __main__ as command

v1 = tf.compat.v1


class Saved:
    """A model with placeholders that an evaluation fixes, saved with its graph."""

    def __init__(self, folder):
        self.folder = folder
        with tf.Graph().as_default() as self.graph, v1.Session() as session:
            self.keys = v1.placeholder(tf.int64, [None], name="keys")
            self.times = v1.placeholder(tf.int32, [], name="times")
            self.training = v1.placeholder_with_default(True, [], name="is_training")
            rows = sok.all2all_dense_embedding(sok.DynamicVariable(2, "1", name="items"), self.keys)
            sok.DynamicVariable(2, "1", name="others")
            by = tf.cast(self.times, tf.float32) * tf.where(self.training, 100.0, 1.0)
            self.out = tf.identity(tf.reduce_sum(rows, 1) * by, name="out")
            session.run(v1.global_variables_initializer())
            sok.CheckpointManager(folder + "/saved").save(session, 1)

    def export(self, name, **options):
        return sok.serving.export_saved_model(self.folder + "/" + name, self.folder + "/saved", **dict(
            dict(inputs={"keys": self.keys}, outputs={"out": self.out},
                 constants={self.times: 3, self.training: False}), **options))

    def command(self, name, *options):
        return command.main(["export", self.folder + "/saved", "--to", self.folder + "/" + name, "--input", "keys=keys",
                             "--output", "out=out"] + list(options))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Saved(str(tmp_path_factory.mktemp("saved")))


def served(path, values, output="out"):
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        return session.run(found.outputs[output].name, {found.inputs[name].name: each
                                                        for name, each in values.items()})


def test_an_integer_constant_by_the_command(saved, capsys):
    assert saved.command("integer", "--constant", "times=3", "--constant", "is_training=false") == 0, \
        capsys.readouterr().err
    assert served(saved.folder + "/integer", {"keys": [7, 8]}).tolist() == [6, 6]


def test_constants_that_the_graph_does_not_have(saved, capsys):
    arguments = ["--constant", "times=3", "--constant", "is_trainin=false"]
    assert saved.command("misspelt", *arguments) == 1
    assert "There is no placeholder 'is_trainin' in the graph in" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="no placeholder 'is_trainin'"):
        saved.export("misspelt", inputs={"keys": "keys"}, outputs={"out": "out"},
                     constants={"times": 3, "is_trainin": False})
    path = saved.export("as_tensors", inputs={"keys": "keys"}, outputs={"out": "out"})
    assert served(path, {"keys": [7]}).tolist() == [6]


@pytest.mark.parametrize("alone", [False, True])
def test_unseen_rows_of_a_table_that_is_not_there(saved, alone):
    options = dict(inputs=None, outputs=None, constants=None, tables=["items"]) if alone else {}
    with pytest.raises(ValueError, match="unseen: got table 'item', expected 'items' or 'others'"):
        saved.export("unseen", unseen={"item": 5.0, "others": 0.0}, **options)
    path = saved.export("unseen_{}".format(alone), unseen={"items": 5.0, "others": 0.0}, **options)  # one is not needed
    np.testing.assert_array_equal(served(path, {"keys": [7]}, "rows" if alone else "out"),
                                  [[5, 5]] if alone else [30])


def test_one_tensor_under_two_names(saved, capsys):
    words = "inputs: got tensor 'keys:0' as 'a' and as 'b', expected each tensor once"
    with pytest.raises(ValueError, match=words):
        saved.export("twice", inputs={"a": saved.keys, "b": saved.keys})
    assert saved.command("twice", "--input", "other=keys", "--constant", "times=3") == 1
    assert "got tensor 'keys:0' as 'keys' and as 'other'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="constants: got tensor 'times:0', expected none that is an input"):
        saved.export("both", inputs={"keys": saved.keys, "times": saved.times})


def test_ragged_inputs_may_share_their_row_splits(tmp_path):
    """As keys and their weights do."""
    with tf.Graph().as_default(), v1.Session() as session:
        keys = tf.RaggedTensor.from_row_splits(v1.placeholder(tf.int64, [None]), v1.placeholder(tf.int64, [None]))
        weights = keys.with_values(v1.placeholder(tf.float32, [None]))
        sums = sok.lookup_sparse(sok.DynamicVariable(2, "1", name="items"), keys, weights, "sum")
        session.run(v1.global_variables_initializer())
        sok.CheckpointManager(str(tmp_path / "saved")).save(session, 1)
        path = sok.serving.export_saved_model(str(tmp_path / "1"), str(tmp_path / "saved"), outputs={"sums": sums},
                                              inputs={"keys": keys, "weights": weights})
    splits = [0, 2, 3]
    found = served(path, {"keys_values": [1, 2, 3], "keys_row_splits": splits, "weights_values": [1.0, 2.0, 4.0],
                          "weights_row_splits": splits}, "sums")
    assert found.tolist() == [[3, 3], [4, 4]]
