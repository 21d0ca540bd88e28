"""SOK 1.x's mixed-precision scripts against stock TensorFlow in one process: losses, gradients, saved rows.

    mpiexec -np N python program_mixed_precision.py SEED FOLDER      # N > 1: Horovod sums the dense gradients
    python program_mixed_precision.py SEED FOLDER all                # every case; else half of them

Policy mixed_float16; one or two layers, of dense or sparse keys; for tables and dense variables tf.keras' Adam,
tf.train's, and for tables sok's own; a session that saves the tables, and one that restores them and goes on.
"""
import os
import sys

import keras_policies as mixed
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
RANKS = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
S, H, KEYS, BATCH, STEPS, SCALE = 3, 2, 40, 32, 3, 1024
hvd = None
if RANKS > 1:
    import horovod.tensorflow as hvd

OPTIMIZERS = {  # of tables, of dense variables; stock TensorFlow's for both
    "adam": (tf.keras.optimizers.Adam,) * 3,
    "compat_adam": (v1.train.AdamOptimizer,) * 3,
    "plugin_adam": (sok.optimizers.Adam, tf.keras.optimizers.Adam, tf.keras.optimizers.Adam),
}


class Model(tf.keras.Model):
    """Embeddings, made by `layers` functions of the keys, through two dense layers of known weights."""

    def __init__(self, layers, random):
        super().__init__()
        self.embeddings = layers
        width = S * sum(layer.dim for layer in layers)
        self.hidden = [tf.keras.layers.Dense(units, activation=activation, kernel_initializer=tf.constant_initializer(
            random.normal(size=[inputs, units]) / np.sqrt(inputs)))
            for inputs, units, activation in ((width, 16, "tanh"), (16, 1, None))]

    def call(self, keys, training=True):
        vectors = [tf.reshape(layer(keys, training=training), [-1, S * layer.dim]) for layer in self.embeddings]
        hidden = tf.concat(vectors, 1)
        for layer in self.hidden:
            hidden = layer(hidden)
        return hidden


class Stock(tf.keras.layers.Layer):
    """The same lookup by TensorFlow: rows [KEYS, D], keys [B, S, H]; those of `sparse` are summed over H."""

    def __init__(self, rows, sparse):
        super().__init__()
        self.dim, self.sparse, self.first = rows.shape[1] * (1 if sparse else H), sparse, rows

    def build(self, _):
        self.rows = self.add_weight("rows", self.first.shape, initializer=tf.constant_initializer(self.first))

    def call(self, keys, training=None):
        vectors = tf.gather(self.rows._variable, keys)
        return tf.cast(tf.reduce_sum(vectors, 2) if self.sparse else vectors, tf.float16)


def to_sparse(keys):
    flat = tf.reshape(keys, [-1, H])
    where = tf.where(tf.ones_like(flat, dtype=tf.bool))
    return tf.SparseTensor(where, tf.gather_nd(flat, where), tf.shape(flat, out_type=tf.int64))


def loss_of(labels, logits):
    each = tf.keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")(labels, logits)
    if tf.__version__.startswith("1."):
        return tf.cast(tf.nn.compute_average_loss(tf.cast(each, tf.float32), global_batch_size=BATCH), each.dtype)
    # TensorFlow 2 asserts, in a graph too, that the size is not negative, by an op that nothing runs, and complains on
    # stderr of an object that was never used. What it computes is this:
    return tf.cast(tf.reduce_sum(tf.cast(each, tf.float32)) / BATCH, each.dtype)


