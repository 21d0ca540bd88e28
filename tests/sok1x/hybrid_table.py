"""A table in host memory with a small cache, in one process; and the same one without it."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok


class Small:
    """A table with a cache of 4 rows, all keys of which have been trained once, and its session."""

    def __init__(self, keys=12, optimizer=None, **options):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.table = sok.DynamicVariable(2, "1", name="t", **dict(dict(cache_rows=4), **options))
            self.keys = tf.placeholder(tf.int64, [None])
            self.rows = sok.all2all_dense_embedding(self.table, self.keys)
            self.optimizer = optimizer or tf.train.MomentumOptimizer(1.0, 0.5)
            self.step = self.optimizer.apply_gradients([(tf.gradients(tf.reduce_sum(self.rows), self.table)[0],
                                                         self.table)])
            self.exported = sok.export(self.table)
            self.initial = tf.global_variables_initializer()
            self.session = tf.Session()
        self.session.run(self.initial)
        for key in range(keys):
            self.train(key)

    def train(self, *keys):
        self.session.run(self.step, {self.keys: keys})

    def export(self):
        return {key: row.tolist() for key, row in zip(*self.session.run(self.exported))}

    def number(self, place):
        return int(self.session.run(self.table.forgetting["tiers"])[place])


class Both:
    """A table with a small cache, and the same one all in the variables: what is done with both is the same."""

    def __init__(self, make, **options):
        resident = dict(cache_rows=None, cache_strategy=None,
                        var_type="hybrid" if "max_capacity" in options else "hbm")
        self.sides = [Small(0, make(), **dict(dict(cache_rows=24), **options)),
                      Small(0, make(), **dict(options, **resident))]
        for side in self.sides:
            with side.graph.as_default():
                side.weights = tf.placeholder(tf.float32, [None, 2])
                gradient, = tf.gradients(tf.reduce_sum(side.rows * side.weights), side.table)
                side.weighted = side.optimizer.apply_gradients([(gradient, side.table)])
                side.values = tf.placeholder(tf.float32, [None, 2])
                side.assigned = sok.assign(side.table, side.keys, side.values)
                side.session.run(tf.global_variables_initializer())

    def run(self, what, **feeds):
        made = [side.session.run(getattr(side, what), {getattr(side, name): value for name, value in feeds.items()})
                for side in self.sides]
        if made[0] is not None:
            np.testing.assert_array_equal(*made)

    def compare(self):
        one, other = [side.export() for side in self.sides]
        assert one == other

    def number(self, place):
        return self.sides[0].number(place)
