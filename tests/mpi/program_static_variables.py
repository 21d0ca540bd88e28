"""sok.Variable on any number of ranks: what it is made from, where its rows are, what is refused; export and assign.

    mpiexec -np N python program_static_variables.py SEED
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from static_model import RANK, N, rows_of, world

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.tables import table_root
from sok1x.graph_ops.stores.placement import Placement
from sok1x.graph_ops.stores.table import HASHED, Initializer, Table

v1 = tf
MODES = (None, "distributed", "localized:0", "localized:{}".format(N - 1))


def refused(error, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error as found:
        assert words in str(getattr(found, "message", found)), (words, found)
        return
    raise AssertionError("nothing was refused: {}".format(words))


def check_initial_values(seed):
    random = np.random.RandomState(seed)
    whole = random.uniform(-1, 1, [2 * N + 1, 3]).astype(np.float32)
    for mode in MODES:
        with tf.Graph().as_default() as graph, v1.Session() as session:
            made = {
                "array": (sok.Variable(whole, mode=mode), whole, tf.float32),
                "doubles": (sok.Variable(whole.astype(np.float64), mode=mode), whole, tf.float64),
                "cast": (sok.Variable((whole * 9).astype(np.int64), dtype="float32", mode=mode),
                         (whole * 9).astype(np.int64), tf.float32),
                "list": (sok.Variable([[1, 2], [3, 4], [5, 6]], mode=mode), np.arange(1, 7).reshape(3, 2), tf.int32),
                "floats": (sok.Variable([[1.5, 2.0], [3.0, 4.0]], mode=mode), np.array([[1.5, 2], [3, 4]]), tf.float32),
                "wide": (sok.Variable([[2 ** 40]], mode=mode), np.array([[2 ** 40]]), tf.int64),
                "one row": (sok.Variable([1.0, 2.0, 3.0], mode=mode), np.array([[1.0, 2, 3]]), tf.float32),
                "tensor": (sok.Variable(tf.constant(whole) * 2, mode=mode), whole * 2, tf.float32),
                "variable": (sok.Variable(tf.Variable(whole, use_resource=True), mode=mode), whole, tf.float32),
                "callable": (sok.Variable(lambda: whole, mode=mode), whole, tf.float32),
                "ones": (sok.Variable(shape=[5, 2], initializer="ones", mode=mode), np.ones([5, 2]), tf.float32),
                "object": (sok.Variable(shape=(5, 2), initializer=tf.keras.initializers.Constant(3), mode=mode),
                           np.full([5, 2], 3.0), tf.float32),
                "integers": (sok.Variable(shape=[4, 2], initializer="ones", dtype=tf.int64, mode=mode),
                             np.ones([4, 2]), tf.int64),
            }
            session.run(v1.global_variables_initializer())
            found = session.run({name: (table, sok.export(table)) for name, (table, _, _) in made.items()})
            for name, (table, expected, dtype) in made.items():
                got, (keys, values) = found[name]
                assert table.dtype.base_dtype == dtype, (name, table.dtype)
                np.testing.assert_array_equal(got, rows_of(mode, expected), err_msg=name)
                assert table.global_shape == expected.shape and table.num_gpus == N
                assert table.shape.as_list() == list(got.shape)
                assert table.mode == (mode or "distributed")
                assert table.target_gpu == (int(mode[10:]) if mode and mode.startswith("local") else -1)
                np.testing.assert_array_equal(keys, rows_of(mode, np.arange(len(expected))))
                np.testing.assert_array_equal(values, got)
            assert made["array"][0].name == "Variable:0" and made["doubles"][0].name == "Variable_1:0"
            assert isinstance(made["list"][0], sok.LocalizedVariable if mode and "local" in mode
                              else sok.DistributedVariable)
            assert {table for table, _, _ in made.values()} <= set(v1.trainable_variables())
            large = np.zeros([100 * N, 1000], np.float32)
            before = graph.as_graph_def().ByteSize()
            sok.Variable(large, mode=mode)
            assert graph.as_graph_def().ByteSize() - before < 20000  # none of its rows is in the graph


def check_rows_are_a_function_of_seed_table_and_number():
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.name_scope("a"):
            tables = [sok.Variable(shape=[3 * N + 1, 4], initializer="normal", name="t", mode=mode) for mode in MODES]
        assert [table.name for table in tables[:2]] == ["a/t:0", "a/t_1:0"]
        frozen = sok.Variable([[1.0]], trainable=False, name="frozen")
        assert frozen not in v1.trainable_variables() and frozen in v1.global_variables()
        session.run(v1.global_variables_initializer())
        every = [sorted(map(tuple, np.concatenate(world.allgather(session.run(table))).tolist())) for table in tables]
        assert len({tuple(one) for one in every}) == len(MODES)  # each table has rows of its own
    if N > 1:
        return
    with tf.Graph().as_default(), v1.Session() as session:
        here, there = [sok.Variable(shape=[8, 4], name="same", mode=MODES[2]) for _ in range(2)]
        session.run([here.initializer, there.initializer])
        assert not np.array_equal(*session.run([here, there]))


def check_refusals():
    with tf.Graph().as_default():
        refused(ValueError, "mode: got 'localized:{}', but there are {} ranks".format(N, N), sok.Variable, [[1.0]],
                mode="localized:{}".format(N))
        refused(TypeError, "LocalizedVariable 'here': target_gpu: got 0.9 of type float, expected an integer",
                sok.LocalizedVariable, [[1.0]], target_gpu=0.9, name="here")
        refused(ValueError, "target_gpu: got {}, expected an integer from 0 to {}".format(N, N - 1),
                sok.LocalizedVariable, [[1.0]], target_gpu=N)
        for mode in ("localized", "localized:-1", "everywhere", 0):
            refused(ValueError, "mode: got {!r}, expected None".format(mode), sok.Variable, [[1.0]], mode=mode)
        refused(ValueError, "got neither initial_value nor shape", sok.Variable)
        refused(ValueError, "got both initial_value and initializer", sok.Variable, [[1.0]], initializer="ones")
        refused(ValueError, "shape: got (3, 1), but the initial value has [1, 1]", sok.Variable, [[1.0]], shape=[3, 1])
        for value in (1.0, [[[1.0]]], np.zeros([0, 3]), v1.placeholder(tf.float32, [None, 3])):
            refused(ValueError, "expected [rows, D]", sok.Variable, value)
        refused(ValueError, "got rows of different lengths", sok.Variable, [[1, 2], [3]])
        for value in (np.zeros([2, 2], np.float16), [["a"]], [[True]]):
            refused(TypeError, "expected one of float32", sok.Variable, value)
        refused(ValueError, "caching_device", sok.Variable, [[1.0]], caching_device="/cpu:0")
        refused(ValueError, "validate_shape", sok.Variable, [[1.0]], validate_shape=False)
        refused(ValueError, "the name 'nobody'", sok.Variable, shape=[2, 2], initializer="nobody")
        assert not v1.global_variables()  # nothing is left behind

        table, numbers = sok.Variable([[1.0, 2.0]], name="table"), sok.Variable([[1, 2]], name="numbers")
        ids = tf.ragged.constant([[0]], dtype=tf.int64)
        refused(TypeError, "'numbers' of dtype int32, expected float32", sok.lookup_sparse, numbers, ids)
        refused(TypeError, "'numbers' of dtype int32", sok.all2all_dense_embedding, numbers, [0])
        refused(TypeError, "expected a sok1x.Variable", sok.lookup_sparse, tf.Variable([[1.0]]), ids)
        refused(TypeError, "sp_ids: got", sok.lookup_sparse, table, tf.constant([[0]]))
        refused(TypeError, "ids of dtype float32", sok.lookup_sparse, table, tf.ragged.constant([[0.0]]))
        refused(TypeError, "weights of dtype int32", sok.lookup_sparse, table, ids, tf.ragged.constant([[1]]))
        refused(ValueError, "expected [B, n]", sok.lookup_sparse, table, tf.ragged.constant([[[0]]]))
        for combiner in ("max", ""):
            refused(ValueError, "combiners: got '{}'".format(combiner), sok.lookup_sparse, table, ids,
                    combiners=combiner)
        refused(ValueError, "sp_ids: got 1 for 2 tables", sok.lookup_sparse, [table, table], [ids])
        refused(ValueError, "combiners: got 1 for 2 tables", sok.lookup_sparse, [table, table], [ids, ids],
                combiners=["sum"])
        refused(ValueError, "sp_ids: got a list", sok.lookup_sparse, table, [ids])
        refused(ValueError, "use_low_frequency_filter", sok.lookup_sparse, table, ids, use_low_frequency_filter=True)
        refused(ValueError, "got 2 weights for 1 ids", sok.lookup_sparse, table,
                tf.SparseTensor([[0, 0]], [0], [1, 1]), tf.SparseTensor([[0, 0], [0, 1]], [1.0, 1.0], [1, 2]))
        refused(TypeError, "expected a dense tensor of ids", sok.all2all_dense_embedding, table, ids)
        refused(TypeError, "ids of dtype float32", sok.all2all_dense_embedding, table, [0.0])
        refused(TypeError, "expected a sok1x.Variable, a sok1x.DynamicVariable, a layer", sok.export, [1.0])
        refused(TypeError, "keys: got dtype float32", sok.assign, table, [0.0], [[1.0, 2.0]])
        refused(ValueError, "expected [n] and [n, 2]", sok.assign, table, [0], [[1.0]])
        with tf.Graph().as_default():
            refused(ValueError, "in another tf.Graph", sok.lookup_sparse, table, ids)


def check_assign():
    with tf.Graph().as_default(), v1.Session() as session:
        for mode in MODES:
            for dtype in (np.float32, np.int64):
                whole = np.arange(3 * (2 * N + 1)).reshape(-1, 3).astype(dtype)
                table = sok.Variable(whole, mode=mode)
                keys, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, 3])
                assigned = sok.assign(table, keys, values)
                session.run(table.initializer)
                session.run([table.stamps.initializer, table.steps.initializer])
                new = {keys: [2 * N, 0, 2 * N, 1], values: np.full([4, 3], 7.0) + np.arange(4)[:, None]}
                session.run(assigned, new)
                whole[[2 * N, 0, 1]] = [[9] * 3, [8] * 3, [10] * 3]  # of equal keys the last counts
                np.testing.assert_array_equal(session.run(table), rows_of(mode, whole))
                changed, _ = sok.incremental_dump(table, 0, session)
                np.testing.assert_array_equal(changed, [key for key in rows_of(mode, np.arange(len(whole)))
                                                        if key in (0, 1, 2 * N)])
                refused(tf.errors.InvalidArgumentError, "got key {} at position 1 of the keys to assign".format(
                    len(whole)), session.run, assigned, {keys: [0, len(whole)], values: np.zeros([2, 3])})
                refused(tf.errors.InvalidArgumentError, "expected [n] and [n, 3]; nothing was changed", session.run,
                        assigned, {keys: [0], values: np.zeros([2, 3])})
                np.testing.assert_array_equal(session.run(table), rows_of(mode, whole))
        layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=4, embedding_vec_size=2, slot_num=1,
                                          nnz_per_slot=1, embedding_initializer="ones")
        assigned = sok.assign(layer.embedding_variable, [-5, 3, -5], [[1, 1], [2, 2], [3, 3]])
        out = layer(tf.constant([[[-5]], [[3]], [[4]]], tf.int64), training=False)
        full = sok.assign(layer.embedding_variable, np.arange(100 * N), np.zeros([100 * N, 2]))
        session.run(v1.variables_initializer(layer.variables))
        session.run(assigned)
        np.testing.assert_array_equal(session.run(out).reshape(3, 2), [[3, 3], [2, 2], [1, 1]])
        refused(tf.errors.ResourceExhaustedError, "is full", session.run, full)
        np.testing.assert_array_equal(session.run(out).reshape(3, 2), [[3, 3], [2, 2], [1, 1]])


class HashedOnOneRank(EmbeddingVariable):
    """A table with an index whose rows are all on one rank, as placements allow for every kind of table."""

    def __init__(self, rank):
        with table_root.room():
            initializer = Initializer("uniform", -1.0, 1.0)
            self._make(Table("hashed", 64, 4, HASHED, "int64", initializer, Placement(rank)), None, True)


def check_a_hashed_table_on_one_rank(seed):
    owner, random = N - 1, np.random.RandomState(seed + RANK)
    with tf.Graph().as_default(), v1.Session() as session:
        table = HashedOnOneRank(owner)
        ids = random.choice(np.arange(-9, 9) * 2 ** 40, 7)
        rows = sok.all2all_dense_embedding(table, tf.constant(ids))
        bags = sok.lookup_sparse(table, tf.RaggedTensor.from_row_lengths(tf.constant(ids), [3, 0, 4]), combiners="sum")
        gradient, = tf.gradients(tf.reduce_sum(rows), [table])
        step = v1.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, table)])
        session.run(v1.global_variables_initializer())
        before, of_bags = session.run([rows, bags])
        np.testing.assert_allclose(of_bags, [before[:3].sum(0), np.zeros(4), before[3:].sum(0)], atol=1e-5)
        every = np.concatenate(world.allgather(ids))
        keys, values = session.run(sok.export(table))
        assert sorted(keys) == (sorted(set(every)) if RANK == owner else []), keys
        known = dict(zip(*world.bcast((keys.tolist(), values.tolist()), root=owner)))
        np.testing.assert_array_equal(before, np.array([known[key] for key in ids], np.float32))
        session.run(step)
        counts = [(every == key).sum() for key in ids]
        np.testing.assert_allclose(session.run(rows), before - np.array(counts)[:, None], rtol=1e-5)


if __name__ == "__main__":
    seed = int(sys.argv[1])
    sok.init()
    check_initial_values(seed)
    check_rows_are_a_function_of_seed_table_and_number()
    check_refusals()
    check_assign()
    check_a_hashed_table_on_one_rank(seed)
    sys.stdout.write("ok\n")
