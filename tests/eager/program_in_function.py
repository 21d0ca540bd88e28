"""Run by test_eager.py: what runs at once, called in the body of a tf.function, and then where it belongs."""
import datetime
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402


def refused(name, call):
    try:
        tf.function(call)()
    except RuntimeError as error:
        assert "sok1x.{}: called in the body of a tf.function".format(name) in str(error), error
    else:
        raise AssertionError("{} is taken".format(name))


def main():
    sok.init()
    table = sok.DynamicVariable(dimension=2, initializer="13", init_capacity=8, max_capacity=64)
    optimizer = tf.keras.optimizers.legacy.SGD(1.0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([3, 5], tf.int64)))
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    step()
    folder = tempfile.mkdtemp()
    manager = sok.CheckpointManager(os.path.join(folder, "checkpoints"))
    before = datetime.datetime.utcnow() - datetime.timedelta(1)
    calls = {
        "dump": lambda: sok.dump(os.path.join(folder, "dump"), table),
        "load": lambda: sok.load(os.path.join(folder, "dump"), table),
        "export": lambda: sok.export(table),
        "incremental_dump": lambda: sok.incremental_dump(table, 0),
        "incremental_model_dump": lambda: sok.incremental_model_dump([table], before),
        "evicted_keys": lambda: sok.evicted_keys(table, 0),
        "CheckpointManager.save": lambda: manager.save(step=1),
        "CheckpointManager.restore": manager.restore}
    for name, call in calls.items():
        refused(name, lambda call=call: (call(), tf.constant(0))[1])
    assert sorted(os.listdir(folder)) in ([], ["checkpoints"]), os.listdir(folder)
    for name, call in calls.items():
        call()
    keys, values = (np.asarray(one) for one in sok.export(table))
    assert sorted(keys) == [3, 5] and (values == 12).all(), (keys, values)
    sys.stdout.write("ok\n")


if __name__ == "__main__":
    main()
