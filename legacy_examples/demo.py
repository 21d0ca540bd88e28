"""Trains a wide-and-deep click model on MovieLens-100k in a plain tf.Session loop, its tables spread over the ranks.

    mpiexec -np 2 python legacy_examples/demo.py
    python legacy_examples/demo.py
    mpiexec -np 2 python legacy_examples/demo.py --checkpoint_dir saved      # and again after Ctrl-C: it goes on

A sample's label is whether its rating is 4 or 5. The model is in model.py. The test AUC ends above 0.78 and does not
depend on the number of ranks.
"""
import argparse
import sys
import time

import movielens
import numpy as np
import tensorflow.compat.v1 as tf
from model import WideAndDeep, add_arguments, auc, batches, make_optimizers, part_of, shuffled
from mpi4py import MPI

import sok1x as sok


class Progress:
    """A line every second: how far, how fast, how long still."""

    def __init__(self, samples):
        self.samples = self.left = samples
        self.timed, self.seconds = 0, 0.0
        self.printed = None

    def add(self, samples, seconds, epoch):
        """Counts one step of all ranks."""
        self.left -= samples
        if self.printed is None:  # the first step also prepares the graph: it says nothing about the rate
            self.printed = time.time()
            return
        self.timed, self.seconds = self.timed + samples, self.seconds + seconds
        if time.time() - self.printed >= 1:
            self.printed = time.time()
            print("epoch {}: {:3.0f} % done, {:,.0f} samples/s, {:.0f} s left".format(
                epoch, 100 - 100.0 * self.left / self.samples, self.rate(), self.left / self.rate()), flush=True)

    def rate(self):
        """Samples of all ranks a second, in training alone."""
        return self.timed / max(self.seconds, 1e-9)


def train_op(objective, optimizer_name):
    """One step of the tables and of the dense variables."""
    embeddings, dense = sok.split_embedding_variable_from_others(tf.trainable_variables())
    gradients = tf.gradients(objective, embeddings + dense)
    # average=False: the parts of the objective add up over the ranks, so their gradients do too; see model.py.
    for_tables, for_dense = [sok.DistributedOptimizer(optimizer, average=False)
                             for optimizer in make_optimizers(optimizer_name)]
    return tf.group(for_tables.apply_gradients(zip(gradients, embeddings)),
                    for_dense.apply_gradients(zip(gradients[len(embeddings):], dense)))


def main():
    """Trains, and scores the test ratings after every epoch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoint_dir", help="where to save the training, and to go on from what is saved there")
    parser.add_argument("--save_steps", type=int, default=50, help="steps between checkpoints")
    add_arguments(parser)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    rank, ranks = comm.rank, comm.size

    data = movielens.load(movielens.fetch(options.data))
    train_rows, test_rows = data.split()
    if rank == 0:
        print("MovieLens-100k: {:,} ratings to train on, {:,} to test on, {:,} keys; ranks: {}".format(
            len(train_rows), len(test_rows), data.num_keys, ranks), flush=True)

    tf.set_random_seed(options.seed)
    model = WideAndDeep(data, options.batch_size)
    train = train_op(model.objective, options.optimizer)
    init = sok.Init(global_batch_size=options.batch_size, seed=options.seed)
    same_on_all_ranks = sok.broadcast_global_variables(0)
    checkpoints = sok.CheckpointManager(options.checkpoint_dir) if options.checkpoint_dir else None

    # Ranks share the cores of their host, so one thread each for TensorFlow's own kernels.
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    progress = Progress(options.epochs * len(train_rows))
    with tf.Session(config=config) as session:
        session.run(init)  # before anything else of sok1x, variable initializers included
        session.run(tf.global_variables_initializer())
        session.run(same_on_all_ranks)
        done = (checkpoints.restore(session) or 0) if checkpoints else 0
        if rank == 0 and done:
            print("going on after step {}, from {}".format(done, options.checkpoint_dir), flush=True)
        step = 0
        for epoch in range(1, options.epochs + 1):
            loss, trained = 0.0, 0
            for batch in batches(shuffled(train_rows, options.seed, epoch), options.batch_size):
                step += 1
                if step <= done:  # trained on before the checkpoint
                    progress.left -= len(batch)
                    continue
                began = time.time()
                feed = model.feed(part_of(batch, rank, ranks), training=True)
                loss += session.run([model.loss, train], feed)[0]
                trained += len(batch)
                if rank == 0:
                    progress.add(len(batch), time.time() - began, epoch)
                if checkpoints and step % options.save_steps == 0:
                    checkpoints.save(session, step)
            if not trained:
                continue
            tested = comm.gather(model.evaluate(session, test_rows, options.batch_size, rank, ranks))
            loss = comm.reduce(loss * options.batch_size / trained)
            if rank == 0:
                labels, scores = (np.concatenate(parts) for parts in zip(*tested))
                print("epoch {}: loss {:.4f}, test AUC {:.4f}".format(epoch, loss, auc(labels, scores)), flush=True)
        if checkpoints and step > done:
            checkpoints.save(session, step)
    if rank == 0:
        print("{:,.0f} samples/s in training".format(progress.rate()), flush=True)


if __name__ == "__main__":
    try:
        main()
    except movielens.DataError as problem:
        sys.exit("MovieLens-100k: {}".format(problem))
