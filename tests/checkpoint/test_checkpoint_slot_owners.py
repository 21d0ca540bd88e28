"""Whose slots a graph's variables are: with names that hold each other, and in graphs with many tables."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.session.tables import tables_of


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
            assert len(slots) == 2 and all(("ads/" in part) == ("ads/" in state.name) for part in slots), slots
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


def test_slots_of_optimizers_that_are_made_beside_another_table():
    """They are colocated with both, and the name tells; and tables that came with a MetaGraph are nobody's."""
    with tf.Graph().as_default():
        sok.All2AllDenseEmbedding(8, 2, 1, 1, name="other")(tf.constant([[[1]]], tf.int64))
        meta = tf.train.export_meta_graph()
    for names in (["zz", "aa"], ["aa", "zz"]):
        with tf.Graph().as_default():
            layers = {name: sok.All2AllDenseEmbedding(8, 2, 1, 1, name=name) for name in names}
            loss = sum(tf.reduce_sum(layer(tf.constant([[[1]]], tf.int64))) for layer in layers.values())
            tf.train.import_meta_graph(meta, import_scope="imported")
            variables = [layer.embedding_variable for layer in layers.values()]
            with tf.colocate_with(layers["aa"].embedding_variable.handle.op):
                tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=variables)
            found = {state.name: [part for part in state.parts if part.startswith("slot:")]
                     for state in tables_of(tf.get_default_graph())}
            assert found == {"{}/EmbeddingVariable".format(name): ["slot:{}/EmbeddingVariable/Adagrad".format(name)]
                             for name in names}
