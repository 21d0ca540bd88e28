"""One rank of dlrm.py: [mpiexec -np N] python benchmarks/dlrm_rank.py OPTIONS.json RESULT.json"""

import jobs
import model_sides
import numpy as np
import tensorflow.compat.v1 as tf
from measure import Ranks, answer, asked, time_steps
from workload import power_law_keys


class Dlrm(model_sides.Model):
    """Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.

    Dense features [B, 13] pass the bottom layers; the dot products of what they give and the S rows of a sample, each
    pair once, pass the top layers together with it. Pairs are not picked out of the products: the other half is set to
    0, which is faster than a gather, as in TensorFlow Recommenders' `DotInteraction(skip_gather=True)`.
    """

    rate = 0.01

    def __init__(self, options, ranks):
        self.options, self.global_batch = options, options.samples * ranks

    def make_inputs(self):
        samples = self.options.samples
        self.dense = model_sides.input_variable("dense_features", [samples, self.options.dense], tf.float32)
        self.labels = model_sides.input_variable("labels", [samples], tf.float32)
        self.inputs = self.dense, self.labels

    def outputs(self, embeddings):
        return self._logits(embeddings)

    def loss(self, embeddings):
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels.read_value(),
                                                          logits=self._logits(embeddings))
        return tf.reduce_sum(entropy) / self.global_batch

    def _logits(self, embeddings):
        options = self.options
        rows, = embeddings
        with tf.variable_scope("dlrm", reuse=tf.AUTO_REUSE, use_resource=True):
            bottom = self.dense.read_value()
            for number, units in enumerate(options.bottom):
                bottom = tf.layers.dense(bottom, units, tf.nn.relu, name="bottom_{}".format(number))
            vectors = tf.concat([bottom[:, tf.newaxis], tf.squeeze(rows, [2])], axis=1)                # [B, 1 + S, D]
            count = options.slots + 1
            products = tf.matmul(vectors, vectors, transpose_b=True) * np.tri(count, k=-1, dtype=np.float32)
            top = tf.concat([bottom, tf.reshape(products, [-1, count * count])], axis=1)
            for number, units in enumerate(options.top):
                last = number == len(options.top) - 1
                top = tf.layers.dense(top, units, None if last else tf.nn.relu, name="top_{}".format(number))
        return top[:, 0]


class DenseAlone(model_sides.OnRanks):
    """The same model on rows that are there already. Their gradient is computed and kept: what the other sides take
    more than this is what their tables cost."""

    def make_tables(self):
        shape = [self.options.samples, self.options.slots, 1, self.options.dims[0]]
        self.rows = tf.get_variable("rows", shape, trainable=False, use_resource=True,
                                    initializer=tf.random_uniform_initializer(-0.05, 0.05))
        self.kept = model_sides.input_variable("gradient", shape, tf.float32)

    def look_up(self, keys, training):
        return [self.rows.read_value()]

    def train(self, embeddings):
        variables = tf.trainable_variables()
        gradients = tf.gradients(self.loss, variables + embeddings)  # at once: two calls would compute most of it twice
        step = self.optimizer().apply_gradients(zip(gradients, variables))
        # The variable takes the gradient's memory, not a copy. Without it TensorFlow would leave the gradient out.
        return tf.group(step, self.kept.assign(gradients[-1], read_value=False))

    def optimizer(self):
        # On one rank no more than stock TensorFlow's.
        return super().optimizer() if self.ranks.size > 1 else tf.train.GradientDescentOptimizer(self.model.rate)


SIDES = {"sok1x": model_sides.Sok1x, "stock": model_sides.Stock, "dense alone": DenseAlone}


def make_batch(options, rank, number):
    """Random features and labels; field f's keys are the power law's of its own V / S keys, and begin at f V / S."""
    random = np.random.RandomState([options.seed, rank, number])
    field = options.vocabulary // options.slots
    keys = power_law_keys(random, options.samples * options.slots, field).reshape([options.samples, options.slots])
    keys += field * np.arange(options.slots)
    dense = random.uniform(size=[options.samples, options.dense]).astype(np.float32)
    labels = (random.uniform(size=options.samples) < 0.25).astype(np.float32)
    return model_sides.Batch(keys[np.newaxis, :, :, np.newaxis], (dense, labels))


def compare_ranks(side, batch, ranks):
    """Whether ranks agree: the loss of one batch, the same on all of them, and their dense variables.

    Raises:
        RuntimeError: they do not.
    """
    side.select(batch)
    with side.graph.as_default():
        dense = [variable for variable in tf.trainable_variables() if variable.name.startswith("dlrm/")]
    loss, values = side.session.run([side.evaluated, dense])
    mine = np.concatenate([value.ravel() for value in values])
    losses, everyone = ranks.gather(float(loss) * ranks.size), ranks.gather(mine)
    differ = max(float(np.max(np.abs(each - everyone[0]))) for each in everyone)
    found = {"loss of one batch": losses, "dense variables": len(mine), "dense variables differ by": differ,
             "loss equal": bool(np.allclose(losses, losses[0], rtol=1e-6, atol=0)), "dense equal": differ == 0}
    if not (found["loss equal"] and found["dense equal"] and np.all(np.isfinite(losses))):
        raise RuntimeError("the ranks do not agree: {}".format(found))
    return found


def main():
    """Measures; rank 0 writes."""
    options = asked()
    jobs.take_gpu(options.gpus)
    tf.logging.set_verbosity(tf.logging.ERROR)
    ranks = Ranks(False, options.ranks == 1)
    options.dims, options.device_name = [options.bottom[-1]], "/gpu:0" if options.gpus else "/cpu:0"
    options.vocabulary -= options.vocabulary % options.slots
    config = model_sides.session_config(options.threads)
    batches = [make_batch(options, ranks.rank, number) for number in range(options.batches)]
    sides = {name: SIDES[name](Dlrm(options, ranks.size), options, config, ranks) for name in options.sides}
    for side in sides.values():
        side.begin(batches[0])
    found = {"ms": {mode: time_steps({name: model_sides.Mode(side, mode) for name, side in sides.items()}, batches,
                                     vars(options), ranks) for mode in options.modes},
             "distinct": float(np.mean(ranks.gather(np.mean([len(np.unique(batch.keys)) for batch in batches])))),
             "agreement": {name: compare_ranks(side, make_batch(options, 0, 0), ranks)
                           for name, side in sides.items()}}
    found.update(model_sides.describe(options))
    answer(ranks, found)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
