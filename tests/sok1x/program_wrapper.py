"""Trains variables with wrapped optimizers, and the whole tables beside them with the plain ones; step by step equal.

    mpiexec -np N python program_wrapper.py SEED [STEPS [EVERY]]

Each case has an optimizer that is wrapped for two variables, one dealt out over the ranks and one on the last rank,
and trains a dense variable itself; and for comparison, on rank 0, two optimizers of the same kind in stock TensorFlow,
one for the whole tables, which sees the batches of all ranks, and one for the dense variable. All are in one graph. In
a fifth of the steps one rank alone has rows to move, in some nobody has. With EVERY it takes only each EVERY-th case.
Lookups are slow beside so small steps: only each fourth case, others in each run, looks up its own tables; those after
it take the same gradients.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from wrapper_cases import cases

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
ROWS, D = (13, 5), (3, 2)


class Batches:
    """Feeds for one step: this rank's batch, and that of all ranks."""

    def __init__(self, rank, ranks, random):
        self.rank, self._ranks, self._random = rank, ranks, random
        self.mine = [v1.sparse_placeholder(tf.int64) for _ in ROWS]
        self.whole = [v1.sparse_placeholder(tf.int64) for _ in ROWS]
        self.targets = [v1.placeholder(tf.float32, [None, dim]) for dim in D]
        self.whole_targets = [v1.placeholder(tf.float32, [None, dim]) for dim in D]
        self.dense = v1.placeholder(tf.float32, [4])

    def feed(self, step):
        feed = {self.dense: self._random.randn(4)}
        for table, rows in enumerate(ROWS):
            bags, targets = [], []
            for rank in range(self._ranks):
                samples = 0 if step % 10 == 7 else self._random.randint(0, 5)
                if step % 5 == 3:  # all keys are one rank's
                    known = np.arange(step % self._ranks, rows, self._ranks)
                else:
                    known = np.arange(rows)
                bags.append([self._random.choice(known, self._random.randint(0, 4) if len(known) else 0)
                             for _ in range(samples)])
                targets.append(self._random.randn(samples, D[table]).astype(np.float32))
            feed[self.mine[table]] = sparse(bags[self.rank])
            feed[self.whole[table]] = sparse(sum(bags, []))
            feed[self.targets[table]] = targets[self.rank]
            feed[self.whole_targets[table]] = np.concatenate(targets)
        return feed


def sparse(bags):
    indices = [[sample, place] for sample, bag in enumerate(bags) for place in range(len(bag))]
    return v1.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2),
                                np.array([key for bag in bags for key in bag], np.int64), [len(bags), 4])


def loss(outputs, targets):
    return tf.add_n([tf.reduce_sum(tf.square(output - target)) for output, target in zip(outputs, targets)])


