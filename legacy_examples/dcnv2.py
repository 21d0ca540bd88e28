"""Trains DCNv2 on Criteo's click logs, as scripts for DeepRec do: EmbeddingVariables, looked up in one group.

    mpiexec -np 2 python legacy_examples/dcnv2.py                            # makes a small data set of its own
    mpiexec -np 2 python legacy_examples/dcnv2.py --use_feature_columns      # the same by tf.feature_column
    mpiexec -np 2 python legacy_examples/dcnv2.py --data FOLDER --checkpoint_dir saved

FOLDER has train*.csv and test*.csv, each line a label, 13 numbers and 26 strings. All that sok1x adds to a script for
DeepRec is its import and `install_as_deeprec()`. Each rank reads files of its own, of any length; a run that is started
again goes on from its last checkpoint.

The model: R. Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank
Systems", 2021: cross layers of low rank beside layers of ReLUs.
"""
import argparse
import sys
import time

import criteo
import numpy as np
import tensorflow.compat.v1 as tf
from model import auc
from mpi4py import MPI

import sok1x

sok1x.install_as_deeprec()


def looked_up(features):
    """The embeddings of a batch, float32 [B, 2176], by tf.nn.group_embedding_lookup_sparse."""
    with tf.variable_scope("embeddings", reuse=tf.AUTO_REUSE):
        tables = [tf.get_embedding_variable(name, criteo.DIMS[name], initializer=tf.random_normal_initializer(0, 0.05))
                  for name in criteo.STRINGS]
    with tf.device("/cpu:0"):  # where strings are: the ids then go to a GPU as one
        # Column by column, so that TensorFlow's threads share the work.
        keys = [tf.strings.to_hash_bucket_fast(features[name], 2 ** 63 - 1) for name in criteo.STRINGS]
        samples = tf.size(keys[0], out_type=tf.int64)
        places = tf.stack([tf.range(samples), tf.zeros([samples], tf.int64)], 1)  # one key a sample
        ids = [tf.SparseTensor(places, one, [samples, 1]) for one in keys]
    return tf.concat(tf.nn.group_embedding_lookup_sparse(tables, ids, ["sum"] * len(tables)), 1)


def feature_columns():
    """The same as columns of one group."""
    with tf.feature_column.group_embedding_column_scope(name="strings"):
        return [tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_embedding(name, dtype=tf.string), criteo.DIMS[name],
            combiner="sum", initializer=tf.random_normal_initializer(0, 0.05)) for name in criteo.STRINGS]


def dcnv2(embeddings, features, options):
    """Logits [B]: low-rank cross layers, and layers of ReLUs beside them."""
    with tf.device("/cpu:0"):  # where features are: one copy to a GPU, and not thirteen
        numbers = tf.stack([features[name] for name in criteo.NUMBERS], 1)
    numbers = tf.math.log1p(tf.maximum(numbers, 0.0))
    inputs = tf.concat([numbers, embeddings], 1)
    width = int(inputs.shape[1])
    crossed = hidden = inputs
    for layer in range(options.cross_layers):
        low = tf.layers.dense(crossed, options.low_rank, use_bias=False, name="low_{}".format(layer))
        crossed += inputs * tf.layers.dense(low, width, name="cross_{}".format(layer))
    for layer, units in enumerate(options.hidden):
        hidden = tf.layers.dense(hidden, units, tf.nn.relu, name="deep_{}".format(layer))
    return tf.layers.dense(tf.concat([crossed, hidden], 1), 1, name="logit")[:, 0]


def logits_of(features, columns, options, training):
    """Logits [B]; where nothing is trained no unseen key gets a row."""
    if columns is None:
        embeddings = looked_up(features)
    else:
        embeddings = tf.feature_column.input_layer(features, columns, trainable=training)
    return dcnv2(embeddings, features, options)


class Evaluate(tf.train.SessionRunHook):
    """Scores the test files when training ends, all ranks together, and prints the AUC on rank 0."""

    def __init__(self, steps, labels, scores):
        self._steps, self._batch = steps, [labels, scores]

    def end(self, session):
        """Called by the session, with the plain session inside it."""
        session.run(self._steps.initializer)
        found = [np.zeros([2, 0])]
        while True:
            try:
                found.append(np.stack(session.run(self._batch)))
            except tf.errors.OutOfRangeError:
                break
        everything = MPI.COMM_WORLD.gather(np.concatenate(found, 1))
        step = session.run(tf.train.get_global_step())
        if everything is not None:
            labels, scores = np.concatenate(everything, 1)
            print("step {}: test AUC {:.4f} of {} samples".format(step, auc(labels, scores), len(labels)), flush=True)


