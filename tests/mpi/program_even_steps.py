"""Trains even_steps_model.py's model on ranks with different numbers of samples, in the given ways; saves what came.

    mpiexec -np N python program_even_steps.py OUT.npz SEED WAY ...

Some ways only check: batches of every kind of tensor, Keras, and two of them in one step.
"""
import sys
import tempfile
import time

import even_steps_model as model
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
RANK, RANKS = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
CONFIG = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)


def dataset(seed):
    """This rank's batches: ids int64 [B, S], bags sparse int64 [B, S, H], names string [B]; labels float32 [B]."""
    ids, bags, names, labels = model.samples(seed, RANK, model.SIZES[RANKS][RANK])
    slices = tf.data.Dataset.from_tensor_slices((ids, bags, names.astype(bytes), labels))
    return slices.map(lambda ids, bags, names, labels: (
        {"ids": ids, "bags": tf.SparseTensor(tf.where(bags >= 0), tf.boolean_mask(bags, bags >= 0),
                                             [model.SLOTS, model.MOST_KEYS]), "names": names}, labels)
    ).batch(model.BATCH).prefetch(2)


class Model:
    """The two layers, and what is made of a batch."""

    def __init__(self):
        self.single = sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=model.VOCABULARY, embedding_vec_size=model.DIM, slot_num=model.SLOTS,
            nnz_per_slot=1, name="single")
        self.summed = sok.DistributedEmbedding(
            combiner="sum", max_vocabulary_size_per_gpu=model.VOCABULARY, embedding_vec_size=model.DIM,
            slot_num=model.SLOTS, max_nnz=model.MOST_KEYS, name="summed")
        every = np.resize(np.arange(model.VOCABULARY), [model.VOCABULARY // model.SLOTS, model.SLOTS, 1])
        rows = np.arange(model.VOCABULARY)
        bags = tf.SparseTensor(np.stack([rows, 0 * rows], 1), rows, [model.VOCABULARY, model.MOST_KEYS])
        self.tables = [tf.reshape(self.single(tf.constant(every), training=False), [-1, model.DIM]),
                       tf.reshape(self.summed(bags, training=False), [-1, model.DIM])]

    def train(self, features, labels, samples):
        """(this rank's part of the loss, the op that trains)."""
        keys = tf.sparse.reshape(features["bags"], [-1, model.MOST_KEYS])
        values = model.logits(self.single(features["ids"][..., None], training=True), self.summed(keys, training=True),
                              features["names"])
        loss = model.loss(values, labels, samples)
        optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(model.RATE), average=False)
        return loss, optimizer.minimize(loss, tf.train.get_or_create_global_step())

    def fetches(self):
        """What tells how training ended."""
        dense = {variable.op.name: variable for variable in tf.trainable_variables()
                 if not isinstance(variable, sok.EmbeddingVariable)}
        return dict(dense, single=self.tables[0], summed=self.tables[1])


class Record(tf.train.SessionRunHook):
    """Losses of the steps, and the variables when training has ended in good order."""

    def __init__(self, made, loss):
        self.made, self.loss, self.losses, self.ended = made, loss, [], None

    def begin(self):
        self.fetches = self.made.fetches()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)

    def end(self, session):
        self.ended = session.run(self.fetches)


def in_a_session_loop(seed):
    """Two epochs: yields tables and variables before the first, then losses and variables of each."""
    steps = sok.EvenSteps(dataset(seed))
    features, labels = steps.get_next()
    assert features["ids"].shape.as_list() == [None, model.SLOTS] and labels.shape.as_list() == [None]
    assert features["bags"].shape.rank == 3 and features["names"].shape.as_list() == [None]
    made = Model()
    loss, train = made.train(features, labels, steps.samples)
    fetches = made.fetches()
    sizes = []
    with tf.Session(config=CONFIG) as session:
        session.run(sok.Init(global_batch_size=RANKS * model.BATCH))
        session.run(tf.global_variables_initializer())
        yield [], session.run(fetches)
        for epoch in range(2):
            losses = []
            session.run(steps.initializer)
            while True:
                try:
                    value, size, _ = session.run([loss, tf.size(labels), train])
                except tf.errors.OutOfRangeError as error:
                    assert "EvenSteps" in error.message, error.message
                    break
                losses.append(value)
                sizes.append(size)
            yield losses, session.run(fetches)
        try:  # as TensorFlow's iterators: over until it is initialized again
            session.run(train)
            raise AssertionError("a step after the end")
        except tf.errors.OutOfRangeError:
            pass
    mine = model.SIZES[RANKS][RANK]
    starts = range(0, max(model.SIZES[RANKS]), model.BATCH)
    assert sizes == 2 * [min(model.BATCH, max(0, mine - start)) for start in starts], sizes


