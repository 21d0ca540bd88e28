"""Every optimizer of TensorFlow trains a table as it trains a stock variable that starts from the same rows."""
import numpy as np
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, graph, session, sparse_layer

import sok1x as sok

v1 = tf
ROWS, DIM, SLOTS, HOT, STEPS = 24, 5, 3, 2, 6

TRAIN = {
    "GradientDescent": lambda: v1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "Nesterov": lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "RMSProp": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "RMSPropCentered": lambda: v1.train.RMSPropOptimizer(0.01, centered=True),
    "Adam": lambda: v1.train.AdamOptimizer(0.05),
    "Ftrl": lambda: v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01),
    "Adadelta": lambda: v1.train.AdadeltaOptimizer(1.0),
    "LazyAdam": lambda: stock_lazy_adam.LazyAdamOptimizer(0.05),
}
KERAS = {
    "SGD": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda: tf.keras.optimizers.Adagrad(0.1),
    "Adam": lambda: tf.keras.optimizers.Adam(0.05),
    "AmsGrad": lambda: tf.keras.optimizers.Adam(0.05, amsgrad=True),
    "RMSprop": lambda: tf.keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "Adadelta": lambda: tf.keras.optimizers.Adadelta(1.0),
    "Adamax": lambda: tf.keras.optimizers.Adamax(0.05),
    "Nadam": lambda: tf.keras.optimizers.Nadam(0.05),
    "Ftrl": lambda: tf.keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.001),
}


class Twins:
    """The same loss on two sok1x tables and on two stock variables, fed with the same batches."""

    def __init__(self):
        self.dense = dense_layer(max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS,
                                 nnz_per_slot=HOT, embedding_initializer="normal")
        self.sparse = sparse_layer(max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS,
                                   max_nnz=4, combiner="mean", embedding_initializer="normal")
        self.layers = [self.dense, self.sparse]
        self.ours = [layer.embedding_variable for layer in self.layers]
        self.stock = [v1.get_variable("stock{}".format(i), [ROWS, DIM], use_resource=True) for i in range(2)]
        self.keys = v1.placeholder(tf.int64, [None, SLOTS, HOT])
        self.bags = v1.sparse.placeholder(tf.int64)
        sums = tf.math.unsorted_segment_sum(tf.gather(self.stock[1], self.bags.values), self.bags.indices[:, 0],
                                            self.bags.dense_shape[0])
        counts = tf.math.unsorted_segment_sum(tf.ones_like(self.bags.values, tf.float32), self.bags.indices[:, 0],
                                              self.bags.dense_shape[0])
        means = tf.reshape(sums / tf.maximum(counts, 1.0)[:, None], [-1, SLOTS, DIM])
        self.our_loss = self._loss(self.dense(self.keys), self.sparse(self.bags))
        self.stock_loss = self._loss(tf.nn.embedding_lookup(self.stock[0], self.keys), means)

    @staticmethod
    def _loss(one, two):
        # All its derivatives are positive: where terms cancel, Adam and its like make a whole step of a rounding error.
        return (tf.reduce_sum(tf.sigmoid(tf.reduce_mean(one, 2) + two)) + tf.reduce_sum(tf.exp(one)) +
                tf.reduce_sum(tf.exp(2 * two)))

    def start(self, run):
        """Gives the keys 0, 1, … the rows 0, 1, …, and the stock variables the same values."""
        every = tf.constant(np.arange(ROWS).reshape(-1, SLOTS, HOT))
        run.run(self.dense(every))
        indices = np.stack([np.arange(ROWS), np.zeros(ROWS)], 1).astype(np.int64)
        run.run(self.sparse(tf.SparseTensor(indices, tf.range(ROWS, dtype=tf.int64), [ROWS, 4])))
        for ours, stock in zip(self.ours, self.stock):
            stock.load(run.run(ours), run)

    def batch(self, random):
        samples = random.randint(0, 5)
        lengths = random.randint(0, 4, samples * SLOTS)
        indices = [[row, i] for row, length in enumerate(lengths) for i in range(length)]
        # Few keys, so that many are repeated; not all of them in each batch.
        return {self.keys: random.randint(0, 7, [samples, SLOTS, HOT]),
                self.bags: v1.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2),
                                                random.randint(0, ROWS, len(indices)), [samples * SLOTS, 4])}


