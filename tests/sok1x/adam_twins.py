"""The same loss on a table and on a stock variable, which the tests of the Adams train side by side."""
import numpy as np
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, session

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

v1 = tf
ROWS, DIM, STEPS = 24, 5, 100
StockLazy, StockAdam = stock_lazy_adam.LazyAdamOptimizer, tf.keras.optimizers.Adam


def functions():
    """The sok1x functions of the default graph's ops."""
    return [op.get_attr("function").decode() for op in v1.get_default_graph().get_operations()
            if op_types.is_ours(op)]


class Twins:
    """The same loss on a sok1x table and on a stock variable. Its gradients are exact, in whatever order of adding."""

    def __init__(self, lookups=1):
        self.layer = dense_layer(max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=1, nnz_per_slot=2,
                                 embedding_initializer="normal")
        self.ours = self.layer.embedding_variable
        self.stock = v1.get_variable("stock", [ROWS, DIM], use_resource=True)
        self.keys = v1.placeholder(tf.int64, [None, 1, 2])
        self.weights = v1.placeholder(tf.float32, [None, 1, 2, DIM])
        self.rate = v1.placeholder_with_default(0.05, [])
        self.our_loss = self.loss(*[self.layer(self.keys + i) for i in range(lookups)])
        self.stock_loss = self.loss(*[tf.gather(self.stock, self.keys + i) for i in range(lookups)])

    def loss(self, *vectors):
        return tf.reduce_sum(tf.add_n(vectors) * self.weights)

    def start(self, run):
        """Gives the keys 0, 1, … the rows 0, 1, …, and the stock variable the same values."""
        run.run(self.layer(tf.constant(np.arange(ROWS).reshape(-1, 1, 2))))
        self.stock.load(run.run(self.ours), run)

    def batch(self, random, step):
        samples = 0 if step % 7 == 3 else random.randint(1, 6)
        # Eighths, so that sums are exact; few keys, so that many are repeated.
        return {self.keys: random.randint(0, ROWS - 8, [samples, 1, 2]), self.rate: [0.05, 0.01, 0.2][step % 3],
                self.weights: random.randint(-16, 16, [samples, 1, 2, DIM]) / np.float32(8)}


def slots(optimizer, variable):
    return [optimizer.get_slot(variable, name) for name in ("m", "v")]


def check(twins, our_step, stock_step, our_slots, stock_slots, seed):
    random = np.random.RandomState(seed)
    with session() as run:
        twins.start(run)
        first = run.run(twins.ours)
        for step in range(STEPS):
            run.run([our_step, stock_step], twins.batch(random, step))
            values = run.run([[twins.ours] + our_slots, [twins.stock] + stock_slots])
            for name, ours, stock in zip(("row", "m", "v"), *values):
                # TensorFlow's square roots on a CPU are rounded otherwise than IEEE says. Rows are sums of steps, and
                # begin around 1.
                np.testing.assert_allclose(ours, stock, rtol=1e-6, atol=1e-6 if name == "row" else 1e-7,
                                           err_msg="{} {}".format(name, step))
        assert np.abs(values[0][0] - first).max() > 1e-2, "nothing was trained"


def minimized(optimizer, loss, variable):
    return optimizer.minimize(loss, var_list=[variable])


def applied(optimizer, loss, variable):
    with sok.OptimizerScope([variable]):
        return optimizer.apply_gradients(zip(tf.gradients(loss, [variable]), [variable]))


def updated(optimizer, loss, variable):
    return tf.group(*optimizer.get_updates(loss, [variable]))
