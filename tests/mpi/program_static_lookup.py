"""sok.lookup_sparse and all2all_dense_embedding on any number of ranks, against tf.nn.embedding_lookup_sparse on the
whole tables in float64: values, gradients to tables and weights, and gradients of gradients.

    mpiexec -np N python program_static_lookup.py SEED
"""
import sys
import warnings

import numpy as np
import static_model as model
import tensorflow.compat.v1 as tf
from static_model import RANK, TABLES, N, world

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import V2

v1 = tf
warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")


def draws(random, number):
    """(one batch of each table for this rank, the same of all ranks): some ranks may have no sample."""
    samples = 0 if (number + RANK) % 5 == 4 else random.randint(1, 7)
    mine = [model.Batch(random, table[0], samples, plain=True) for table in TABLES]
    every = world.allgather(mine)
    return mine, [model.joined([batches[place] for batches in every]) for place in range(len(TABLES))]


def loss_of(outs):
    """Neither linear nor quadratic, so that gradients of any order count."""
    return tf.add_n([tf.reduce_sum(tf.cast(out, tf.float64) ** 3 * (1 + number)) for number, out in enumerate(outs)])


def dense(gradient, like):
    if gradient is None:
        return tf.zeros_like(like)
    return tf.convert_to_tensor(gradient)


def near(got, expected, what, terms=0.0):
    """terms: of the size of these numbers are what cancels out where little is left."""
    scale = max(1.0, np.abs(expected).max(initial=0.0), np.abs(terms).max())
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=5e-5 * scale,
                               err_msg="rank {}: {}".format(RANK, what))


def expectation(wholes):
    """References for all ranks' batches, and what `check_values_and_gradients` gets of tables that are whole."""
    plain = [tf.constant(whole, tf.float64) for whole in wholes]
    references = [model.Reference(one, table[3], table[6]) for one, table in zip(plain, TABLES)]
    expected_loss = loss_of([reference.out for reference in references])
    expected_first = [dense(one, whole) for one, whole in zip(tf.gradients(expected_loss, plain), plain)]
    weights = [reference.weights for reference, table in zip(references, TABLES) if table[6]]
    expected = [[reference.stock for reference in references], expected_first, tf.gradients(expected_loss, weights),
                [dense(one, like) for one, like in zip(tf.gradients(tf.add_n(
                    [tf.reduce_sum(one ** 2) for one in expected_first]), plain + weights), plain + weights)]]
    return references, expected


def check_values_and_gradients(seed):
    same, own = np.random.RandomState(seed), np.random.RandomState(seed + 1 + RANK)
    wholes = [same.uniform(-1, 1, table[:2]).astype(np.float32) for table in TABLES]
    with tf.Graph().as_default(), v1.Session() as session:
        tables = model.variables(wholes)
        session.run(v1.global_variables_initializer())
        made = len(v1.global_variables())
        feds = [model.Fed(*table[4:]) for table in TABLES]
        outs = sok.lookup_sparse(tables, [fed.ids for fed in feds], [fed.weights for fed in feds],
                                 [table[3] for table in TABLES])
        assert len(v1.global_variables()) == made  # lookups make no variables
        for out, whole in zip(outs, wholes):
            assert out.shape.as_list() == [None, whole.shape[1]] and out.dtype == tf.float32
        loss = loss_of(outs)
        first = tf.gradients(loss, tables)
        of_weights = [fed.weight_values for fed, table in zip(feds, TABLES) if table[6]]
        to_weights = tf.gradients(loss, of_weights)
        second = tf.gradients(tf.add_n([tf.reduce_sum(dense(one, table) ** 2) for one, table in zip(first, tables)]),
                              tables + of_weights)
        got = [outs, [dense(one, table) for one, table in zip(first, tables)], to_weights,
               [dense(one, table) for one, table in zip(second, tables + of_weights)]]

        if RANK == 0:
            references, expected = expectation(wholes)
        for number in range(3):
            mine, every = draws(own, number)
            feeds = {}
            for fed, batch in zip(feds, mine):
                feeds.update(fed.feeds(batch))
            values = session.run(got, feeds)
            wanted = None
            if RANK == 0:
                feeds = {}
                for reference, batch in zip(references, every):
                    feeds.update(reference.feeds(batch))
                wanted = session.run(expected, feeds)
            wanted = world.bcast(wanted)
            begin = sum(len(batch[0].ids) for batch in world.allgather(mine)[:RANK])
            samples = slice(begin, begin + len(mine[0].ids))
            keys = [sum(len(one) for one in batch.ids[:begin]) for batch in every]
            weighted = [place for place, table in enumerate(TABLES) if table[6]]
            for place, table in enumerate(TABLES):
                near(values[0][place], wanted[0][place][samples], "values of table {}".format(place))
                near(values[1][place], model.rows_of(table[2], wanted[1][place]), "gradient of table {}".format(place))
                near(values[3][place], model.rows_of(table[2], wanted[3][place]), "second of table {}".format(place),
                     wanted[1][place])
            for number_of, place in enumerate(weighted):
                count = len(mine[place].flat("ids"))
                piece = slice(keys[place], keys[place] + count)
                order = np.arange(count)
                if TABLES[place][5] == "unsorted":
                    order = np.random.RandomState(count).permutation(count)
                near(values[2][number_of], wanted[2][number_of][piece][order], "gradient of weights {}".format(place),
                     wanted[1][place])
                near(values[3][len(TABLES) + number_of], wanted[3][len(TABLES) + number_of][piece][order],
                     "second of weights {}".format(place), wanted[3][place])