def in_a_monitored_session(seed):
    """One epoch."""
    steps = sok.EvenSteps(dataset(seed))
    features, labels = steps.get_next()
    made = Model()
    loss, train = made.train(features, labels, steps.samples)
    record = Record(made, loss)
    with tf.train.MonitoredTrainingSession(
            hooks=[sok.InitHook(global_batch_size=RANKS * model.BATCH), record], config=CONFIG) as session:
        while not session.should_stop():
            session.run(train)
    yield record.losses, record.ended


def in_an_estimator(seed):
    """One epoch."""
    records = []

    def input_fn():
        steps = sok.EvenSteps(dataset(seed))
        features, labels = steps.get_next()
        return dict(features, samples=steps.samples), labels

    def model_fn(features, labels, mode):
        made = Model()
        loss, train = made.train(features, labels, features["samples"])
        records.append(Record(made, loss))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=records)

    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(
            folder, save_summary_steps=None, save_checkpoints_steps=None, save_checkpoints_secs=None,
            log_step_count_steps=None, session_config=CONFIG)
        tf.estimator.Estimator(model_fn, config=config).train(
            input_fn, hooks=[sok.InitHook(global_batch_size=RANKS * model.BATCH)])
    yield records[0].losses, records[0].ended


def two_at_once(_):
    """Two of them in a step, one of which ends first, epoch after epoch: no step of a rank meets another's next one."""
    first = sok.EvenSteps(tf.data.Dataset.range(5 if RANK == 1 else 2).batch(1))
    numbers = tf.data.Dataset.range(40).batch(1 + RANK)
    if RANK == 0:  # which therefore has not announced the second one when the first ends
        numbers = numbers.map(lambda values: tf.py_func(waited, [values], tf.int64))
        numbers = numbers.map(lambda values: tf.reshape(values, [-1]))
    second = sok.EvenSteps(numbers)
    totals = []
    take_back_late()
    with tf.Session(config=CONFIG) as session:
        for _ in range(5):
            session.run([first.initializer, second.initializer])
            while True:
                try:
                    totals.append(session.run([first.samples, second.samples]))
                except tf.errors.OutOfRangeError:
                    break
    both = RANKS * (RANKS + 1) // 2
    assert totals == 5 * (2 * [[RANKS, both]] + 3 * [[1, both]]), totals


