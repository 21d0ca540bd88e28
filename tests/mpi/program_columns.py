"""Feature columns of every kind, trained beside TensorFlow's own from the same values: the same numbers.

    [mpiexec -np N] python program_columns.py SEED WAY...

WAY: 'layer' (input_layer in a group's scope, twice, the second of some columns and features alone), 'some' (of
four columns), 'keras' (DenseFeatures), 'linear' (linear_model). Each rank has its samples of a batch, the stock side
all of them.
"""
import sys
import tempfile

import columns_model as model
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS, SAMPLES = 20, 22
SOME = ("keys", "weighted", "shared", "shared_too")


def layers(way, side, made, features):
    if way == "keras":
        # TensorFlow's shared columns do not go there: the stock side has two layers.
        shared = [made["shared"], made["shared_too"]]
        rest = [column for column in made.values() if column not in shared]
        first = tf.keras.layers.DenseFeatures(rest)(features)
        return [first, tf.keras.layers.DenseFeatures(shared)(features) if side is model.ours else
                tf.feature_column.input_layer(features, shared)]
    if way == "linear":
        return [tf.feature_column.linear_model(features, list(made.values()), units=2)]
    if way == "some":
        return [tf.feature_column.input_layer(features, [made[name] for name in SOME])]
    some = ("keys", "list", "shared")
    alone = {name: features[name] for name in ("a", "v", "s")}
    return [tf.feature_column.input_layer(features, list(made.values())),
            tf.feature_column.input_layer(alone, [made[name] for name in some])]


class Side:
    """One side's graph: what `run` gives are the layers' outputs, and a step is taken."""

    def __init__(self, way, side, folder, seed, like, optimizer):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.inputs = model.Inputs(like)
            if way == "keras":
                made = model.columns(side, folder, seed)
            else:
                scope = sok.feature_column.group_embedding_column_scope("all") if side is model.ours else \
                    tf.name_scope("all")
                with scope:
                    made = model.columns(side, folder, seed)
            self.outputs = layers(way, side, made, self.inputs.features)
            joined = tf.concat(self.outputs, 1)
            mix = np.random.RandomState(seed).uniform(-1, 1, [int(joined.shape[1])]).astype(np.float32)
            losses = tf.square(tf.reduce_sum(joined * mix, 1) - self.inputs.label)
            self.step = optimizer.minimize(tf.reduce_sum(losses) / SAMPLES)
            initial = [tf.global_variables_initializer(), tf.tables_initializer()]
        self.session = tf.Session(graph=self.graph)
        self.session.run(initial)

    def run(self, found):
        return self.session.run([self.outputs, self.step], self.inputs.feed(found))[0]


def compare(way, seed, folder):
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    cuts = [0] + sorted(np.random.RandomState(seed).randint(0, SAMPLES + 1, ranks - 1)) + [SAMPLES]
    random = np.random.RandomState(seed)
    like = model.batch(random, 2)
    one = tf.train.AdagradOptimizer
    ours = Side(way, model.ours, folder, seed, like, sok.DistributedOptimizer(one(0.3), average=False))
    stock = Side(way, model.stock, folder, seed, like, one(0.3))
    for step in range(STEPS):
        found = model.batch(random, SAMPLES)
        mine = model.part(found, cuts[rank], cuts[rank + 1])
        for got, expected in zip(ours.run(mine), stock.run(found)):
            np.testing.assert_allclose(got, expected[cuts[rank]:cuts[rank + 1]], rtol=2e-4, atol=2e-5,
                                       err_msg="{}, step {}".format(way, step))
    names = [[variable.op.name for variable in side.graph.get_collection("trainable_variables")]
             for side in (ours, stock)]
    if way != "keras":
        assert sorted(names[0]) == sorted(names[1]), names
    barriers = [op for op in ours.graph.get_operations() if op.type == "NoOp" and op.name.startswith("all_ids")]
    assert len(barriers) == {"layer": 2, "some": 1, "keras": 0, "linear": 1}[way]


def main():
    sok.init()
    seed = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for way in sys.argv[2:]:
            compare(way, seed, folder)
    sys.stdout.write("rank {} ok\n".format(sok.communication.rank()))


if __name__ == "__main__":
    main()