def check_sums_of_weights_that_are_zero():
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.Variable([[1.0, 2.0], [0.0, 3.0]])
        ids = tf.ragged.constant([[0, 1], [0], [], [1, 1]], dtype=tf.int64)
        weights = tf.ragged.constant([[1.0, -1.0], [0.0], [], [2.0, -1.0]])
        session.run(v1.global_variables_initializer())
        mean, total = session.run([sok.lookup_sparse(table, ids, weights),
                                   sok.lookup_sparse(table, ids, weights, "sum")])
        divided = [[0, 0], [0, 0]] if V2 else [[np.inf, -np.inf], [np.nan, np.nan]]
        np.testing.assert_array_equal(mean, divided + [[0, 0], [0, 3]])
        np.testing.assert_array_equal(total, [[1, -1], [0, 0], [0, 0], [0, 3]])


def check_dense(seed):
    same, own = np.random.RandomState(seed), np.random.RandomState(seed + 1 + RANK)
    wholes = [same.uniform(-1, 1, table[:2]).astype(np.float32) for table in TABLES]
    with tf.Graph().as_default(), v1.Session() as session:
        tables = model.variables(wholes)
        session.run(v1.global_variables_initializer())
        ids = [own.randint(0, table[0], own.randint(0, 6)) for table in TABLES]
        outs = [sok.all2all_dense_embedding(table, tf.constant(one, TABLES[place][4]))
                for place, (table, one) in enumerate(zip(tables, ids))]
        given = v1.placeholder(tf.int64)  # of any rank
        square = sok.all2all_dense_embedding(tables[1], given)
        gradients = tf.gradients([tf.reduce_sum(out * out) for out in outs], tables)
        values, of_square, found = session.run([outs, square, [dense(*pair) for pair in zip(gradients, tables)]],
                                               {given: [[0, 1, 2], [3, 4, 5]]})
        np.testing.assert_array_equal(of_square, wholes[1][np.array([[0, 1, 2], [3, 4, 5]])])
        for place, (value, one, whole) in enumerate(zip(values, ids, wholes)):
            np.testing.assert_array_equal(value, whole[one].reshape(-1, whole.shape[1]))
            counts = np.bincount(np.concatenate(world.allgather(one)).astype(int), minlength=len(whole))
            near(found[place], model.rows_of(TABLES[place][2], 2 * whole * counts[:, None]), "dense {}".format(place))


def check_float16(seed):
    """Where one computes in float16, outputs are float16; gradients are of the rows, float32."""
    whole = np.random.RandomState(seed).uniform(-1, 1, [10, 4]).astype(np.float32)
    half = whole.astype(np.float16).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        table = sok.Variable(whole, mode="localized:{}".format(N - 1))
        ids = tf.ragged.constant([[0, 9], [], [3]], dtype=tf.int64)
        weights = tf.ragged.constant([[2.0, 1.0], [], [-1.0]])
        plain, weighted = sok.lookup_sparse([table, table], [ids, ids], [None, weights], "sum", dtype="mixed_float16")
        dense_one = sok.all2all_dense_embedding(table, ids.values, dtype=tf.float16)
        gradient, = tf.gradients([tf.cast(plain, tf.float32) * 8, tf.cast(weighted, tf.float32) * 8], [table])
        session.run(v1.global_variables_initializer())
        one, two, three, rows = session.run([plain, weighted, dense_one, tf.convert_to_tensor(gradient)])
        assert plain.dtype == weighted.dtype == dense_one.dtype == tf.float16 and rows.dtype == np.float32
        np.testing.assert_allclose(one, [whole[0] + whole[9], 0 * whole[0], whole[3]], atol=3e-3)
        np.testing.assert_allclose(two, [2 * half[0] + half[9], 0 * whole[0], -half[3]], atol=3e-3)
        np.testing.assert_array_equal(three, half[[0, 9, 3]])
        expected = np.zeros([10, 4])
        expected[[0, 9, 3]] = np.array([[24], [16], [0]]) * N
        np.testing.assert_array_equal(rows, model.rows_of(table.mode, expected))


