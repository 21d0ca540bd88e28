"""Tables in a graph under `tf.distribute`: OneDeviceStrategy, and words for the others."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok

KINDS = {
    "layer": lambda ids: sok.All2AllDenseEmbedding(16, 4, 1, 1, name="t", embedding_initializer="ones")(
        ids[:, :, None], training=True),
    "variable": lambda ids: sok.all2all_dense_embedding(sok.Variable(np.ones([16, 4], np.float32), name="t"), ids),
    "dynamic": lambda ids: sok.all2all_dense_embedding(sok.DynamicVariable(4, name="t", initializer="1"), ids),
}


def losses(make, strategy, batch):
    """Of three steps of Adagrad."""
    def step_of(ids):
        loss = tf.reduce_sum(make(ids) ** 2)
        return loss, tf.train.AdagradOptimizer(0.1).minimize(loss)

    with tf.Graph().as_default():
        ids = tf.constant(batch)
        if strategy is None:
            loss, step = step_of(ids)
        else:
            with strategy.scope():
                loss, step = strategy.extended.call_for_each_replica(step_of, (ids,))
        with tf.Session() as session:
            session.run(sok.Init(global_batch_size=len(batch)))
            session.run(tf.global_variables_initializer())
            return [session.run([loss, step])[0] for _ in range(3)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_one_device_is_as_none(seed, kind):
    batch = np.random.RandomState(seed).randint(0, 16, [8, 1])
    alone = losses(KINDS[kind], None, batch)
    assert alone[0] > alone[1] > alone[2]
    found = losses(KINDS[kind], tf.distribute.OneDeviceStrategy("/cpu:0"), batch)
    np.testing.assert_allclose(found, alone, rtol=1e-6)  # the device of the other may be a GPU


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_others_are_refused(kind):
    """Also with one replica: in a graph their variables are copies, which a shard is not."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with pytest.raises(ValueError, match="under a tf.distribute.Mirrored.* in a graph, expected .*OneDeviceStrategy"):
        losses(KINDS[kind], strategy, np.zeros([2, 1], np.int64))