class Sok:
    """The script under test, as SOK 1.x has it, in a graph of its own."""

    def __init__(self, kind, tables, optimizer, folder, random):
        self.folder, self.graph = folder, tf.Graph()
        with self.graph.as_default():
            self.init = sok.Init(global_batch_size=BATCH)
            layers = []
            for rows in tables:
                dim, hashtable = rows.shape[1], len(tables) == 1
                most = KEYS if hashtable else KEYS // RANKS
                if kind == "sparse":
                    layer = sok.DistributedEmbedding("sum", most, dim, S, H, use_hashtable=hashtable)
                else:
                    layer = sok.All2AllDenseEmbedding(most, dim, S, H, use_hashtable=hashtable)
                layer.dim = dim * (1 if kind == "sparse" else H)
                layers.append(layer)
            self.tables = [layer.embedding_variable for layer in layers]
            self.keys, self.labels = v1.placeholder(tf.int64, [None, S, H]), v1.placeholder(tf.float32, [None, 1])
            model = Model(layers, random)
            for_tables, for_dense, _ = OPTIMIZERS[optimizer]
            self.table_optimizer = sok.tf.keras.mixed_precision.LossScaleOptimizer(for_tables(learning_rate=0.01),
                                                                                   SCALE)
            self.train = self.step(model, for_dense(learning_rate=0.01), to_sparse(self.keys) if kind == "sparse"
                                   else self.keys)
            self.initialize = tf.group(v1.global_variables_initializer(), v1.local_variables_initializer(),
                                       self.table_optimizer.initializer)
            saver = sok.Saver()
            self.load = [saver.load_embedding_values(table, tf.constant(rows))
                         for table, rows in zip(self.tables, tables)]
            self.dump, self.restore = [], []
            for ops, method in ((self.dump, saver.dump_to_file), (self.restore, saver.restore_from_file)):
                for table in self.tables:
                    with tf.control_dependencies(ops[-1:]):
                        ops.append(method(table, folder))
            self.graph.finalize()

    def step(self, model, for_dense, inputs):
        loss = loss_of(self.labels, model(inputs, training=True))
        tables, dense = sok.split_embedding_variable_from_others(model.trainable_variables)
        assert tables == self.tables and [type(variable).__name__ for variable in dense] == ["AutoCastVariable"] * 4
        gradients = tf.gradients(self.table_optimizer.get_scaled_loss(loss), tables + dense)
        of_tables = self.table_optimizer.get_unscaled_gradients(gradients[:len(tables)])
        of_dense = self.table_optimizer.get_unscaled_gradients(gradients[len(tables):])
        with sok.OptimizerScope(tables):
            update_tables = self.table_optimizer.apply_gradients(zip(of_tables, tables))
        if hvd:
            with tf.control_dependencies(of_tables):
                of_dense = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in of_dense]
        update_dense = for_dense.apply_gradients(zip(of_dense, dense))
        with tf.control_dependencies([update_tables, update_dense]):
            total = tf.cast(loss, tf.float32)
            total = hvd.allreduce(total, op=hvd.Sum) if hvd else tf.identity(total)
        squares = [tf.reduce_sum(tf.square(gradient.values)) for gradient in of_tables]
        if hvd:
            squares = [hvd.allreduce(square, op=hvd.Sum) for square in squares]
        return total, squares + [tf.reduce_sum(tf.square(gradient)) for gradient in of_dense]

    def run(self, batches, restore):
        """Losses and squares of gradients at each step, from the tables' first rows, or from the saved ones."""
        rank = hvd.rank() if hvd else 0
        with v1.Session(graph=self.graph) as session:
            session.run(self.init)
            session.run(self.initialize)
            assert session.run(self.restore if restore else self.load) == [b"OK"] * len(self.tables)
            part = BATCH // RANKS
            results = [session.run(self.train, {self.keys: keys[rank * part:][:part],
                                                self.labels: labels[rank * part:][:part]}) for keys, labels in batches]
            if not restore:
                assert session.run(self.dump) == [b"OK"] * len(self.tables)
            return results

    def saved(self):
        """The tables' rows, in the order of their keys."""
        tables = []
        for table in self.tables:
            keys = np.fromfile(os.path.join(self.folder, table.m_var_name + "_keys.file"), "<i8")
            rows = np.fromfile(os.path.join(self.folder, table.m_var_name + "_values.file"), "<f4").reshape(KEYS, -1)
            assert sorted(keys) == list(range(KEYS))
            tables.append(rows[np.argsort(keys)])
        return tables


