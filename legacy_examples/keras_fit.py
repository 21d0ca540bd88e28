"""Trains a wide-and-deep click model on MovieLens-100k with tf.keras: compile, fit, evaluate, predict.

    mpiexec -np 2 python legacy_examples/keras_fit.py
    python legacy_examples/keras_fit.py

The places that sok1x adds to such a script: the layers, Init in Keras' session, DistributedOptimizer, the part of the
loss, and two callbacks. A sample's label is whether its rating is 4 or 5.
"""
import argparse
import sys

import movielens
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

# TensorFlow 1.15 warns of 2.0 at every other call.
tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()

DIM, HIDDEN = 8, (64, 32)


def build_model(data):
    """Seven fields with one key each, and a film's genres, -1 where it has no more: the chance that one likes it."""
    fields = len(movielens.FIELDS)
    keys = tf.keras.Input([fields, 1], dtype=tf.int64, name="keys")
    padded = tf.keras.Input([data.max_genres], dtype=tf.int64, name="genres")
    where = tf.where(padded >= 0)
    genres = tf.SparseTensor(where, tf.gather_nd(padded, where), tf.shape(padded, out_type=tf.int64))

    # Nobody passes `training`: fit makes rows for unseen keys, evaluate and predict read their initial values.
    wide = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=data.num_keys, embedding_vec_size=1, slot_num=fields,
                                     nnz_per_slot=1, embedding_initializer="zeros", name="wide")
    deep = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=data.num_keys, embedding_vec_size=DIM,
                                     slot_num=fields, nnz_per_slot=1, name="deep")
    genre = sok.DistributedEmbedding(combiner="mean", max_vocabulary_size_per_gpu=data.vocabulary["genre"],
                                     embedding_vec_size=DIM, slot_num=1, max_nnz=data.max_genres, name="genre")
    flatten = tf.keras.layers.Flatten
    hidden = tf.keras.layers.concatenate([flatten()(deep(keys)), flatten()(genre(genres)), flatten()(wide(keys))])
    for units in HIDDEN:
        hidden = tf.keras.layers.Dense(units, activation="relu")(hidden)
    return tf.keras.Model([keys, padded], tf.keras.layers.Dense(1, activation="sigmoid")(hidden))


def part_of(data, rows, rank, ranks):
    """This rank's part of the samples, as Keras takes them. Each step takes all ranks: parts are equally long."""
    rows = rows[rank:len(rows) // ranks * ranks:ranks]
    padded = np.full([len(rows), data.max_genres], -1, np.int64)
    where, genres = data.genres(rows)
    padded[tuple(where.T)] = genres
    return [data.keys[rows][:, :, np.newaxis], padded], data.label[rows]


def train(options):
    """Trains; returns the model, the history, and this rank's part of the test samples."""
    comm = MPI.COMM_WORLD
    data = movielens.load(movielens.fetch(options.data))
    train_rows, test_rows = data.split()
    inputs, labels = part_of(data, train_rows, comm.rank, comm.size)
    tested = part_of(data, test_rows, comm.rank, comm.size)
    np.random.seed(options.seed)  # fit shuffles
    tf.set_random_seed(options.seed)

    # Ranks share the cores of their host, so one thread each for TensorFlow's own kernels.
    tf.keras.backend.set_session(tf.Session(config=tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)))
    model = build_model(data)
    # Gradients are summed over the ranks, so each rank's loss, a mean over its own samples, counts for 1 / ranks. (What
    # layers add to it, as a kernel_regularizer does, would have to be divided likewise: loss_weights leaves it alone.)
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.Adam(0.002), average=False), "binary_crossentropy",
                  loss_weights=[1.0 / comm.size], metrics=["binary_crossentropy", tf.keras.metrics.AUC(name="auc")])

    # In Keras' own session, before anything is trained, loaded or read.
    tf.keras.backend.get_session().run(sok.Init(global_batch_size=options.batch_size, seed=options.seed))
    history = model.fit(
        inputs, labels, batch_size=options.batch_size // comm.size, epochs=options.epochs, validation_data=tested,
        verbose=2 if comm.rank == 0 else 0,
        callbacks=[
            sok.BroadcastGlobalVariablesCallback(0),  # dense variables alone: tables stay with their ranks
            sok.MetricAverageCallback(),  # before what decides by metrics
            tf.keras.callbacks.EarlyStopping("val_auc", mode="max", patience=1),
        ])
    return model, history.history, tested


def main():
    """Trains, evaluates, and predicts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4, help="at most")
    parser.add_argument("--batch_size", type=int, default=1024, help="samples of all ranks in a step")
    parser.add_argument("--seed", type=int, default=1, help="of first values and of the order of samples")
    parser.add_argument("--data", default=movielens.DEFAULT_FOLDER, help="folder of MovieLens-100k; fetched if missing")
    options = parser.parse_args()
    model, _, (inputs, labels) = train(options)
    # All ranks call these too: each owns a part of the tables. What they return is of this rank's samples.
    results = model.evaluate(inputs, labels, batch_size=options.batch_size, verbose=0)
    scores = model.predict(inputs, batch_size=options.batch_size)
    comm = MPI.COMM_WORLD
    area, score = (comm.allreduce(value) / comm.size for value in (results[-1], float(scores.mean())))
    if comm.rank == 0:
        print("test AUC {:.4f}, mean score {:.4f}".format(area, score), flush=True)


if __name__ == "__main__":
    try:
        main()
    except movielens.DataError as problem:
        sys.exit("MovieLens-100k: {}".format(problem))
