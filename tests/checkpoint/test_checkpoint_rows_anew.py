"""A restore into a session in use: what the checkpoint does not say is as in a new session, rows of no key too."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint import CheckpointError

KINDS = {"filled": dict(embedding_initializer=tf.keras.initializers.Constant(0.5)), "without_index": dict(
    use_hashtable=False)}


class Model:
    """A layer's table with its optimizer's slot, in a graph of its own."""

    def __init__(self, rows, kind, folder):
        with tf.Graph().as_default() as graph:
            layer = sok.All2AllDenseEmbedding(rows, 2, 1, 1, **KINDS[kind])
            self.keys = tf.placeholder(tf.int64, [None])
            vectors = layer(tf.reshape(self.keys, [-1, 1, 1]), training=True)
            self.optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
            self.table = layer.embedding_variable
            gradient, = tf.gradients(tf.reduce_sum(vectors ** 2), [self.table])
            self.step = self.optimizer.apply_gradients([(gradient, self.table)])
            self.evaluated = layer(tf.reshape(self.keys, [-1, 1, 1]), training=False)
            self.manager = sok.CheckpointManager(folder)
            self.init = tf.global_variables_initializer()
            self.state = {variable.op.name: variable for variable in tf.global_variables()}
            graph.finalize()
        self.session = tf.Session(graph=graph)
        self.session.run(self.init)

    def train(self, *keys):
        self.session.run(self.step, {self.keys: keys})

    def expect_as(self, other):
        found, expected = self.session.run(self.state), other.session.run(other.state)
        assert found.keys() == expected.keys()
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name], name)


@pytest.mark.parametrize("rows", [4, 16], ids=["other_rows", "same_rows"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rows_that_the_checkpoint_does_not_have_begin_anew(tmp_path, kind, rows):
    sok.init()
    folder = str(tmp_path)
    saved = Model(rows, kind, folder)
    saved.train(1, 2)
    saved.manager.save(saved.session, 1)
    fresh, used = Model(16, kind, folder), Model(16, kind, folder)
    fresh.manager.restore(fresh.session)
    for _ in range(3):
        used.train(*range(12))
    used.manager.restore(used.session)
    used.expect_as(fresh)
    used.manager.restore(used.session)
    used.expect_as(fresh)


def test_a_load_leaves_no_row_to_the_keys_to_come(tmp_path, monkeypatch):
    sok.init()
    folder = str(tmp_path / "dump")
    model = Model(16, "filled", str(tmp_path / "saved"))
    model.train(1, 2)
    before = model.session.run(model.evaluated, {model.keys: [1, 2]})
    sok.dump(folder, model.table, model.optimizer, model.session)
    for _ in range(3):
        model.train(*range(12))
    sok.load(folder, model.table, model.optimizer, model.session)
    np.testing.assert_array_equal(model.session.run(model.evaluated, {model.keys: [1, 2]}), before)
    np.testing.assert_array_equal(model.session.run(model.table)[2:], np.full([14, 2], 0.5))
    assert (model.session.run(model.evaluated, {model.keys: [99]}) == 0.5).all()
    # The table is empty after a fault of the disk half-way.
    for _ in range(3):
        model.train(*range(12))

    def fail(self, part, first, n):
        if part == "rows":
            raise CheckpointError("the disk has failed")
        return read(self, part, first, n)

    read = sok.dump_load.table_files.OpenFiles.read
    monkeypatch.setattr(sok.dump_load.table_files.OpenFiles, "read", fail)
    with pytest.raises(CheckpointError, match="disk has failed"):
        sok.load(folder, model.table, model.optimizer, model.session)
    np.testing.assert_array_equal(model.session.run(model.table), np.full([16, 2], 0.5))