class Oracle:
    """The same by TensorFlow alone, in one process, on the batches of all ranks."""

    def __init__(self, kind, tables, optimizer, random):
        self.graph = tf.Graph()
        with self.graph.as_default():
            model = Model([Stock(rows, kind == "sparse") for rows in tables], random)
            self.keys, self.labels = v1.placeholder(tf.int64, [None, S, H]), v1.placeholder(tf.float32, [None, 1])
            loss = loss_of(self.labels, model(self.keys))
            variables = [variable._variable for variable in model.trainable_variables]
            gradients = [tf.convert_to_tensor(gradient) / SCALE
                         for gradient in tf.gradients(tf.cast(loss, tf.float32) * SCALE, variables)]
            # An Adam of TensorFlow's moves all rows for a sparse gradient too.
            step = optimizer(learning_rate=0.01).apply_gradients(zip(gradients, variables))
            with tf.control_dependencies([step]):
                self.train = tf.identity(loss), [tf.reduce_sum(tf.square(gradient)) for gradient in gradients]
            self.tables, self.initialize = variables[:len(tables)], v1.global_variables_initializer()

    def run(self, batches, tables):
        """Results as Sok.run's, and the tables' rows in the end."""
        with v1.Session(graph=self.graph) as session:
            session.run(self.initialize)
            for variable, rows in zip(self.tables, tables):
                variable.load(rows, session)
            results = [session.run(self.train, {self.keys: keys, self.labels: labels}) for keys, labels in batches]
            return results, session.run(self.tables)


def check(kind, count, seed, folder):
    random = np.random.RandomState(seed)
    first = [random.normal(size=[KEYS, dim]).astype(np.float32) / 2 for dim in (4, 6)[:count]]
    batches = [(random.randint(0, KEYS, [BATCH, S, H]), random.randint(0, 2, [BATCH, 1])) for _ in range(STEPS)]
    weights = random.randint(2 ** 31)
    oracles = {stock: Oracle(kind, first, stock, np.random.RandomState(weights))
               for stock in sorted({each[2] for each in OPTIMIZERS.values()}, key=str)}
    for optimizer in OPTIMIZERS:
        script = Sok(kind, first, optimizer, os.path.join(folder, "{}-{}-{}".format(kind, count, optimizer)),
                     np.random.RandomState(weights))
        for restore in (False, True):
            before = script.saved() if restore else first
            got = script.run(batches, restore)
            expected, rows = oracles[OPTIMIZERS[optimizer][2]].run(batches, before)
            for (loss, squares), (oracle_loss, oracle_squares) in zip(got, expected):
                np.testing.assert_allclose(loss, oracle_loss, rtol=1e-2)
                # The last bias' gradient is a difference of large numbers.
                np.testing.assert_allclose(np.sqrt(squares), np.sqrt(oracle_squares), rtol=0.1, atol=1e-3)
            if not restore:
                for one, two, start in zip(script.saved(), rows, first):
                    # Where a gradient is as small as its rounding error, Adam's step may have another sign.
                    assert np.abs(one - two).mean() < 0.05 * np.abs(two - start).mean(), optimizer
                    assert np.abs(two - start).max() > 0.02


def main():
    seed, folder = int(sys.argv[1]), sys.argv[2]
    if hvd:
        hvd.init()
    mixed.base_layer_utils.enable_v2_dtype_behavior()  # else TensorFlow 1.15 takes no such policy
    mixed.set_policy("mixed_float16")
    cases = [("dense", 1), ("sparse", 2)] + [("dense", 2), ("sparse", 1)] * (sys.argv[3:] == ["all"])
    for kind, count in cases:
        check(kind, count, seed, folder)
    print("rank", hvd.rank() if hvd else 0, "ok")


if __name__ == "__main__":
    main()