def in_keras(seed):
    """`fit` ends on all ranks after the same step, and has the same dense weights there."""
    steps = sok.EvenSteps(dataset(seed))
    features, labels = steps.get_next()
    made = Model()
    ids = tf.keras.Input(tensor=features["ids"])
    hidden = tf.keras.layers.Flatten()(made.single(ids[..., None]))
    fitted = tf.keras.Model(ids, tf.keras.layers.Dense(1, tf.sigmoid, kernel_initializer="ones")(hidden))
    batches = []
    count = tf.keras.callbacks.LambdaCallback(on_batch_begin=lambda batch, logs: batches.append(batch))
    with tf.Session(config=CONFIG) as session:
        tf.keras.backend.set_session(session)
        session.run([tf.global_variables_initializer(), steps.initializer])
        fitted.compile(sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.1), average=False), "binary_crossentropy",
                       target_tensors=[labels[:, None]])
        fitted.fit(steps_per_epoch=1000, epochs=3, verbose=0, callbacks=[count])
        weights = MPI.COMM_WORLD.allgather(np.concatenate([w.ravel() for w in session.run(fitted.weights[-2:])]))
    longest = -(-max(model.SIZES[RANKS]) // model.BATCH)
    assert batches == list(range(longest + 1)), batches  # the last one finds the end
    assert all((given == weights[0]).all() for given in weights) and abs(weights[0][:-1] - 1).max() > 1e-3, weights


def waited(values):
    """Is called for each batch of the rank that is slow to read."""
    time.sleep(0.02)
    return values


def take_back_late():
    """From here on rank 1 is slow to take back what a failed step has announced, as where it shares its CPU."""
    coordinator = launch.current().coordinator
    withdraw = coordinator.withdraw

    def slow(ticket):
        time.sleep(0.2)
        withdraw(ticket)

    if RANK == 1:
        coordinator.withdraw = slow


def kinds_of_tensors(_):
    """A rank without data gets empty batches of every kind; one with data, what its own iterator gives."""
    numbers = tf.data.Dataset.range(4 if RANK == 0 else 0)
    padded = numbers.map(lambda i: tf.fill([i, 2], 0.5)).padded_batch(2, [None, 2])
    others = numbers.map(lambda i: ({"sparse": tf.SparseTensor([[0, 0]], [tf.cast(i, tf.int32)], [2, 3]),
                                     "text": tf.as_string(i)}, (i > 1, tf.cast(i, tf.half))))
    ragged = tf.ragged.constant([[[[1, 2]], []], [[[3, 4]]]], ragged_rank=2, inner_shape=(2,))
    batches = tf.data.Dataset.zip({
        "padded": padded, "others": others.batch(2, drop_remainder=True),
        "ragged": tf.data.Dataset.from_tensors(ragged).repeat(2 if RANK == 0 else 0)})
    steps = sok.EvenSteps(batches)
    given = steps.get_next()
    iterator = tf.data.make_initializable_iterator(batches)
    flat = [tf.nest.flatten(value, expand_composites=True) for value in (given, iterator.get_next())]
    assert [a.dtype for a in flat[0]] == [b.dtype for b in flat[1]]
    assert all(a.shape.rank == b.shape.rank for a, b in zip(*flat)), flat
    assert given["others"][1][0].shape.as_list() == [None] and given["padded"].shape.as_list() == [None, None, 2]
    with tf.Session(config=CONFIG) as session:
        session.run([tf.tables_initializer(), iterator.initializer])
        for _ in range(2):
            values, tensors, samples = session.run([given, flat[0], steps.samples])
            assert samples == 2
            if RANK == 0:
                for a, b in zip(tensors, session.run(flat[1])):
                    assert a.dtype == b.dtype
                    np.testing.assert_array_equal(a, b)
                continue
            features, (flags, halves) = values["others"]
            assert values["padded"].shape == (0, 0, 2) and flags.shape == halves.shape == features["text"].shape == (0,)
            assert features["sparse"].dense_shape.tolist() == [0, 2, 3] and features["sparse"].indices.shape == (0, 3)
            assert values["ragged"].to_list() == [] and values["ragged"].flat_values.shape == (0, 2)
        try:
            session.run(given)
            raise AssertionError("a step after the end")
        except tf.errors.OutOfRangeError:
            pass


def main():
    """Each way in a graph of its own; rank 0 saves the sums of the losses over the ranks, and the variables."""
    out, seed = sys.argv[1], int(sys.argv[2])
    results = {}
    for way in sys.argv[3:]:
        with tf.Graph().as_default():
            for epoch, (losses, ended) in enumerate(globals()[way](seed) or ()):
                gathered = MPI.COMM_WORLD.gather(losses)
                for name, value in ended.items():
                    results["{}/{}/{}".format(way, epoch, name)] = value
                if RANK == 0:
                    results["{}/{}/losses".format(way, epoch)] = np.sum(gathered, axis=0)
    if RANK == 0:
        np.savez(out, **results)


if __name__ == "__main__":
    main()
