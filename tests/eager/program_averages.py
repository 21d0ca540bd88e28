"""Run by test_eager_keras.py: optimizers that keep averages, in loops of several steps a call, against Keras' own.

As in program_eager.py, every rank has a part of each batch, and Keras' own layer sees all of it.
"""
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, SLOTS, BATCH, STEPS = 24, 3, 2, 12, 4
KERAS = tf.keras


def model_of(layer, optimizer, share, calls):
    keys = KERAS.Input([SLOTS, 1], dtype=tf.int64)
    out = KERAS.layers.Dense(1, use_bias=False, kernel_initializer="ones")(
        KERAS.layers.Reshape([SLOTS * DIM])(layer(keys)))
    model = KERAS.Model(keys, out)
    model.compile(optimizer, "mse", loss_weights=[share], steps_per_execution=calls)
    return model


def check(made, calls, world, random):
    size, rank = world.size, world.rank
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    keys = random.randint(0, KEYS, [BATCH * STEPS, SLOTS, 1])
    wanted = random.normal(size=[BATCH * STEPS, 1]).astype(np.float32)
    ours = sok.All2AllDenseEmbedding((KEYS + size - 1) // size, DIM, SLOTS, 1, use_hashtable=False)
    stock = KERAS.layers.Embedding(KEYS, DIM)
    model = model_of(ours, sok.DistributedOptimizer(made(), average=False), 1 / size, calls)
    other = model_of(stock, made(), 1, calls)
    sok.assign(ours.embedding_variable, tf.range(KEYS, dtype=tf.int64), rows)
    stock.set_weights([rows])
    mine = np.concatenate([np.arange(step * BATCH + rank, (step + 1) * BATCH, size) for step in range(STEPS)])
    model.fit(keys[mine], wanted[mine], batch_size=BATCH // size, shuffle=False, epochs=2, verbose=0)
    other.fit(keys, wanted, batch_size=BATCH, shuffle=False, epochs=2, verbose=0)
    found, values = sok.export(ours.embedding_variable)
    for key, row in zip(found.numpy().tolist(), values.numpy()):
        if key < KEYS:
            np.testing.assert_allclose(row, stock.get_weights()[0][key], rtol=1e-3, atol=1e-4)
    one, two = (each.layers[-1].get_weights()[0] for each in (model, other))
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def main(seed):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    for made in (lambda: KERAS.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
                 lambda: KERAS.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.8)):
        for calls in (1, 2):
            check(made, calls, world, random)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
