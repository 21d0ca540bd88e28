"""The Keras example on any number of ranks, and what it leaves: python program_keras_fit.py EXAMPLES

Then small models of every kind with tables that are full: evaluate and predict train none.
"""
import argparse
import hashlib
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

sys.path.insert(0, sys.argv[1])
import keras_fit  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x.core.tables.shard_variable import ShardVariable  # noqa: E402

comm = MPI.COMM_WORLD
backend = tf.keras.backend


def equal(value):
    assert len(set(comm.allgather(repr(value)))) == 1, comm.allgather(repr(value))


def state():
    """What lookups may change: all of the tables. And a digest of the dense variables."""
    session, variables = backend.get_session(), tf.global_variables()
    tables = [variable for variable in variables if isinstance(variable, ShardVariable)]
    others = session.run([variable for variable in variables if variable not in tables])
    return session.run(tables), hashlib.sha256(b"".join(np.asarray(value).tobytes() for value in others)).hexdigest()


def unchanged(before, after):
    assert all(np.array_equal(one, two) for one, two in zip(before, after))


def example():
    options = argparse.Namespace(data=keras_fit.movielens.DEFAULT_FOLDER, epochs=2, batch_size=1024, seed=1)
    model, history, (inputs, labels) = keras_fit.train(options)
    equal(history)
    assert history["binary_crossentropy"][1] < history["binary_crossentropy"][0] < 0.69, history
    assert history["val_auc"][-1] > 0.76, history
    before, dense = state()
    equal(dense)
    results = model.evaluate(inputs, labels, batch_size=1024, verbose=0)
    model.predict([inputs[0] + 10 ** 9, inputs[1]], batch_size=1024)
    unchanged(before, state()[0])
    areas = comm.allgather(results[-1])
    assert abs(np.mean(areas) - history["val_auc"][-1]) < 1e-3


class Subclass(tf.keras.Model):
    """Its call takes no `training`, as users' often do not."""

    def __init__(self):
        super().__init__()
        self.table = sok.All2AllDenseEmbedding(16, 4, 2, 1)
        self.dense = tf.keras.layers.Dense(1)

    def call(self, keys):
        return self.dense(tf.reshape(self.table(keys), [-1, 8]))


def full_tables():
    """A rank's table is full after fit; unseen keys are evaluated and predicted all the same."""
    backend.clear_session()
    model = Subclass()
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), average=False), "mse")
    backend.get_session().run(sok.Init(global_batch_size=1024, seed=1))
    keys = np.arange(16 * comm.size).reshape([-1, 2, 1])  # every rank all of them
    labels = np.full([len(keys), 1], 1.0 + comm.rank)
    callbacks = [sok.BroadcastGlobalVariablesCallback(0), sok.MetricAverageCallback(),
                 tf.keras.callbacks.EarlyStopping("val_loss", min_delta=10.0)]
    early = model.predict(keys)
    history = model.fit(keys, labels, epochs=5, verbose=0, validation_data=(keys + 1000, labels * 2),
                        callbacks=callbacks).history
    equal(history)
    assert len(history["loss"]) == 2, history  # the callbacks agree on the epoch to stop after
    before, dense = state()
    equal(dense)
    assert backend.get_session().run(model.table.embedding_variable.index[-1]) == 16
    for _ in range(2):
        model.evaluate(keys + 5000, labels, verbose=0)
        assert model.predict(keys + 10 ** 6).shape == early.shape
        assert (model.predict(keys) != early).any()
        model.test_on_batch(keys - 10 ** 6, labels)
        model.predict_on_batch(keys - 10 ** 6)
    unchanged(before, state()[0])

    if comm.size > 1:  # as many ranks as steps: a rank with fewer would leave the others waiting
        few = slice(0, len(keys) - comm.rank)
        try:
            model.fit(keys[few], labels[few], batch_size=1, verbose=0, callbacks=callbacks)
        except ValueError as error:
            assert "got [{}] batches an epoch on the ranks in turn".format(
                ", ".join(str(len(keys) - rank) for rank in range(comm.size))) in str(error), error
        else:
            raise AssertionError("fitted")
        unchanged(before, state()[0])



if __name__ == "__main__":
    example()
    full_tables()
    print("rank", comm.rank, "ok")
