"""TensorFlow 2's DenseFeatures with several columns of ours, as with TensorFlow's own.

    [mpiexec -np N] python program_dense_features.py
"""
import contextlib

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

columns = tf.feature_column
tf.get_logger().setLevel("ERROR")
KEYS, DIMS = 30, {"a": 4, "b": 3}
DATA = {name: np.arange(12)[:, np.newaxis] * (place + 1) for place, name in enumerate(DIMS)}


def embedded(module):
    ones = tf.compat.v1.ones_initializer()
    return [module.embedding_column(columns.categorical_column_with_identity(name, KEYS), dim, initializer=ones)
            for name, dim in DIMS.items()]


def predictions(module, layers, group):
    """Of a model that has been fitted, to the whole batch on every rank: and its tables' names."""
    tf.keras.utils.set_random_seed(5)
    scope = module.group_embedding_column_scope("both") if group else contextlib.nullcontext()
    with scope:
        made = embedded(module)
    features = {name: tf.keras.Input([1], dtype=tf.int64, name=name) for name in DIMS}
    found = [tf.keras.layers.DenseFeatures(part) for part in ([made] if layers == 1 else [[one] for one in made])]
    joined = [layer(features) for layer in found]
    outs = tf.keras.layers.Dense(1, kernel_initializer="ones")(tf.concat(joined, 1))
    model = tf.keras.Model(features, outs)
    optimizer = tf.keras.optimizers.legacy.SGD(0.01)
    model.compile(sok.DistributedOptimizer(optimizer) if module is not columns else optimizer,
                  lambda labels, outs: tf.reduce_mean((outs - labels) ** 2, -1), run_eagerly=group)
    for _ in range(3):
        model.fit(DATA, np.arange(12.0), batch_size=12, verbose=0, shuffle=False)
    return model.predict(DATA, verbose=0), [variable.name for layer in found for variable in layer.trainable_weights]


def check_sequences_of_one_name():
    """Each layer has its own table, as TensorFlow's have, and nothing keeps it."""
    column = sok.feature_column.embedding_column(columns.sequence_categorical_column_with_identity("a", KEYS), 2)
    found = [tf.keras.experimental.SequenceFeatures([column], name="steps") for _ in range(2)]
    first, second = (layer({"a": tf.sparse.from_dense(tf.constant([[3, 4]], tf.int64))})[0] for layer in found)
    assert found[0].trainable_weights[0] is not found[1].trainable_weights[0]
    assert first.shape == second.shape == [1, 2, 2]


def main():
    sok.init()
    if launch.current().size == 1:
        for layers, group in ((1, False), (2, False), (1, True)):
            wanted, _ = predictions(columns, layers, False)
            got, names = predictions(sok.feature_column, layers, group)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, err_msg=str((layers, group)))
            assert len(set(names)) == 2 and all("_embedding/embedding_weights" in name for name in names), names
    else:
        for layers in (1, 2):
            got, names = predictions(sok.feature_column, layers, False)
            assert np.all(np.isfinite(got)) and len(set(names)) == 2, names
    check_sequences_of_one_name()
    with tf.Graph().as_default():
        found = tf.keras.layers.DenseFeatures(embedded(sok.feature_column))(
            {name: tf.constant(values) for name, values in DATA.items()})
        assert found.shape.as_list() == [12, sum(DIMS.values())]
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main()
