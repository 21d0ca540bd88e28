"""Gradients of a lookup's gradient on any number of ranks, against tf.gather of a plain variable with all ranks' rows;
and what a lookup whose exchange is fixed does not do.

    mpiexec -np N python program_second_order.py SEED
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.operations import embedding

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
world = MPI.COMM_WORLD
S, H, D, KEYS = 2, 3, 4, 24

# (exchange or 'dense', combiner, dtype, use_hashtable, training, highest order)
CASES = [("dense", "", "float32", True, False, 3), ("dense", "", "float16", False, "tensor", 2),
         ("all2all", "mean", "float32", True, "tensor", 2), ("all2all", "sum", "float16", True, False, 2),
         ("reduce_scatter", "mean", "float32", True, False, 3), ("reduce_scatter", "sum", "float16", True, True, 2),
         ("auto", "sum", "float32", False, True, 2)]


class Batch:
    """This rank's keys [B, S, H], of which each bag has the first few; dense cases use them all. And all ranks'."""

    def __init__(self, random):
        samples = 0 if world.rank == 1 else random.randint(2, 5)  # a rank without a sample too
        self.keys = random.randint(0, KEYS, [samples, S, H])
        self.lengths = random.randint(0, H + 1, samples * S)
        if samples:  # a key that has a row in every case, in a bag that has it
            self.keys[0, 0, 0], self.lengths[0] = 1, max(1, self.lengths[0])
        self.weights = random.uniform(0.05, 0.15, [samples, S, H, D]).astype(np.float32)

    def bags(self):
        where = np.array([[bag, place] for bag, length in enumerate(self.lengths) for place in range(length)])
        where = where.reshape(-1, 2).astype(np.int64)
        return v1.SparseTensorValue(where, self.keys.reshape(-1, H)[tuple(where.T)].astype(np.int64),
                                    [len(self.lengths), H])

    def of_all(self):
        made = Batch.__new__(Batch)
        for name in ("keys", "lengths", "weights"):
            setattr(made, name, np.concatenate(world.allgather(getattr(self, name))))
        return made


def loss_of(out, weights):
    """Neither linear nor quadratic, so that gradients of any order count."""
    return tf.reduce_sum(tf.square(tf.square(tf.cast(out, tf.float32))) * weights)


def gradients_of(loss, variable, orders):
    """The first two or three, as dense matrices: of a loss, of its gradient's powers, and of that one's square.

    The first is used through its values as well as through the matrix, which are the same where no row comes twice.
    """
    first = tf.gradients(loss, variable)[0]
    dense = tf.convert_to_tensor(first)
    values = first.values if isinstance(first, tf.IndexedSlices) and op_types.is_ours(first.values.op) else dense
    penalty = tf.reduce_sum(tf.square(values)) + tf.reduce_sum(tf.square(dense) * tf.constant([1, 2, -1, 0.5]))
    second = tf.convert_to_tensor(tf.gradients(penalty, variable)[0])
    if orders == 2:
        return [dense, second]
    return [dense, second, tf.convert_to_tensor(tf.gradients(tf.reduce_sum(tf.square(second)), variable)[0])]


class Case:
    """One layer of ours and its twin."""

    def __init__(self, kind, combiner, dtype, hashtable, training, orders, inputs):
        self.kind, self.dtype, self.hashtable = kind, dtype, hashtable
        dense_keys, bags, weights, self.flag = inputs
        self.training = True if training == "tensor" else training
        options = dict(max_vocabulary_size_per_gpu=KEYS if hashtable else KEYS // world.size, embedding_vec_size=D,
                       slot_num=S, use_hashtable=hashtable, dtype=dtype,
                       embedding_initializer="normal")
        if kind == "dense":
            layer = sok.All2AllDenseEmbedding(nnz_per_slot=H, **options)
        else:
            layer = sok.DistributedEmbedding(combiner, max_nnz=H, exchange=kind, **options)
        self.variable = layer.embedding_variable
        self.seen = np.arange(KEYS) % 3 > 0 if hashtable and not self.training else np.ones(KEYS, bool)
        variables = self.variable.table_variables
        self.insert = embedding.lookup_dense(variables, tf.constant(np.flatnonzero(self.seen)), True)
        self.rows = embedding.lookup_dense(variables, tf.constant(np.arange(KEYS)), False)
        out = layer(dense_keys if kind == "dense" else bags, training=self.flag if training == "tensor" else training)
        self.gradients = gradients_of(loss_of(out, weights if kind == "dense" else weights[:, :, 0]), self.variable,
                                      orders)
        # The twin: every key's row in one variable; a row that the table lacks does not train.
        self.twin = v1.get_variable("twin_{}".format(self.variable.m_var_name), [KEYS, D], use_resource=True)
        every, lengths, all_weights = self.fed = [
            v1.placeholder(tf.int64, [None, S, H]), v1.placeholder(tf.int64, [None]),
            v1.placeholder(tf.float32, [None, S, H, D])]
        kept = tf.constant(self.seen.astype(np.float32))[:, None]
        table = self.twin * kept + tf.stop_gradient(self.twin) * (1 - kept)
        if kind == "dense":
            expected = tf.gather(table, every)
        else:
            used = tf.sequence_mask(lengths, H, tf.float32)[:, :, None]
            expected = tf.reduce_sum(tf.gather(table, tf.reshape(every, [-1, H])) * used, 1)
            if combiner == "mean":
                expected /= tf.maximum(tf.cast(lengths, tf.float32), 1)[:, None]
            expected = tf.reshape(expected, [-1, S, D])
            all_weights = all_weights[:, :, 0]
        self.expected = gradients_of(loss_of(expected, all_weights), self.twin, orders)

    def rows_of_keys(self, session):
        """{key: row} of this rank's shard."""
        if not self.hashtable:
            return {row * world.size + world.rank: row for row in range(KEYS // world.size)}
        slots = session.run(self.variable.index[0])
        return dict(slots[slots[:, 1] >= 0].tolist())

    def check(self, session, got, expected):
        rows = world.allgather(self.rows_of_keys(session))
        for order, (matrix, wanted) in enumerate(zip(got, expected), 1):
            matrices, found = world.allgather(matrix), np.zeros([KEYS, D])
            for matrix, places in zip(matrices, rows):
                for key, row in places.items():
                    found[key] = matrix[row]
                    matrix[row] = 0
                assert not matrix.any(), "a row without a key has a gradient"
            assert np.abs(wanted).max() > 0
            # A number may be rounded to float16 at each of the steps that it has been through.
            part, least = (1e-5, 0) if self.dtype == "float32" else (0.005, 2.0 ** -24)  # least: float16's smallest
            limit = (part * np.abs(wanted).max() + least) * order * 2
            np.testing.assert_allclose(found, wanted, rtol=0, atol=limit,
                                       err_msg=str((self.kind, self.dtype, self.training, order)))


def check_forced_reduce_scatter(session, batch, bags):
    """Keys travel with their bags, whichever are distinct: only owners make keys distinct. Their range is checked."""
    options = dict(max_vocabulary_size_per_gpu=KEYS, embedding_vec_size=D, slot_num=S, max_nnz=H,
                   exchange="reduce_scatter")
    before = len(v1.global_variables())
    layers = [sok.DistributedEmbedding("sum", use_hashtable=hashtable, **options) for hashtable in (True, False)]
    outs = [layer(bags) for layer in layers]
    session.run(v1.variables_initializer(v1.global_variables()[before:]))
    feed = {bags: batch.bags()}
    for out in outs:
        inverse, = [op.outputs[1] for op in [out.op] + [one.op for one in out.op.inputs] if op.type == "Sok1xLookup"]
        assert session.run([out, inverse], feed)[1].size == 0
    for bad in (-1, KEYS * world.size, 2 ** 63 - 1):
        given = [[1], [2, bad], [], []] if world.rank == world.size - 1 else [[1], [], [], []]
        try:
            session.run(outs[1], {bags: v1.SparseTensorValue(
                np.array([[row, i] for row, bag in enumerate(given) for i in range(len(bag))]),
                np.array(sum(given, []), np.int64), [4, H])})
        except tf.errors.InvalidArgumentError as error:
            for part in (layers[1].embedding_variable.m_var_name, "rank {}".format(world.size - 1),
                         "got key {} at position 2 ".format(bad), "[0, {})".format(KEYS * world.size)):
                assert part in error.message, error.message
        else:
            raise AssertionError("key {} was taken".format(bad))
    session.run(outs, feed)


def main():
    seed = int(sys.argv[1])
    batch = Batch(np.random.RandomState([seed, world.rank]))
    inputs = [v1.placeholder(tf.int64, [None, S, H]), v1.sparse_placeholder(tf.int64),
              v1.placeholder(tf.float32, [None, S, H, D]), v1.placeholder(tf.bool, [])]
    chosen = CASES if world.size < 4 else CASES[:2] + CASES[3:5]
    cases = [Case(*case, inputs=inputs) for case in chosen]
    with v1.Session() as session:
        session.run(sok.Init(global_batch_size=32, seed=seed))
        session.run(v1.global_variables_initializer())
        session.run([case.insert for case in cases])
        feed = dict(zip(inputs, (batch.keys, batch.bags(), batch.weights, True)))
        together = batch.of_all()
        got = session.run([case.gradients for case in cases], feed)
        for case, rows in zip(cases, session.run([case.rows for case in cases])):
            case.twin.load(rows, session)
            feed.update(zip(case.fed, (together.keys, together.lengths, together.weights)))
        expected = session.run([case.expected for case in cases], feed)
        for case, ours, stocks in zip(cases, got, expected):
            case.check(session, ours, stocks)
        if world.size > 1:
            check_forced_reduce_scatter(session, batch, inputs[1])
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()
