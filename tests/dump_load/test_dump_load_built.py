"""An OptimizerWrapper whose slots `build` has made is loaded before its first step."""
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok


def test_what_build_has_made_is_loaded_before_the_first_step(tmp_path):
    sok.init()

    def made():
        table = sok.DynamicVariable(2, initializer="ones", init_capacity=4, name="items")
        return table, sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))

    with tf.Graph().as_default(), tf.Session() as session:
        table, optimizer = made()
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([3, 5, 3])))
        step = optimizer.apply_gradients([(tf.gradients(loss, table)[0], table)])
        session.run(tf.global_variables_initializer())
        session.run(step)
        sok.dump(str(tmp_path / "dumped"), table, optimizer, session=session)
        expected = session.run(sok.export(table)), session.run(optimizer.get_slot(table, "accumulator"))
    with tf.Graph().as_default(), tf.Session() as session:
        table, optimizer = made()
        with pytest.raises(ValueError, match=r"or its build\(\[variable\]\)"):
            sok.load(str(tmp_path / "dumped"), table, optimizer, session=session)
        optimizer.build([table])
        session.run(tf.global_variables_initializer())
        sok.load(str(tmp_path / "dumped"), table, optimizer, session=session)
        found = session.run(sok.export(table)), session.run(optimizer.get_slot(table, "accumulator"))
    for one, other in zip(tf.nest.flatten(expected), tf.nest.flatten(found)):
        assert (one[:2] == other[:2]).all()
