"""Trains DLRM on click logs in Criteo's format in a tf.Session loop, scores it, and exports it for TensorFlow Serving.

    mpiexec -np 2 python legacy_examples/dlrm.py                                    # makes a small data set of its own
    mpiexec -np 2 python legacy_examples/dlrm.py --data FOLDER --checkpoint_dir saved --export model/1

FOLDER has train*.csv and test*.csv, each line a label, 13 numbers and 26 hashed strings. Each rank reads files of its
own, of any length: a rank that has fewer batches goes along with empty ones. A run that is started again goes on after
its last checkpoint, on as many ranks or others. What is exported loads without sok1x: `saved_model_cli show --dir
model/1 --all` tells what goes in and comes out.

The model: M. Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019:
numbers go through layers of ReLUs, strings through a table; each two of the 27 vectors are multiplied, and the products
go through layers of ReLUs.
"""
import argparse
import os
import sys
import time

import criteo
import numpy as np
import tensorflow.compat.v1 as tf
from model import auc
from mpi4py import MPI

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)


class DLRM:
    """The model in one graph: its table, and variables that are made when it is first called.

    The table has all fields, and grows: a key is the hash of a field's name and its string.
    """

    def __init__(self, options):
        self.options = options
        self.table = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=None, embedding_vec_size=options.dim, slot_num=len(criteo.STRINGS),
            nnz_per_slot=1, embedding_initializer=tf.keras.initializers.RandomUniform(-0.05, 0.05))

    def logits(self, numbers, strings, training):
        """float32 [B] from numbers, float32 [B, 13], and strings [B, 26]."""
        fields = tf.constant([criteo.STRINGS])
        keys = tf.strings.to_hash_bucket_fast(fields + ":" + strings, 2 ** 63 - 1)
        vectors = self.table(keys[:, :, tf.newaxis], training=training)[:, :, 0]            # [B, 26, D]
        with tf.variable_scope("dlrm", reuse=tf.AUTO_REUSE):
            hidden = tf.log1p(tf.maximum(numbers, 0.0))
            for layer, units in enumerate(self.options.bottom + [self.options.dim]):
                hidden = tf.layers.dense(hidden, units, tf.nn.relu, name="bottom_{}".format(layer))
            every = tf.concat([hidden[:, tf.newaxis], vectors], 1)                          # [B, 27, D]
            count = len(criteo.STRINGS) + 1
            products = tf.reshape(tf.matmul(every, every, transpose_b=True), [-1, count * count])
            below = [row * count + column for row in range(count) for column in range(row)]
            hidden = tf.concat([hidden, tf.gather(products, below, axis=1)], 1)
            for layer, units in enumerate(self.options.top):
                hidden = tf.layers.dense(hidden, units, tf.nn.relu, name="top_{}".format(layer))
            return tf.layers.dense(hidden, 1, name="logit")[:, 0]

    @staticmethod
    def columns(features):
        """Numbers and strings of a batch of criteo.batches."""
        return (tf.stack([features[name] for name in criteo.NUMBERS], 1),
                tf.stack([features[name] for name in criteo.STRINGS], 1))


def train_op(loss, learning_rate):
    """One step: of the table's rows those that the batch has, by LazyAdam; of the dense variables by Adam."""
    table, dense = sok.split_embedding_variable_from_others(tf.trainable_variables())
    # Gated: no kernel may take its step before the table's gradient has come through it.
    gradients = tf.gradients(loss, table + dense, gate_gradients=True)
    for_table = sok.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(learning_rate), average=False)
    for_dense = sok.DistributedOptimizer(tf.train.AdamOptimizer(learning_rate), average=False)
    return tf.group(for_table.apply_gradients(zip(gradients, table)),
                    for_dense.apply_gradients(zip(gradients[len(table):], dense)))


def served(options):
    """What sok.serving calls: the model of a graph that only predicts."""
    numbers = tf.placeholder(tf.float32, [None, len(criteo.NUMBERS)], "numbers")
    strings = tf.placeholder(tf.string, [None, len(criteo.STRINGS)], "strings")
    score = tf.sigmoid(DLRM(options).logits(numbers, strings, training=False))
    return {"numbers": numbers, "strings": strings}, {"score": score}


def run_to_the_end(session, steps, fetches):
    """What `fetches` give in each step until no rank has another batch."""
    session.run(steps.initializer)
    while True:
        try:
            yield session.run(fetches)
        except tf.errors.OutOfRangeError:
            return


def train_loop(session, options, steps, fetches, checkpoints, done):
    """Trains all epochs, and saves now and then. fetches: samples of all ranks, this rank's loss, and the step."""
    comm = MPI.COMM_WORLD
    step, since = 0, None
    for epoch in range(1, options.epochs + 1):
        session.run(steps.initializer)
        losses = []
        while options.steps is None or step < options.steps:
            try:
                # What was trained on before the checkpoint is only read.
                found = session.run(fetches if step >= done else fetches[:1])
            except tf.errors.OutOfRangeError:
                break
            step += 1
            if step <= done:
                continue
            losses.append(found[1])
            since = since or (step, time.time())
            if comm.rank == 0 and step % options.log_every == 0:
                print("epoch {}, step {}: loss {:.4f}, {:.1f} steps/s".format(
                    epoch, step, np.mean(losses), (step - since[0]) / (time.time() - since[1] + 1e-9)), flush=True)
            if checkpoints and step % options.save_steps == 0:
                checkpoints.save(session, step)
        loss = comm.reduce(np.sum(losses))  # the ranks' parts add up
        if comm.rank == 0 and losses:
            print("epoch {}: loss {:.4f} in {} steps".format(epoch, loss / len(losses), len(losses)), flush=True)
    return step


