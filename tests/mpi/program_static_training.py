"""sok.Variables trained on any number of ranks as plain variables with all rows are on one, by optimizers of all kinds.

    mpiexec -np N python program_static_training.py SEED
"""
import sys
import warnings

import numpy as np
import static_model as model
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from static_model import RANK, TABLES, N, world

import sok1x as sok

v1 = tf
warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
STEPS = 12

# For the tables, and for plain variables where that is another.
OPTIMIZERS = {
    "SGD": [lambda: v1.train.GradientDescentOptimizer(0.05)],
    "Adam": [lambda: v1.train.AdamOptimizer(0.01)],
    "LazyAdam": [lambda: stock_lazy_adam.LazyAdamOptimizer(0.01)],
    "our Adam": [lambda: sok.optimizers.Adam(0.01), lambda: tf.keras.optimizers.Adam(0.01)],
    "Keras Adagrad": [lambda: tf.keras.optimizers.Adagrad(0.05)],
}


class Model:
    """The tables with fed ids, and a loss over all of them."""

    def __init__(self, wholes):
        self.tables = model.variables(wholes)
        self.feds = [model.Fed(*table[4:]) for table in TABLES]
        outs = sok.lookup_sparse(self.tables, [fed.ids for fed in self.feds], [fed.weights for fed in self.feds],
                                 [table[3] for table in TABLES])
        self.loss = loss_of(outs)

    def feeds(self, batches):
        return {key: value for fed, batch in zip(self.feds, batches) for key, value in fed.feeds(batch).items()}


class Plain:
    """The same with plain variables that have all rows, and all ranks' batches: one rank's to train."""

    def __init__(self, wholes):
        self.tables = [tf.Variable(whole, use_resource=True) for whole in wholes]
        self.references = [model.Reference(table, one[3], one[6], tf.float32)
                           for table, one in zip(self.tables, TABLES)]
        self.loss = loss_of([reference.stock for reference in self.references])

    def feeds(self, batches):
        return {key: value for reference, batch in zip(self.references, batches)
                for key, value in reference.feeds(batch).items()}


def loss_of(outs):
    return tf.add_n([tf.reduce_sum(tf.square(out - 0.1)) for out in outs])


def step_of(optimizer, made):
    if isinstance(optimizer, tf.keras.optimizers.Optimizer):
        return optimizer.get_updates(made.loss, made.tables)
    return optimizer.minimize(made.loss, var_list=made.tables)


def draws(random):
    mine = [model.Batch(random, table[0], 0 if random.randint(4) == 0 else 5, plain=True) for table in TABLES]
    every = world.allgather(mine)
    return mine, [model.joined([batches[place] for batches in every]) for place in range(len(TABLES))]


def check_optimizer(name, seed):
    same, own = np.random.RandomState(seed), np.random.RandomState(seed + 1 + RANK)
    wholes = [same.uniform(-1, 1, table[:2]).astype(np.float32) for table in TABLES]
    with tf.Graph().as_default(), v1.Session() as session:
        tf.keras.backend.set_session(session)
        made, plain = Model(wholes), None
        steps = [step_of(OPTIMIZERS[name][0](), made)]
        if RANK == 0:
            plain = Plain(wholes)
            steps.append(step_of(OPTIMIZERS[name][-1](), plain))
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            mine, every = draws(own)
            session.run(steps, {**made.feeds(mine), **(plain.feeds(every) if plain else {})})
        got = session.run(made.tables)
        expected = world.bcast(session.run(plain.tables) if plain else None)
        for place, (one, whole, before) in enumerate(zip(got, expected, wholes)):
            assert not np.array_equal(whole, before)
            np.testing.assert_allclose(one, model.rows_of(TABLES[place][2], whole), rtol=2e-3, atol=2e-4,
                                       err_msg="{}, table {}, rank {}".format(name, place, RANK))


def check_dense_variables_in_a_scope_of_a_tables_name():
    """They are no slots of the table: they are broadcast, and averaged, as any dense variable."""
    with tf.Graph().as_default():
        table = sok.Variable(np.ones([4 * N, 2], np.float32), name="user")
        with v1.variable_scope("user"):
            dense = v1.get_variable("dense", [4 * N, 2], initializer=v1.zeros_initializer(), use_resource=True)
        out = sok.all2all_dense_embedding(table, tf.constant([0, 1, 2]))
        step = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(out) + tf.reduce_sum(dense))
        later = v1.get_variable("user/later", [4, 2], use_resource=True)
        kinds = {variable.op.name: type(variable).__name__ for variable in v1.global_variables()}
        assert kinds["user/dense"] == kinds["user/later"] == "ResourceVariable", kinds
        assert kinds["user/Adam"] == kinds["user/Adam_1"] == "ShardVariable", kinds
        assert kinds["user/dense/Adam"] == "ResourceVariable", kinds
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(later.assign(tf.fill([4, 2], float(RANK + 1))))
            session.run(sok.broadcast_global_variables(N - 1))
            session.run(step)
            assert (session.run(later) == N).all()