class Progress(tf.train.SessionRunHook):
    """Prints loss and speed on rank 0."""

    def __init__(self, loss, every):
        self._fetches, self._every, self._since = [tf.train.get_global_step(), loss], every, None

    def before_run(self, run_context):
        """What to fetch besides."""
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        """Now and then a line."""
        step, loss = run_values.results
        now = time.time()
        if self._since is None:
            self._since = now, step
        elif step % self._every == 0:
            print("step {}: loss {:.4f}, {:.1f} steps/s".format(
                step, loss, (step - self._since[1]) / (now - self._since[0])), flush=True)


def arguments():
    """The command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of train*.csv and test*.csv; without it some are made")
    parser.add_argument("--use_feature_columns", action="store_true", help="tf.feature_column in place of lookups")
    parser.add_argument("--batch_size", type=int, default=512, help="samples of all ranks in a step")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="where to end before the data do")
    parser.add_argument("--learning_rate", type=float, default=0.003, help="of LazyAdam")
    parser.add_argument("--cross_layers", type=int, default=3)
    parser.add_argument("--low_rank", type=int, default=32, help="of the cross layers' matrices")
    parser.add_argument("--hidden", type=int, nargs="*", default=[128, 64], help="units of the layers of ReLUs")
    parser.add_argument("--checkpoint_dir", help="folder of checkpoints, which all ranks see")
    parser.add_argument("--save_steps", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--log_every", type=int, default=50, help="steps between lines")
    parser.add_argument("--seed", type=int, default=1, help="of first values and of the order of samples")
    return parser.parse_args()


def main():
    """Builds the model, trains, evaluates."""
    options = arguments()
    tf.config.experimental.enable_distributed_strategy(strategy="collective")
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    data = options.data
    if data is None:
        data = criteo.DEFAULT_FOLDER
        if rank == 0 and not criteo.files(data, "train"):
            criteo.make(data)
        MPI.COMM_WORLD.Barrier()
    if not criteo.files(data, "train") or not criteo.files(data, "test"):
        sys.exit("no train*.csv or no test*.csv in {}".format(data))
    tf.set_random_seed(options.seed)

    # Ranks whose files end earlier have empty batches until all have ended.
    share = max(1, options.batch_size // ranks)
    train = sok1x.EvenSteps(criteo.batches(criteo.files(data, "train", rank, ranks), share, options.epochs,
                                           options.seed))
    features, labels = train.get_next()
    columns = feature_columns() if options.use_feature_columns else None
    with tf.variable_scope("model"):
        logits = logits_of(features, columns, options, True)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    # The strategy averages gradients over the ranks: so the losses of the ranks average to that of all their samples.
    loss = tf.reduce_sum(entropy) * ranks / tf.cast(train.samples, tf.float32)
    step = tf.train.AdamAsyncOptimizer(options.learning_rate).minimize(loss, tf.train.get_or_create_global_step())

    test = sok1x.EvenSteps(criteo.batches(criteo.files(data, "test", rank, ranks), share))
    test_features, test_labels = test.get_next()
    with tf.variable_scope("model", reuse=True):
        scores = tf.sigmoid(logits_of(test_features, columns, options, False))

    hooks = [Evaluate(test, test_labels, scores)]
    if rank == 0:
        hooks.append(Progress(tf.reduce_mean(entropy), options.log_every))
    if options.steps:
        hooks.append(tf.train.StopAtStepHook(last_step=options.steps))
    config = tf.ConfigProto(intra_op_parallelism_threads=0 if ranks == 1 else 1)
    config.gpu_options.allow_growth = True
    # Else each first run of anything in this graph, as of 26 tables that are restored, optimizes all of it anew.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=options.checkpoint_dir, save_checkpoint_steps=options.save_steps, save_checkpoint_secs=None,
            save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None, hooks=hooks,
            config=config) as session:
        while not session.should_stop():
            session.run(step)


if __name__ == "__main__":
    main()
