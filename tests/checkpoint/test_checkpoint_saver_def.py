"""Savers that are made of a SaverDef in a program's own graph: with tables as ever on one rank, else refused."""
import datetime
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError

# Of what has no table nothing is refused.
ON_RANKS = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x import launch

tf.disable_v2_behavior()
sok.init()
layer = sok.All2AllDenseEmbedding(40, 4, 1, 1)
keys = tf.placeholder(tf.int64, [None, 1, 1])
weights = tf.get_variable("weights", [2], initializer=tf.ones_initializer())
train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(layer(keys, training=True) ** 2))
saver = tf.train.Saver.from_proto(tf.train.Saver().to_proto())
dense = tf.train.Saver(saver_def=tf.train.Saver([weights]).to_proto())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {keys: np.arange(20).reshape([-1, 1, 1])})
    for call in (lambda: saver.save(session, sys.argv[1]), lambda: saver.restore(session, sys.argv[1])):
        try:
            call()
        except sok.checkpoint.CheckpointError as error:
            assert "tables on 2 ranks: it is known by its ops alone" in str(error), error
        else:
            raise AssertionError("no error")
    prefix = "{}-{}".format(sys.argv[1], launch.current().rank)
    dense.restore(session, dense.save(session, prefix))
print("ok")
"""


def test_on_several_ranks_tables_are_refused(tmp_path):
    assert run_ranks(2, ON_RANKS, tmp_path / "saved").out.count("ok") == 2


class Model:
    def __init__(self, capacity, **options):
        layer = sok.All2AllDenseEmbedding(capacity, 2, 1, 1, embedding_initializer="ones", **options)
        self.table, self.keys = layer.embedding_variable, tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(layer(tf.reshape(self.keys, [-1, 1, 1]), training=True) ** 2)
        optimizer = tf.train.AdagradOptimizer(0.1)
        self.step = optimizer.minimize(loss)
        self.slot = optimizer.get_slot(self.table, "accumulator") if capacity else None


def test_on_one_rank_as_ever(tmp_path):
    """Dumps by time hear of it, and slots that it does not hold begin anew."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(64)
        saver = tf.train.Saver.from_proto(tf.train.Saver([model.table]).to_proto())
        session.run(tf.global_variables_initializer())
        session.run(model.step, {model.keys: [1, 2]})
        saved = [rows.tolist() for rows in sok.export(model.table, session)]
        prefix = saver.save(session, str(tmp_path / "saved"), 3)
        assert prefix == str(tmp_path / "saved-3")
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(model.step, {model.keys: [100, 101]})
        time.sleep(0.3)
        before = datetime.datetime.utcnow()
        saver.restore(session, prefix)
        assert [rows.tolist() for rows in sok.export(model.table, session)] == saved
        np.testing.assert_allclose(session.run(model.slot), 0.1)
        (keys,), _, _, complete = sok.incremental_model_dump([model.table], before, session, evicted=True)
        assert sorted(keys.tolist()) == [1, 2] and complete == [False]


def test_what_it_does_not_have_is_refused(tmp_path):
    """Rows of a table with a cache, and those in a folder of a whole checkpoint."""
    sok.init()
    prefix = str(tmp_path / "saved")
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(None, max_capacity=640, cache_rows=8)
        whole = tf.train.Saver()
        saver = tf.train.Saver.from_proto(whole.to_proto())
        session.run(tf.global_variables_initializer())
        session.run(model.step, {model.keys: [1, 2]})
        whole.save(session, prefix)
        for call in saver.save, saver.restore:
            with pytest.raises(CheckpointError, match="SaverDef cannot .* tables: all rows of table .* in host memory"):
                call(session, prefix)
    with tf.Graph().as_default(), tf.Session() as session:
        Model(64)
        saver = tf.train.Saver.from_proto(tf.train.Saver().to_proto())
        session.run(tf.global_variables_initializer())
        with pytest.raises(CheckpointError, match="cannot save tables to .*: there is a folder of sok1x's files"):
            saver.save(session, prefix)
        with pytest.raises(CheckpointError, match="cannot restore tables from .*: their rows are in files of sok1x's"):
            saver.restore(session, prefix)
