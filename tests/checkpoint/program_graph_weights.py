"""Run by test_checkpoint_graph_weights.py: `save_weights` and `load_weights` of a model in a graph, of two towers.

STAGE FOLDER SEED. `save` trains, saves, and goes on; `load` builds the towers in the other order, so that Keras gives
their layers other names, loads, and goes on likewise.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

keras = tf.keras
SAMPLES, KEYS = 64, 40


def dense(seed):
    """Equal on all ranks from the start."""
    return keras.layers.Dense(8, kernel_initializer=keras.initializers.RandomNormal(0, 0.3, seed=seed))


def tower(name):
    inputs = keras.Input([2, 1], dtype=tf.int64, name=name)
    layer = sok.All2AllDenseEmbedding(KEYS, 4, 2, 1, embedding_initializer="ones", name=name + "s")
    hidden = dense(1)(keras.layers.Reshape([8])(layer(inputs)))
    return inputs, dense(2)(hidden)


def model(first, second):
    towers = {name: tower(name) for name in (first, second)}
    inputs, outputs = zip(*[towers[name] for name in ("user", "item")])
    made = keras.Model(list(inputs), keras.layers.Dot(1)(list(outputs)))
    adam = getattr(keras.optimizers, "legacy", keras.optimizers).Adam(0.05)
    made.compile(sok.DistributedOptimizer(adam, average=False), "mse")
    return made


def main(stage, folder, seed):
    sok.init()
    random = np.random.RandomState(int(seed))
    batch = [random.randint(0, KEYS, [SAMPLES, 2, 1]) for _ in range(2)]
    wanted = random.rand(SAMPLES, 1).astype(np.float32)
    mine = slice(launch.current().rank, None, launch.current().size)
    path = os.path.join(folder, "weights")

    def fit(of):
        of.fit([each[mine] for each in batch], wanted[mine], batch_size=8, shuffle=False, verbose=0)

    if stage == "save":
        saved = model("user", "item")
        fit(saved)
        saved.save_weights(path)
        found = [saved.predict(batch)]
        fit(saved)
        found.append(saved.predict(batch))
        assert abs(found[0] - found[1]).max() > 1e-3
        if launch.current().rank == 0:
            np.save(os.path.join(folder, "predicted"), found)
    else:
        before, after = np.load(os.path.join(folder, "predicted.npy"))
        loaded = model("item", "user")
        status = loaded.load_weights(path)
        status.assert_consumed().expect_partial()
        np.testing.assert_allclose(loaded.predict(batch), before, rtol=1e-6)
        if launch.current().size == 2:
            fit(loaded)
            np.testing.assert_allclose(loaded.predict(batch), after, rtol=1e-5)
            loaded.load_weights(path)  # the optimizer's slots too
            fit(loaded)
            np.testing.assert_allclose(loaded.predict(batch), after, rtol=1e-5)
        ops = len(tf.get_default_graph().get_operations())
        loaded.load_weights(path)
        assert len(tf.get_default_graph().get_operations()) <= ops + 2
        try:
            with tf.Graph().as_default():
                keras.backend.set_session(tf.Session())
                other = keras.Model(*tower("other"))
                other.load_weights(path)
        except sok.checkpoint.CheckpointError as error:
            assert "weights" in str(error) and "build the model that was saved" in str(error), error
        else:
            raise AssertionError("no error")
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