def check_export(path, batch, scores):
    """Scores this rank's first test samples once more, with what was exported, and no op of ours."""
    numbers, strings = batch
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        found = session.run(signature.outputs["score"].name, {signature.inputs["numbers"].name: numbers,
                                                              signature.inputs["strings"].name: strings})
    print("exported to {}: {} samples scored by stock TensorFlow differ by at most {:.1e}".format(
        path, len(found), np.max(np.abs(found - scores), initial=0)), flush=True)


def arguments():
    """The command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of train*.csv and test*.csv; without it some are made")
    parser.add_argument("--batch_size", type=int, default=512, help="samples of all ranks in a step")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="where to end before the data do")
    parser.add_argument("--learning_rate", type=float, default=0.003, help="of Adam")
    parser.add_argument("--dim", type=int, default=16, help="floats a row")
    parser.add_argument("--bottom", type=int, nargs="*", default=[64], help="units of the layers over the numbers")
    parser.add_argument("--top", type=int, nargs="*", default=[128, 64], help="units of the layers over the products")
    parser.add_argument("--checkpoint_dir", help="folder of checkpoints, which all ranks see")
    parser.add_argument("--save_steps", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--export", help="folder of the SavedModel to write at the end; needs --checkpoint_dir")
    parser.add_argument("--log_every", type=int, default=25, help="steps between lines")
    parser.add_argument("--seed", type=int, default=1, help="of first values and of the order of samples")
    options = parser.parse_args()
    if options.export and not options.checkpoint_dir:
        parser.error("--export needs --checkpoint_dir, for it is a checkpoint that is exported")
    if options.export and os.path.lexists(options.export):
        parser.error("--export {}: it is there already".format(options.export))
    return options


def data_folder(options):
    """Where the files are; they are made where none are given."""
    folder = options.data or criteo.DEFAULT_FOLDER
    if options.data is None:
        if MPI.COMM_WORLD.rank == 0 and not criteo.files(folder, "train"):
            criteo.make(folder)
        MPI.COMM_WORLD.Barrier()
    if not criteo.files(folder, "train") or not criteo.files(folder, "test"):
        sys.exit("no train*.csv or no test*.csv in {}".format(folder))
    return folder


def main():
    """Builds the graph, trains, scores, exports."""
    options, comm = arguments(), MPI.COMM_WORLD
    rank, ranks = comm.rank, comm.size
    data = data_folder(options)
    tf.set_random_seed(options.seed)
    model = DLRM(options)
    share = max(1, options.batch_size // ranks)

    train = sok.EvenSteps(criteo.batches(criteo.files(data, "train", rank, ranks), share, seed=options.seed))
    features, labels = train.get_next()
    logits = model.logits(*model.columns(features), training=True)
    # This rank's part of the mean over all ranks' samples: gradients are summed, those of the table by itself.
    loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)) / tf.cast(
        train.samples, tf.float32)
    step_op = train_op(loss, options.learning_rate)

    test = sok.EvenSteps(criteo.batches(criteo.files(data, "test", rank, ranks), share))
    test_features, test_labels = test.get_next()
    test_columns = model.columns(test_features)
    scores = tf.sigmoid(model.logits(*test_columns, training=False))

    init = sok.Init(global_batch_size=options.batch_size, seed=options.seed)
    same_on_all_ranks = sok.broadcast_global_variables(0)
    checkpoints = sok.CheckpointManager(options.checkpoint_dir) if options.checkpoint_dir else None
    config = tf.ConfigProto(intra_op_parallelism_threads=0 if ranks == 1 else 1)
    config.gpu_options.allow_growth = True
    with tf.Session(config=config) as session:
        session.run(init)  # before anything else of sok1x, variable initializers included
        session.run(tf.global_variables_initializer())
        session.run(same_on_all_ranks)
        done = (checkpoints.restore(session) or 0) if checkpoints else 0
        if rank == 0 and done:
            print("going on after step {}, from {}".format(done, options.checkpoint_dir), flush=True)
        step = train_loop(session, options, train, [train.samples, loss, step_op], checkpoints, done)
        if checkpoints and step > done:
            checkpoints.save(session, step)

        tested = list(run_to_the_end(session, test, [test_labels, scores, test_columns]))
        everything = comm.gather([np.concatenate(part) for part in list(zip(*tested))[:2]] if tested else
                                 [np.zeros(0)] * 2)
        if rank == 0:
            labels, found = (np.concatenate(parts) for parts in zip(*everything))
            print("step {}: test AUC {:.4f} of {} samples".format(step, auc(labels, found), len(labels)), flush=True)
    if options.export:
        sok.serving.export_saved_model(options.export, options.checkpoint_dir, lambda: served(options))
        if rank == 0:
            check_export(options.export, tested[0][2], tested[0][1])


if __name__ == "__main__":
    main()
