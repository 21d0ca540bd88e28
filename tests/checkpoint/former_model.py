"""The model of before_names.tar.gz: two layers with names, one of them in a table that grows, and one without.

The checkpoints in there were written by this file, run as a program, with sok1x at a058169, whose tables had no layer's
name in theirs: `whole/model.ckpt-3` by sok.CheckpointManager, `alone/model.ckpt` by tf.train.Saver on one rank; and the
keys and rows in them, and after one more step, `expected.json`, by sok.export.
"""
import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

# No new keys in the last: how their rows begin depends on the process's seed.
BATCHES = [np.array([[1, 5], [-3, 5], [9, 2]], np.int64) + step for step in (0, 1, 0)]


class Model:
    """Looks the same keys up in three tables and trains them; made in the default graph."""

    def __init__(self):
        self.keys = tf.placeholder(tf.int64, [None, 2])
        self.layers = [
            sok.All2AllDenseEmbedding(40, 2, 2, 1, name="ads"),
            sok.All2AllDenseEmbedding(None, 2, 2, 1, name="users/of", init_capacity=8),
            sok.All2AllDenseEmbedding(40, 2, 2, 1, use_hashtable=True)]
        outputs = [layer(self.keys[..., tf.newaxis], training=True) for layer in self.layers]
        loss = tf.add_n([tf.reduce_sum(output ** 2) for output in outputs])
        with tf.variable_scope("train"):
            self.step = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        self.tables = [layer.embedding_variable for layer in self.layers]
        self.exports = [sok.export(table) for table in self.tables]

    def train(self, session, batches):
        for keys in batches:
            session.run(self.step, {self.keys: keys})

    def rows(self, session):
        """{table's place: {key: row}}, as JSON has it."""
        return {str(place): {str(key): row for key, row in zip(keys.tolist(), values.tolist())}
                for place, (keys, values) in enumerate(session.run(self.exports))}


def main(folder):
    with tf.Graph().as_default(), tf.Session() as session:
        init, model = sok.Init(global_batch_size=3), Model()
        manager, saver = sok.CheckpointManager(os.path.join(folder, "whole")), tf.train.Saver()
        session.run(init)
        session.run(tf.global_variables_initializer())
        model.train(session, BATCHES[:2])
        manager.save(session, 3)
        saver.save(session, os.path.join(folder, "alone", "model.ckpt"), write_meta_graph=False, write_state=False)
        expected = {"saved": model.rows(session)}
        model.train(session, BATCHES[2:])
        expected["next"] = model.rows(session)
        with open(os.path.join(folder, "expected.json"), "w") as file:
            json.dump(expected, file)


if __name__ == "__main__":
    main(sys.argv[1])