def check(twins, our_step, stock_step, seed):
    random = np.random.RandomState(seed)
    with session() as run:
        twins.start(run)
        first = run.run(twins.ours)
        for _ in range(STEPS):
            feed = twins.batch(random)
            ours, stock = run.run([twins.our_loss, twins.stock_loss], feed)
            run.run([our_step, stock_step], feed)
            np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-6)
        for before, ours, stock in zip(first, run.run(twins.ours), run.run(twins.stock)):
            np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-6)
            assert np.abs(ours - before).max() > 1e-4, "nothing was trained"


@pytest.mark.parametrize("name", TRAIN)
def test_tf_train(name, seed):
    with graph():
        twins = Twins()
        if name == "Adam":  # also by the gradients of tf.gradients, in SOK's scope
            optimizer = TRAIN[name]()
            with sok.OptimizerScope(twins.ours):
                ours = optimizer.apply_gradients(zip(tf.gradients(twins.our_loss, twins.ours), twins.ours))
        elif name == "Ftrl":
            optimizer = TRAIN[name]()
            pairs = optimizer.compute_gradients(twins.our_loss, twins.ours)
            assert all(isinstance(gradient, tf.IndexedSlices) for gradient, _ in pairs)
            ours = optimizer.apply_gradients(pairs)
        else:
            ours = TRAIN[name]().minimize(twins.our_loss, var_list=twins.ours)
        check(twins, ours, TRAIN[name]().minimize(twins.stock_loss, var_list=twins.stock), seed)


@pytest.mark.parametrize("name", KERAS)
def test_tf_keras(name, seed):
    with graph():
        twins = Twins()
        steps = []
        for loss, variables in ((twins.our_loss, twins.ours), (twins.stock_loss, twins.stock)):
            optimizer = KERAS[name]()
            if name in ("Adam", "SGD"):
                steps.append(tf.group(*optimizer.get_updates(loss, variables)))
            else:
                steps.append(optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables)))
        check(twins, steps[0], steps[1], seed)


@pytest.mark.skipif(not v1.__version__.startswith("1."), reason="TensorFlow 2 has no contrib")
def test_contrib_optimizer_v2(seed):
    """Its optimizers hand the state of their slots and hyperparameters over with each gradient."""
    from tensorflow.contrib.optimizer_v2 import optimizer_v2_symbols as contrib
    with graph():
        twins = Twins()
        ours = sok.DistributedOptimizer(contrib.AdamOptimizer(0.05)).minimize(twins.our_loss, var_list=twins.ours)
        stock = contrib.AdamOptimizer(0.05).minimize(twins.stock_loss, var_list=twins.stock)
        check(twins, ours, stock, seed)


def our_forward(twins):
    return twins._loss(twins.dense(twins.keys), twins.sparse(twins.bags))


def test_tf_keras_minimize_of_a_function(seed):
    with graph():
        twins = Twins()
        ours = tf.keras.optimizers.Adagrad(0.1).minimize(lambda: our_forward(twins), twins.ours)
        stock = tf.keras.optimizers.Adagrad(0.1).apply_gradients(
            zip(tf.gradients(twins.stock_loss, twins.stock), twins.stock))
        check(twins, ours, stock, seed)


def test_gradient_tape(seed):
    """A tape watches trainable tables by itself."""
    with graph():
        twins = Twins()
        with tf.GradientTape() as tape:
            loss = our_forward(twins)
        assert set(tape.watched_variables()) == set(twins.ours)
        ours = v1.train.AdagradOptimizer(0.1).apply_gradients(zip(tape.gradient(loss, twins.ours), twins.ours))
        check(twins, ours, v1.train.AdagradOptimizer(0.1).minimize(twins.stock_loss, var_list=twins.stock), seed)


def test_gradients_of_one_step_pass_through_clipping(seed):
    """IndexedSlices with distinct rows, so clipping by a norm sees what a dense gradient would show."""
    with graph():
        twins = Twins()
        steps = []
        for loss, variables in ((twins.our_loss, twins.ours), (twins.stock_loss, twins.stock)):
            gradients = tf.gradients(loss, variables)
            if variables is twins.stock:
                gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
            clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
            steps.append(v1.train.GradientDescentOptimizer(0.5).apply_gradients(zip(clipped, variables)))
        check(twins, steps[0], steps[1], seed)