def refused(session, out, *words, **fed):
    try:
        session.run(out, **fed)
    except tf.errors.InvalidArgumentError as error:
        for word in words:
            assert word in error.message, (word, error.message)
        return
    raise AssertionError("nothing was refused: {}".format(words))


def check_ids_out_of_range():
    with tf.Graph().as_default(), v1.Session() as session:
        tables = [sok.Variable(np.ones([rows, 2], np.float32), mode=mode, name=name) for rows, mode, name in (
            (8 * N, None, "even"), (8 * N + 1, None, "uneven"), (5, "localized:{}".format(N - 1), "local"))]
        session.run(v1.global_variables_initializer())
        before = session.run(tables)
        for table in tables:
            rows = table.global_shape.as_list()[0]
            given = v1.placeholder(tf.int64, [3])
            ids = tf.RaggedTensor.from_row_lengths(given, [1, 0, 2])
            weights = tf.ragged.constant([[1.0], [], [1.0, 1.0]])
            plain = sok.lookup_sparse(table, ids, combiners="sum")
            weighted, dense_one = sok.lookup_sparse(table, ids, weights), sok.all2all_dense_embedding(table, given)
            for bad in (rows, -1, 2 ** 62, -2 ** 63):
                # On one rank; the others are told.
                feed = {given: [0, 1, bad if RANK == N - 1 else 2]}
                words = ("'{}'".format(table.m_var_name), "rank {}".format(N - 1), "key {}".format(bad),
                         "position 2 of the batch, sample 2", "[0, {})".format(rows), "the variable's rows")
                refused(session, plain, *words, feed_dict=feed)
                refused(session, weighted, *words, feed_dict=feed)
                refused(session, dense_one, *words[:3], "position 2", *words[4:], feed_dict=feed)
        # Weights of one rank that lie in other places than its ids.
        places = v1.placeholder(tf.int64, [4]), v1.placeholder(tf.int64, [3, 2])
        ids, numbers = tf.constant([0, 1, 2], tf.int64), tf.constant([1.0, 2.0, 3.0])
        kept, own = v1.placeholder(tf.int64, [4]), v1.placeholder(tf.int64, [3, 2])
        elsewhere = sok.lookup_sparse(
            tables[:2], [tf.RaggedTensor.from_row_splits(ids, kept), tf.SparseTensor(own, ids, [2, 2])],
            [tf.RaggedTensor.from_row_splits(numbers, places[0]), tf.SparseTensor(places[1], numbers, [2, 2])], "sum")
        good = {kept: [0, 1, 1, 3], own: [[0, 0], [0, 1], [1, 0]], places[0]: [0, 1, 1, 3],
                places[1]: [[0, 0], [0, 1], [1, 0]]}
        for place, bad, words in (
                (places[0], [0, 1, 2, 3], "row splits are not those of sp_ids, first at split 2 of 4"),
                (places[1], [[0, 0], [1, 0], [1, 1]], "indices are not those of sp_ids, first at position 1")):
            session.run(elsewhere, good)
            refused(session, elsewhere, "rank {}".format(N - 1), words,
                    feed_dict={**good, place: bad} if RANK == N - 1 else good)
        session.run(elsewhere, good)
        unsorted = tf.SparseTensor([[1, 0], [0, 0]], tf.constant([0, 99], tf.int64), [2, 1])
        refused(session, sok.lookup_sparse(tables[1], unsorted), "key 99", "sample 0")
        refused(session, sok.lookup_sparse(tables[0], tf.SparseTensor([[2, 0]], [1], [2, 1])), "row 2", "[0, 2)")
        for one, other in zip(before, session.run(tables)):
            np.testing.assert_array_equal(one, other)


if __name__ == "__main__":
    seed = int(sys.argv[1])
    sok.init()
    check_values_and_gradients(seed)
    check_sums_of_weights_that_are_zero()
    check_dense(seed)
    check_float16(seed)
    check_ids_out_of_range()
    sys.stdout.write("ok\n")