def check_sessions_graphs_and_loops(seed):
    same = np.random.RandomState(seed)
    whole = same.uniform(-1, 1, [11, 4]).astype(np.float32)
    with tf.Graph().as_default():
        tables = [sok.Variable(whole, name="first"),
                  sok.Variable(whole, mode="localized:{}".format(N - 1), name="second")]
        ids = v1.placeholder(tf.int64, [None])
        bags = tf.RaggedTensor.from_row_lengths(ids, [2, 1])
        train = sok.lookup_sparse(tables, [bags, bags], combiners="sum")
        loss = tf.add_n([tf.reduce_sum(one) for one in train])
        global_step = v1.train.get_or_create_global_step()
        step = v1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step)
        evaluate = sok.lookup_sparse(tables, [bags, bags], combiners=["mean", "sum"])

        def body(count, total):
            return count + 1, total + sok.all2all_dense_embedding(tables[0], tf.stack([count, count + 1]))

        looped = tf.while_loop(lambda count, _: count < 3, body, [tf.constant(0, tf.int64), tf.zeros([2, 4])])[1]
        expected = whole.copy()
        with v1.train.MonitoredTrainingSession() as session:
            for _ in range(3):
                session.run(step, {ids: [0, 10, 3]})
                expected[[0, 10, 3]] -= N
            one, two = session.run(evaluate, {ids: [10, 3, 0]})
            rows = session.run(looped, {ids: [0, 0, 0]})
            np.testing.assert_allclose(one, [(expected[10] + expected[3]) / 2, expected[0]], rtol=1e-5)
            np.testing.assert_allclose(two, [expected[10] + expected[3], expected[0]], rtol=1e-5)
            np.testing.assert_allclose(rows, [expected[:3].sum(0), expected[1:4].sum(0)], rtol=1e-5)
            keys, values = sok.export(tables[0], session)
            np.testing.assert_array_equal(keys, np.arange(11)[RANK::N])
            np.testing.assert_allclose(values, expected[RANK::N], rtol=1e-5)
            keys, values = sok.incremental_dump(tables[1], 0, session)
            np.testing.assert_array_equal(keys, [0, 3, 10] if RANK == N - 1 else [])
            np.testing.assert_allclose(values, expected[keys], rtol=1e-5)
        with v1.Session() as first, v1.Session() as second:
            for session in (first, second):
                session.run(v1.global_variables_initializer())
            first.run(step, {ids: [0, 10, 3]})
            np.testing.assert_allclose(second.run(evaluate[1], {ids: [0, 10, 3]}), [whole[0] + whole[10], whole[3]],
                                       rtol=1e-6)
            np.testing.assert_allclose(first.run(evaluate[1], {ids: [0, 10, 3]}),
                                       [whole[0] + whole[10] - 2 * N, whole[3] - N], rtol=1e-5)


def check_beside_layers(seed):
    """Both APIs in one graph: a layer's table and a sok.Variable in one call, and in one step of one optimizer."""
    with tf.Graph().as_default(), v1.Session() as session:
        layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1,
                                          nnz_per_slot=1, embedding_initializer="ones")
        table = sok.Variable(np.full([5, 2], 2.0, np.float32))
        bags = tf.ragged.constant([[0, 4], [1]], dtype=tf.int64)
        one, two = sok.lookup_sparse([layer.embedding_variable, table], [bags, bags], combiners="sum")
        of_layer = layer(tf.constant([[[0]], [[77]]], tf.int64))
        loss = tf.reduce_sum(one) + tf.reduce_sum(two) + tf.reduce_sum(of_layer)
        step = sok.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.25), average=False).minimize(loss)
        assert session.run(sok.Init(global_batch_size=4)) == b"OK"
        session.run(v1.global_variables_initializer())
        session.run(step)
        first, second, third = session.run([one, two, of_layer])
        np.testing.assert_allclose(first, np.array([[2 - 0.75 * N] * 4, [1 - 0.25 * N] * 4]))
        np.testing.assert_allclose(second, np.array([[4 - 0.5 * N] * 2, [2 - 0.25 * N] * 2]))
        np.testing.assert_allclose(third[1, 0, 0], [1 - 0.25 * N] * 4)


if __name__ == "__main__":
    seed = int(sys.argv[1])
    sok.init()
    for place, name in enumerate(OPTIMIZERS):
        check_optimizer(name, seed + place)
    check_dense_variables_in_a_scope_of_a_tables_name()
    check_sessions_graphs_and_loops(seed)
    check_beside_layers(seed)
    sys.stdout.write("ok\n")
