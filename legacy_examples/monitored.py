"""Trains demo.py's model under tf.train.MonitoredTrainingSession, with Horovod for the dense variables.

    mpiexec -np 2 python legacy_examples/monitored.py
    horovodrun --mpi -np 2 python legacy_examples/monitored.py

The places that sok1x adds to such a script: the layers (in model.py), InitHook, and that only dense gradients go
through Horovod.
"""
import argparse
import sys

import horovod.tensorflow as hvd
import movielens
import numpy as np
import tensorflow.compat.v1 as tf
from model import WideAndDeep, add_arguments, auc, batches, make_optimizers, part_of, shuffled
from mpi4py import MPI

import sok1x as sok


def endless(rows, options):
    """This rank's part of one global batch after another."""
    epoch = 0
    while True:
        epoch += 1
        for batch in batches(shuffled(rows, options.seed, epoch), options.batch_size):
            yield part_of(batch, hvd.rank(), hvd.size())


def train_op(objective, optimizer_name):
    """One step: embedding gradients stay with the ranks that own the rows, dense ones are summed over all."""
    embeddings, dense = sok.split_embedding_variable_from_others(tf.trainable_variables())
    gradients = tf.gradients(objective, embeddings + dense)
    # hvd.Sum, not hvd.Average: the ranks' objectives add up to the global batch's; see model.py.
    dense_gradients = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in gradients[len(embeddings):]]
    for_tables, for_dense = make_optimizers(optimizer_name)
    with sok.OptimizerScope(embeddings):
        update_tables = for_tables.apply_gradients(zip(gradients, embeddings))
    update_dense = for_dense.apply_gradients(zip(dense_gradients, dense))
    with tf.control_dependencies([update_tables, update_dense]):
        return tf.train.get_or_create_global_step().assign_add(1, read_value=False)


class TestHook(tf.train.SessionRunHook):
    """Scores the test ratings when training ends, on all ranks, and prints the AUC on rank 0."""

    def __init__(self, model, rows, batch_size):
        self.model, self.rows, self.batch_size = model, rows, batch_size

    def end(self, session):
        """Called by the session, with the plain session inside it."""
        mine = self.model.evaluate(session, self.rows, self.batch_size, hvd.rank(), hvd.size())
        tested = MPI.COMM_WORLD.gather(mine)
        if hvd.rank() == 0:
            labels, scores = (np.concatenate(parts) for parts in zip(*tested))
            print("step {}: test AUC {:.4f}".format(
                session.run(tf.train.get_global_step()), auc(labels, scores)), flush=True)


def main():
    """Builds the model, lists the hooks, trains."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--log_every", type=int, default=100, help="steps between lines of LoggingTensorHook")
    add_arguments(parser)
    options = parser.parse_args()
    hvd.init()

    data = movielens.load(movielens.fetch(options.data))
    train_rows, test_rows = data.split()
    tf.set_random_seed(options.seed)
    model = WideAndDeep(data, options.batch_size)
    train = train_op(model.objective, options.optimizer)

    hooks = [
        sok.InitHook(global_batch_size=options.batch_size, seed=options.seed),
        hvd.BroadcastGlobalVariablesHook(0),  # dense variables; shards are left alone
        tf.train.StopAtStepHook(last_step=options.steps),
        TestHook(model, test_rows, options.batch_size),
    ]
    if hvd.rank() == 0:
        tf.logging.set_verbosity(tf.logging.INFO)
        # This rank's part of the loss, scaled up: a sum over the ranks would need them all to run this hook.
        hooks.append(tf.train.LoggingTensorHook({"step": tf.train.get_global_step(), "loss": model.loss * hvd.size()},
                                                every_n_iter=options.log_every))
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    feeds = endless(train_rows, options)
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
        while not session.should_stop():
            session.run(train, model.feed(next(feeds), training=True))


if __name__ == "__main__":
    try:
        main()
    except movielens.DataError as problem:
        sys.exit("MovieLens-100k: {}".format(problem))
