"""SOK 2.x's get-started, as a script for TensorFlow 1.15 has it: variables, a lookup, a wrapped optimizer, dump, load.

    mpiexec -np 2 python legacy_examples/sok2_get_started.py

Users and items of synthetic ratings. Items' vectors are dealt out over the ranks, the few of the users' groups lie on
one rank; a sample has one item, and any number of groups with weights. Horovod averages the dense layers' gradients.
When it has trained, it dumps the tables with the optimizer's slots, spoils them, and loads them again.
"""
import argparse
import os
import tempfile

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok


class Ratings:
    """Synthetic samples: an item, groups with weights, and a label that follows from them."""

    def __init__(self, args):
        random = np.random.RandomState(args.seed)
        self.items, self.groups = random.randn(args.items), random.randn(args.groups)

    def batch(self, random, samples):
        """items [B], groups [n] and their weights [n], groups of each sample [B], labels [B, 1]."""
        items = random.randint(0, len(self.items), samples)
        lengths = random.randint(0, 4, samples)
        groups = random.randint(0, len(self.groups), lengths.sum())
        weights = random.uniform(0.5, 1.5, len(groups))
        of_groups = np.zeros(samples)
        np.add.at(of_groups, np.repeat(np.arange(samples), lengths), weights * self.groups[groups])
        return items, groups, weights, lengths, (self.items[items] + of_groups > 0).astype(np.float32)[:, np.newaxis]


def even_start(variables, seed):
    """(variable, its first value) of dense layers, whatever a version of TensorFlow draws."""
    random = np.random.RandomState(seed)
    for variable in variables:
        shape = variable.shape.as_list()
        yield variable, (random.uniform(-1, 1, shape) / np.sqrt(shape[0]) * (len(shape) > 1)).astype(np.float32)


class Model:
    """The graph, for batches that are fed."""

    def __init__(self, args):
        start = np.random.RandomState(args.seed + 1).normal(0, 0.1, [args.items, args.dim])
        # Every rank gives the whole table, and keeps its rows of it.
        self.items = sok.Variable(start.astype(np.float32), name="items")
        self.groups = sok.Variable(shape=[args.groups, args.dim], initializer="uniform", mode="localized:0",
                                   name="groups")
        self.inputs = [tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None]),
                       tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int64, [None]),
                       tf.placeholder(tf.float32, [None, 1])]
        items, groups, weights, lengths, labels = self.inputs
        one_each = tf.RaggedTensor.from_row_lengths(items, tf.ones_like(items))
        weights = [tf.ones_like(one_each, dtype=tf.float32), tf.RaggedTensor.from_row_lengths(weights, lengths)]
        vectors = sok.lookup_sparse([self.items, self.groups],
                                    [one_each, tf.RaggedTensor.from_row_lengths(groups, lengths)], sp_weights=weights,
                                    combiners=["sum", "sum"])
        hidden = tf.layers.dense(tf.concat(vectors, axis=1), args.units, activation=tf.nn.relu)
        logits = tf.layers.dense(hidden, 1)
        # Gradients of tables are summed over the ranks: the loss divides by the samples of all.
        self.loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(
            labels=labels, logits=logits)) / args.global_batch_size
        optimizer = tf.train.AdamOptimizer(args.lr)
        self.sok_optimizer = sok.OptimizerWrapper(optimizer)
        tables, others = sok.filter_variables(tf.trainable_variables())
        # Gated: no kernel may take its step before the tables' gradients have come through it.
        gradients = tf.gradients(self.loss, tables + others, gate_gradients=True)
        dense_gradients = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in gradients[len(tables):]]
        self.global_step = tf.train.get_or_create_global_step()
        self.train = tf.group(self.sok_optimizer.apply_gradients(zip(gradients, tables)),
                              optimizer.apply_gradients(zip(dense_gradients, others), global_step=self.global_step))
        self.dense = others
        self.total = hvd.allreduce(self.loss, op=hvd.Sum)
        self.spoil = [table.assign(tf.zeros_like(table)) for table in tables]

    def feed(self, batch):
        """The placeholders' values."""
        return dict(zip(self.inputs, batch))


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
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "sok2_get_started"),
                        help="where to dump to, a folder that all ranks see")
    args = parser.parse_args()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    tf.set_random_seed(args.seed)
    hvd.init()
    sok.init()

    ratings, model = Ratings(args), Model(args)
    random = np.random.RandomState([args.seed, hvd.rank()])
    share = args.global_batch_size // hvd.size()
    test = model.feed(ratings.batch(random, share))
    path = os.path.join(args.folder, "weights")

    def say(*words):
        if hvd.rank() == 0:
            print(*words, flush=True)

    with tf.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
        if args.even_start:
            for variable, value in even_start(model.dense, args.seed):
                session.run_step_fn(lambda step_context: variable.load(value, step_context.session))
        for step in range(1, args.steps + 1):
            session.run(model.train, model.feed(ratings.batch(random, share)))
            if step == 1 or step % 20 == 0:
                say("step {}: loss {:.7f}".format(step, session.run(model.total, test)))
        trained = session.run(model.total, test)
        sok.dump(path, [model.items, model.groups], model.sok_optimizer, session=session)
        say("dumped:", ", ".join(sorted(os.listdir(path))))
        session.run(model.spoil)
        say("tables of zeros: loss {:.4f}".format(session.run(model.total, test)))
        sok.load(path, [model.items, model.groups], model.sok_optimizer, session=session)
        loaded = session.run(model.total, test)
        say("loaded: loss {:.4f}".format(loaded))
        assert abs(loaded - trained) < 1e-5, (loaded, trained)


if __name__ == "__main__":
    main()
