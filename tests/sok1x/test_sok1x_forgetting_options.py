"""The options of tables that forget: who takes them, and what is refused."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable

DIM = 2


def test_dynamic_variables_and_layers_forget(graph):
    items = sok.DynamicVariable(dimension=DIM, initializer="13", init_capacity=2, max_capacity=4)
    layer = sok.All2AllDenseEmbedding(4, DIM, 1, 1, evict_strategy="kLfu", name="layer")
    drawn = sok.DynamicVariable(dimension=DIM, var_type="hbm", filter_ratio=0.5, name="drawn")
    keys = tf.placeholder(tf.int64, [None])
    ragged = tf.RaggedTensor.from_row_lengths(keys, [tf.size(keys)])
    looked = [sok.lookup_sparse(items, ragged), layer(tf.reshape(keys, [-1, 1, 1]), training=True)]
    filtered = sok.lookup_sparse(drawn, ragged, use_low_frequency_filter=True)
    every = sok.lookup_sparse(drawn, ragged)
    twin = sok.All2AllDenseEmbedding.from_config(layer.get_config())
    assert twin.embedding_variable.table.forgetting == layer.embedding_variable.table.forgetting
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in ([1, 2, 3], [3, 4, 5], [6]):
            session.run(looked, {keys: batch})
        assert session.run(items.size).tolist() == [4, DIM]
        for table in (items, layer.embedding_variable):
            index = session.run(table.index[0])
            assert {3, 6} <= set(index[index[:, 1] >= 0, 0])
        session.run(filtered, {keys: range(100)})
        entered = session.run(drawn.size)[0]
        assert 20 < entered < 80
        session.run(every, {keys: range(100)})
        assert session.run(drawn.size)[0] == 100


@pytest.mark.parametrize("error, options, words", [
    (TypeError, dict(evict_stratgy="lru"), "unknown .*evict_stratgy; known are .*evict_strategy"),
    (ValueError, dict(max_capacity=4, evict_strategy="fifo"), "evict_strategy: got 'fifo', expected one of 'lru'"),
    (TypeError, dict(max_capacity=4, evict_strategy=1), "evict_strategy: got 1 of type int"),
    (ValueError, dict(evict_strategy="lru"), "no max_capacity"),
    (ValueError, dict(max_capacity=4, evict_strategy="ttl"), "time_to_live"),
    (ValueError, dict(max_capacity=4, evict_strategy="lru", time_to_live=5), "time_to_live"),
    (ValueError, dict(max_capacity=4, evict_strategy="ttl", time_to_live=0), "time_to_live: got 0"),
    (ValueError, dict(filter_ratio=0.0), "filter_ratio: got 0.0, expected a probability"),
    (ValueError, dict(filter_ratio=1.5), "filter_ratio: got 1.5"),
    (TypeError, dict(filter_ratio="often"), "filter_ratio: got 'often' of type str"),
    (ValueError, dict(admit_after=2 ** 31), "admit_after: got 2147483648, expected an integer from 1 to 2147483647"),
    (ValueError, dict(admission_counters=8), "admission_counters: got 8 without admit_after"),
    (ValueError, dict(remember_evicted=8), "remember_evicted: got 8 without evict_strategy"),
    (TypeError, dict(leaves_when_asked="no"), "leaves_when_asked: got 'no' of type str, expected True or False"),
    (TypeError, dict(absent_value="0"), "absent_value: got '0' of type str, expected a number"),
    (ValueError, dict(absent_value=float("inf")), "absent_value: got inf, expected a finite number"),
])
def test_options_that_do_not_fit_are_refused(graph, error, options, words):
    with pytest.raises(error, match=words):
        EmbeddingVariable(rows=None, dim=DIM, **options)
    assert not tf.global_variables()


def test_what_needs_a_table_that_forgets_says_so(graph):
    plain = sok.DynamicVariable(dimension=DIM, var_type="hbm", max_capacity=4)
    ids = tf.RaggedTensor.from_row_lengths(tf.constant([1], tf.int64), [1])
    for function, arguments in ((sok.sparse_read_and_evict, ([1],)), (sok.evicted_keys, (0,))):
        with pytest.raises(TypeError, match="expected a table that forgets"):
            function(plain, *arguments)
        with pytest.raises(TypeError, match="got 'DynamicVariable', which keeps all rows, expected a table that"):
            function(plain, *arguments)
        with pytest.raises(TypeError, match="variable: got 3 of type int, expected a table that forgets"):
            function(3, *arguments)
    with pytest.raises(ValueError, match="use_low_frequency_filter: got True for table 'DynamicVariable'"):
        sok.lookup_sparse(plain, ids, use_low_frequency_filter=True)
    with pytest.raises(ValueError, match="var_type='hbm', expected var_type='hybrid'"):
        sok.DynamicVariable(dimension=DIM, var_type="hbm", max_capacity=4, evict_strategy="lru")
    with pytest.raises(ValueError, match="got values of rows for a table that forgets"):
        sok.DynamicVariable(dimension=DIM, max_capacity=4, initializer=np.ones([DIM], np.float32))
    with pytest.raises(ValueError, match="use_hashtable=False"):
        EmbeddingVariable(rows=4, dim=DIM, use_hashtable=False, evict_strategy="lru")
