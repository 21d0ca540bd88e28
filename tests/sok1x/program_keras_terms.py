"""Run by test_sok1x_keras_terms.py: what a Keras model's loss has besides means over samples, as docs/keras.md says.

    mpiexec -np N python program_keras_terms.py graph|eager

Each model is trained on the ranks' parts of every batch, and in stock Keras on whole batches.
"""
import sys

import numpy as np
import tensorflow as tf

if sys.argv[1] == "eager":
    tf.compat.v1.enable_v2_behavior()
else:
    tf.compat.v1.disable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

EAGER, KEYS, DIM, FIELDS, SAMPLES, BATCH = sys.argv[1] == "eager", 20, 3, 4, 48, 12
L2, layers, losses = tf.keras.regularizers.l2, tf.keras.layers, tf.keras.losses
SGD = tf.keras.optimizers.SGD if EAGER else tf.compat.v1.keras.optimizers.SGD


class Added(layers.Layer):
    """Its input, whose mean square is added to the loss."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def call(self, inputs):
        self.add_loss(self.factor * tf.reduce_mean(inputs ** 2), **({} if EAGER else {"inputs": True}))
        return inputs


class Masked(layers.Layer):
    """The vectors that it is given, of which those of keys 0 do not count."""

    def compute_mask(self, inputs, mask=None):
        return tf.not_equal(inputs[1][:, :, 0], 0)

    def call(self, inputs):
        return inputs[0] * 1


def build(embedding, what, share):
    """share: of what all ranks add once."""
    keys = tf.keras.Input([FIELDS, 1], dtype=tf.int64)
    hidden = layers.Reshape([FIELDS, DIM])(embedding(keys))
    if what == "activity":
        hidden = layers.Activation("linear", activity_regularizer=L2(0.5 * share))(hidden)
    elif what == "add_loss":
        hidden = Added(2.0 * share)(hidden)
    elif what.startswith("mask"):
        hidden = Masked()([hidden, keys])
    kernel = L2(0.5 * share) if what == "kernel" else None
    dense = layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant(0.1), kernel_regularizer=kernel)
    return tf.keras.Model(keys, dense(hidden)), dense


def data(what):
    random = np.random.RandomState(7)
    keys, labels = random.randint(1, KEYS, [SAMPLES, FIELDS, 1]), random.normal(size=[SAMPLES, FIELDS, 1])
    keys[:SAMPLES // 2, 1:] = np.where(random.uniform(size=[SAMPLES // 2, FIELDS - 1, 1]) < 0.9, 0, 1)
    weights = random.uniform(size=SAMPLES) ** 3 if what == "weights" else None
    return keys[random.permutation(SAMPLES)], labels, weights


def trained(embedding, what, optimizer, rank, ranks):
    """The dense kernel after this rank's part of all batches."""
    model, dense = build(embedding, what, 1 / ranks)
    if what == "masked, as a sum":
        model.compile(optimizer, losses.MeanSquaredError(reduction="sum"), loss_weights=[1 / (BATCH * FIELDS)])
    else:
        model.compile(optimizer, "mse", loss_weights=[1 / ranks])
    if not EAGER:
        tf.compat.v1.keras.backend.get_session().run(sok.Init(global_batch_size=BATCH))
    keys, labels, weights = [None if part is None else part[rank::ranks] for part in data(what)]
    model.fit(keys, labels, sample_weight=weights, batch_size=BATCH // ranks, epochs=2, verbose=0, shuffle=False,
              callbacks=[sok.BroadcastGlobalVariablesCallback(0)])
    return dense.get_weights()[0]


def main():
    if EAGER:
        sok.init()
    for what in ("weights", "kernel", "activity", "add_loss", "masked, as a sum", "masked"):
        stock = layers.Embedding(KEYS, DIM, embeddings_initializer="ones")
        expected = trained(lambda keys: stock(layers.Reshape([FIELDS])(keys)), what, SGD(0.1), 0, 1)
        rank, ranks = launch.current().rank, launch.current().size
        layer = sok.All2AllDenseEmbedding(64, DIM, FIELDS, 1, embedding_initializer="ones")
        optimizer = sok.DistributedOptimizer(SGD(0.1), average=False)
        found = trained(layer, what, optimizer, rank, ranks)
        equal = np.allclose(found, expected, rtol=1e-4, atol=1e-6)
        # Of it TensorFlow 2's Keras takes the mean over what counts of each rank's samples, 1.15's over all of them.
        assert equal == (what != "masked" or tf.__version__.startswith("1.")), (what, found, expected)
    print("rank", rank, "ok")


if __name__ == "__main__":
    main()