class Case:
    def __init__(self, name, number, wrapped, plain, batches, shared, before):
        self.name = name
        first = [np.random.RandomState(number + table).randn(rows, dim).astype(np.float32)
                 for table, (rows, dim) in enumerate(zip(ROWS, D))]
        last = sok.communication.num_ranks() - 1
        self.tables = [sok.Variable(first[0]), sok.Variable(first[1], mode="localized:{}".format(last))]
        self.untrained = sok.Variable(first[0])
        self.whole = [v1.get_variable("whole_{}_{}".format(number, table), initializer=values, use_resource=True)
                      for table, values in enumerate(first) if batches.rank == 0]
        self.dense = [v1.get_variable("dense_{}_{}".format(number, i), initializer=np.ones(4, np.float32),
                                      use_resource=True) for i in range(2 if self.whole else 1)]
        self.optimizer = wrapped(*shared)
        self.wrapped = sok.OptimizerWrapper(self.optimizer)
        self.steps = v1.get_variable("steps_{}".format(number), initializer=0, use_resource=True, trainable=False)
        self.gradients = before.gradients if before else self.compute_gradients(batches)
        pairs = list(zip(self.gradients[0], self.tables))
        pairs.insert(number % 2, (None, self.untrained))
        dense_pairs = [list(zip(tf.gradients(tf.reduce_sum(tf.square(dense - batches.dense)), [dense]), [dense]))
                       for dense in self.dense]
        made = []
        for which in (0, 1) if number % 2 else (1, 0):  # whoever is the first to make variables
            if which:
                made.append(self.wrapped.apply_gradients(pairs, global_step=self.steps))
            else:
                made.append(self.optimizer.apply_gradients(dense_pairs[0]))
        self.values = [self.tables, self.slots(self.wrapped, self.tables), self.dense[0], self.steps, self.untrained]
        self.expected = []
        if self.whole:
            compared = [plain(*shared) for _ in range(2)]
            made += [compared[0].apply_gradients(zip(self.gradients[1], self.whole)),
                     compared[1].apply_gradients(dense_pairs[1])]
            self.expected = [self.whole, self.slots(compared[0], self.whole), self.dense[1]]
        self.step = tf.group(*made)
        self.first = first

    def compute_gradients(self, batches):
        """Of the tables, and of the whole ones if they are here."""
        combiners = ["sum", "mean"]
        found = sok.lookup_sparse(self.tables, batches.mine, combiners=combiners)
        made = tf.gradients(loss(found, batches.targets), self.tables)
        if not self.whole:
            return made, None
        expected = [tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner)
                    for table, ids, combiner in zip(self.whole, batches.whole, combiners)]
        # TensorFlow leaves out samples at the end that have no ids.
        expected = [tf.pad(output, [[0, tf.shape(target)[0] - tf.shape(output)[0]], [0, 0]])
                    for output, target in zip(expected, batches.whole_targets)]
        return made, tf.gradients(loss(expected, batches.whole_targets), self.whole)

    def slots(self, optimizer, variables):
        return [[optimizer.get_slot(variable, name) for variable in variables]
                for name in sorted(optimizer.get_slot_names())]

    def check(self, got, expected, step, rank, ranks):
        tables, slots, dense, steps, untrained = got
        whole, whole_slots, whole_dense = expected
        assert steps == step
        np.testing.assert_array_equal(untrained, self.first[0][rank::ranks])
        self.compare(dense, whole_dense, step, "the dense variable")
        for what, mine, every in [("rows", tables, whole)] + list(zip(
                self.wrapped.get_slot_names(), slots, whole_slots)):
            self.compare(mine[0], every[0][rank::ranks], step, what)
            self.compare(mine[1], every[1][:len(every[1]) if rank == ranks - 1 else 0], step, "localized " + what)

    def compare(self, got, expected, step, what):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg="{}, step {}: {}".format(
            self.name, step, what))


def main(seed, steps=50, every=1):
    sok.init()
    from mpi4py import MPI
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    rate = v1.get_variable("rate", initializer=0.05, use_resource=True, trainable=False)
    number = v1.train.get_or_create_global_step()
    batches = Batches(rank, ranks, np.random.RandomState(seed))
    made = []
    for i, (name, (wrapped, plain)) in enumerate(sorted(cases().items())[(seed + ranks) % every::every]):
        before = made[-1] if made and (i + seed) % 4 else None
        made.append(Case(name, i, wrapped, plain, batches, (rate, number), before))
    step = tf.group(*[case.step for case in made])
    with tf.control_dependencies([step]):
        step = number.assign_add(1)
    init = v1.global_variables_initializer()
    v1.get_default_graph().finalize()
    with v1.Session() as session:
        session.run(init)
        for i in range(1, steps + 1):
            session.run(step, batches.feed(i))
            if i == steps // 2:
                rate.load(0.01, session)
            values, every = session.run([[case.values for case in made], [case.expected for case in made]])
            every = MPI.COMM_WORLD.bcast(every)
            for case, got, expected in zip(made, values, every):
                case.check(got, expected, i, rank, ranks)
    moved = {case.name: np.abs(expected[0][0] - case.first[0]).max() for case, expected in zip(made, every)}
    assert min(moved.values()) > 0.05, moved
    print("rank", rank, "ok")


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]])
