"""SOK 2.x's get-started for TensorFlow 2: variables, lookups under a tape, a wrapped optimizer, dump, load.

    mpiexec -np 2 python legacy_examples/sok2_tf2_get_started.py

The samples and the model of sok2_get_started.py, in eager execution and tf.function. Horovod sums the dense layers'
gradients. When it has trained, it dumps the tables with the optimizer's slots, spoils them, and loads them again.
"""
import argparse
import os
import tempfile

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from sok2_get_started import Ratings, even_start

import sok1x as sok


class Model(tf.keras.Model):
    """Vectors of an item and of groups, side by side, through a dense layer to one logit."""

    def __init__(self, args):
        super().__init__()
        start = np.random.RandomState(args.seed + 1).normal(0, 0.1, [args.items, args.dim])
        # Every rank gives the whole table, and keeps its rows of it.
        self.items = sok.Variable(start.astype(np.float32), name="items")
        self.groups = sok.Variable(shape=[args.groups, args.dim], initializer="uniform", mode="localized:0",
                                   name="groups")
        self.hidden = tf.keras.layers.Dense(args.units, activation="relu")
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs):
        """`inputs`: items [B], groups [n] and their weights [n], groups of each sample [B]; returns logits [B, 1]."""
        items, groups, weights, lengths = inputs
        one_each = tf.RaggedTensor.from_row_lengths(items, tf.ones_like(items))
        vectors = sok.lookup_sparse(
            [self.items, self.groups], [one_each, tf.RaggedTensor.from_row_lengths(groups, lengths)],
            sp_weights=[tf.ones_like(one_each, dtype=tf.float32), tf.RaggedTensor.from_row_lengths(weights, lengths)],
            combiners=["sum", "sum"])
        return self.out(self.hidden(tf.concat(vectors, axis=1)))


def tensors(batch):
    """A batch of Ratings as tensors."""
    return [tf.constant(part, dtype) for part, dtype in zip(
        batch, (tf.int64, tf.int64, tf.float32, tf.int64, tf.float32))]


def main():
    """Trains, dumps, loads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--global_batch_size", type=int, default=512)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--even_start", action="store_true",
                        help="dense layers begin with the same numbers on every version of TensorFlow")
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "sok2_tf2_get_started"),
                        help="where to dump to, a folder that all ranks see")
    args = parser.parse_args()
    tf.keras.utils.set_random_seed(args.seed)  # Keras draws first weights by a seed of its own
    hvd.init()
    sok.init()

    ratings, model = Ratings(args), Model(args)
    optimizer = tf.keras.optimizers.legacy.Adam(args.lr, epsilon=1e-8)
    sok_optimizer = sok.OptimizerWrapper(tf.keras.optimizers.legacy.Adam(args.lr, epsilon=1e-8))
    random = np.random.RandomState([args.seed, hvd.rank()])
    share = args.global_batch_size // hvd.size()
    test = tensors(ratings.batch(random, share))

    def loss_of(batch):
        # Gradients of tables are summed over the ranks: the loss divides by the samples of all.
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(
            labels=batch[-1], logits=model(batch[:-1]))) / args.global_batch_size

    @tf.function(reduce_retracing=True)
    def train(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
        tables, others = sok.filter_variables(model.trainable_variables)
        of_tables, of_others = tape.gradient(loss, [tables, others])
        sok_optimizer.apply_gradients(zip(of_tables, tables))
        optimizer.apply_gradients(zip([hvd.allreduce(each, op=hvd.Sum) for each in of_others], others))

    def total(batch):
        return float(hvd.allreduce(loss_of(batch), op=hvd.Sum))

    def say(*words):
        if hvd.rank() == 0:
            print(*words, flush=True)

    total(test)  # makes the dense layers
    _, others = sok.filter_variables(model.trainable_variables)
    hvd.broadcast_variables(others, root_rank=0)
    for variable, value in even_start(others, args.seed):
        if args.even_start:
            variable.assign(value)
    for step in range(1, args.steps + 1):
        train(*tensors(ratings.batch(random, share)))
        if step == 1 or step % 20 == 0:
            say("step {}: loss {:.7f}".format(step, total(test)))
    trained, path = total(test), os.path.join(args.folder, "weights")
    sok.dump(path, [model.items, model.groups], sok_optimizer)
    say("dumped:", ", ".join(sorted(os.listdir(path))))
    for table in (model.items, model.groups):
        table.assign(tf.zeros_like(table))
    say("tables of zeros: loss {:.4f}".format(total(test)))
    sok.load(path, [model.items, model.groups], sok_optimizer)
    loaded = total(test)
    say("loaded: loss {:.4f}".format(loaded))
    assert abs(loaded - trained) < 1e-5, (loaded, trained)


if __name__ == "__main__":
    main()
