"""Whose slots a graph's variables are: with names that hold each other, and in graphs with many tables."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.tables import tables_of


@pytest.mark.parametrize("named_first", [False, True])
@pytest.mark.parametrize("make", [lambda: tf.train.AdamOptimizer(0.1), lambda: tf.train.FtrlOptimizer(0.1),
                                  lambda: tf.keras.optimizers.Adam(0.1)], ids=["Adam", "Ftrl", "Keras' Adam"])
def test_slots_of_a_table_without_a_name_beside_one_with(tmp_path, make, named_first):
    """LAYER/EmbeddingVariable/Adam is no slot of the table that is called EmbeddingVariable, though of its shape."""
    few, many = np.arange(3).reshape(-1, 1, 1), np.arange(100, 120).reshape(-1, 1, 1)

    def built():
        names = ["ads", None] if named_first else [None, "ads"]
        made = {name: sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=64, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
            embedding_initializer="ones", **({} if name is None else {"name": name})) for name in names}
        loss = sum(tf.reduce_sum(made[name](tf.constant(keys, tf.int64)) ** 2)
                   for name, keys in ((None, few), ("ads", many)))
        variables = [layer.embedding_variable for layer in made.values()]
        optimizer = make()
        if isinstance(optimizer, tf.train.Optimizer):
            step = optimizer.minimize(loss, var_list=variables)
        else:
            step = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables))
        return [made[None].embedding_variable, made["ads"].embedding_variable], step, sok.CheckpointManager(
            str(tmp_path / "saved"))

    def rows(session, tables):
        return [dict(zip(*(part.tolist() for part in sok.export(table, session)))) for table in tables]

    with tf.Graph().as_default(), tf.Session() as session:
        tables, step, manager = built()
        for state in tables_of(tf.get_default_graph()):
            slots = [part for part in state.parts if part.startswith("slot:")]
            assert len(slots) == 2 and all(part.startswith("slot:" + state.name + "/") or "/" + state.name + "/" in part
                                           for part in slots), slots
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        manager.save(session, 3)
        for _ in range(2):
            session.run(step)
        expected = rows(session, tables)
    with tf.Graph().as_default(), tf.Session() as session:
        tables, step, manager = built()
        session.run(sok.Init(global_batch_size=1))
        session.run(tf.global_variables_initializer())
        assert manager.restore(session) == 3
        for _ in range(2):
            session.run(step)
        assert rows(session, tables) == expected
