"""The same ops in flight several times: loops, threads, sessions on one graph.

    mpiexec -np 2 python program_in_flight.py SEED

All losses are sums of weights times embeddings, trained by plain gradient descent: a row ends at its start minus the
rate times the weights that it was used with, whoever used it and in whatever order.
"""
import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
SEED = int(sys.argv[1])
VOCABULARY, DIM, RATE = 50, 3, 0.5
TIMES, KEYS = 6, 9
EVERY = np.arange(-VOCABULARY // 2, VOCABULARY // 2)


class Batch:
    """Keys, weights, and which of them count, for the iterations of a loop: as many in each rank's as chance has it."""

    def __init__(self, *identity):
        random = np.random.RandomState([SEED] + list(identity))
        self.keys = random.randint(EVERY[0], EVERY[-1] + 1, [TIMES, KEYS]).astype(np.int64)
        self.weights = random.randint(-3, 4, [TIMES, KEYS]).astype(np.float32)
        self.counts = random.rand(TIMES, KEYS) < random.rand(TIMES, 1)

    def add_to(self, used):
        np.add.at(used, self.keys[self.counts] - EVERY[0], self.weights[self.counts])


class Model:
    """A lookup in a loop: `kind` says which layer and which loop."""

    def __init__(self, kind):
        self.kind = kind
        self.keys, self.weights = tf.placeholder(tf.int64, [TIMES, KEYS]), tf.placeholder(tf.float32, [TIMES, KEYS])
        self.counts = tf.placeholder(tf.bool, [TIMES, KEYS])
        if kind.startswith("dense"):
            self.layer = sok.All2AllDenseEmbedding(VOCABULARY, DIM, 1, 1, dynamic_input=True)
        else:
            self.layer = sok.DistributedEmbedding("sum", VOCABULARY, DIM, 1, KEYS, exchange=kind.split()[0])
        self.loss = self._loss()
        variable = self.layer.embedding_variable
        self.slices = tf.gradients(self.loss, variable)[0]
        optimizer = tf.train.GradientDescentOptimizer(RATE)
        self.train = optimizer.apply_gradients([(self.slices, variable)])
        # TensorFlow's steps of several threads would lose some of what they add to a row at the same time.
        self.given = tf.IndexedSlices(tf.placeholder(tf.float32, [None, DIM]), tf.placeholder(tf.int64, [None]),
                                      tf.constant([VOCABULARY, DIM], tf.int64))
        self.apply = optimizer.apply_gradients([(self.given, variable)])
        self.applying = threading.Lock()
        self.rows = self._look_up(tf.constant(EVERY), tf.ones([VOCABULARY]), training=False)

    def _look_up(self, keys, weights, training=True):
        """Sums of weights times rows: [n, D], each key a sample of its own."""
        if self.kind.startswith("dense"):
            return self.layer(keys, training) * weights[:, None]
        n = tf.size(keys, out_type=tf.int64)
        place = tf.stack([tf.range(n), tf.zeros([n], tf.int64)], 1)
        return self.layer(tf.SparseTensor(place, keys, tf.stack([n, KEYS])), training)[:, 0] * weights[:, None]

    def _iteration(self, keys, weights, counts):
        return tf.reduce_sum(self._look_up(tf.boolean_mask(keys, counts), tf.boolean_mask(weights, counts)))

    def _loss(self):
        given = (self.keys, self.weights, self.counts)
        if self.kind.endswith("while"):
            def body(i, total):
                return i + 1, total + self._iteration(*[tensor[i] for tensor in given])
            return tf.while_loop(lambda i, _: i < TIMES, body, [0, 0.0])[1]
        if self.kind.endswith("nested"):
            halves = [tf.reshape(tensor, [3, TIMES // 3, KEYS]) for tensor in given]
            return tf.reduce_sum(tf.map_fn(
                lambda half: tf.map_fn(lambda each: self._iteration(*each), half, tf.float32), halves, tf.float32))
        if self.kind.endswith("map"):
            return tf.reduce_sum(tf.map_fn(lambda each: self._iteration(*each), given, tf.float32))
        return self._iteration(*given)

    def feed(self, batch):
        return {self.keys: batch.keys, self.weights: batch.weights, self.counts: batch.counts}


def concurrently(calls):
    """Runs all calls, each on a thread of its own."""
    failed = []

    def guarded(call):
        try:
            call()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def started(config=None):
    session = tf.Session(config=config)
    session.run(init)
    session.run(variables)
    return session


kinds = ["dense map", "dense while", "dense nested", "dense plain", "all2all map", "reduce_scatter map",
         "all2all plain"]
models = [Model(kind) for kind in kinds]
init, variables = sok.Init(global_batch_size=8), tf.global_variables_initializer()
sessions = [started(), started(tf.ConfigProto(inter_op_parallelism_threads=3))]
RANK, RANKS = launch.current().rank, launch.current().size
start = [sessions[0].run(model.rows) for model in models]
used = [[np.zeros(VOCABULARY, np.float32) for _ in models] for _ in sessions]
THREADS, RUNS = 3, 3 if RANKS < 4 else 2


def expect(what):
    for session, sums in zip(sessions, used):
        for model, before, total in zip(models, start, sums):
            np.testing.assert_allclose(session.run(model.rows), before - RATE * total[:, None], rtol=1e-4, atol=1e-4,
                                       err_msg="{}: {}".format(what, model.kind))


def train(session, model, runs, *identity, beside_others=False):
    """beside_others: whether other threads train the same model, whose steps then take turns."""
    def run():
        trained, run_in = models[model], sessions[session].run
        for number in runs:
            fed = trained.feed(Batch(session, model, number, *identity, RANK))
            if not beside_others:
                run_in(trained.train, fed)
                continue
            found = run_in(trained.slices, fed)
            with trained.applying:
                run_in(trained.apply, {trained.given.values: found.values, trained.given.indices: found.indices})
    for number in runs:
        for rank in range(RANKS):
            Batch(session, model, number, *identity, rank).add_to(used[session][model])
    return run


# Loops, one run after the other.
for number in range(len(models)):
    train(0, number, range(2), 100)()
expect("loops")

# The same gradient on several threads, in a plain lookup and in a loop; all models at once.
concurrently([train(0, number, range(RUNS), 200, thread, beside_others=True)
              for number in (0, 3, 5, 6) for thread in range(THREADS)])
expect("threads")

# Two sessions on one graph, each with tables of its own, at the same time; the second runs for the first time.
concurrently([train(session, number, range(RUNS), 300, thread, beside_others=True)
              for session in (1, 0) for number in (0, 3, 6) for thread in range(2)])
expect("sessions")

# Training, and an evaluation through the same lookup, at the same time.
plain, fed = models[3], models[3].feed(Batch(0, 0, 0, 400, RANK))
concurrently([train(0, 3, range(10), 500)] + [lambda: [sessions[0].run(plain.loss, fed) for _ in range(10)]])
expect("training beside an evaluation")
print("rank", RANK, "ok")
