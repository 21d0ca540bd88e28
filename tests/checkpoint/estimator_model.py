"""An Estimator's model whose rows NumPy can say, for program_estimator.py and its test.

Keys and gradients of a step are functions of the step, spread over the ranks. Momentum and whole steps of eighths keep
the sums exact enough for any number of ranks.
"""
import numpy as np

KEYS, SLOTS, DIM, BATCH, ROWS = 60, 2, 4, 8, 96
LEARNING_RATE, MOMENTUM = 0.5, 0.5


def batch(step):
    """Keys of all ranks, int64 [B, S], and the gradients of their rows, float32 [B, S, D]."""
    random = np.random.RandomState(step)
    keys = random.randint(0, min(KEYS, 20 + 3 * step), [BATCH, SLOTS])
    return keys.astype(np.int64), random.randint(-16, 16, [BATCH, SLOTS, DIM]).astype(np.float32) / 8


def expected(steps):
    """What `predict` gives after so many steps, float32 [KEYS, D]: the rows of all keys, dense weights added."""
    rows, slots = np.zeros([2, KEYS, DIM])
    dense = np.zeros([DIM])
    for step in range(steps):
        keys, gradients = batch(step)
        touched, sums = np.unique(keys), np.zeros([KEYS, DIM])
        np.add.at(sums, keys, gradients)
        slots[touched] = MOMENTUM * slots[touched] + sums[touched]
        rows[touched] -= LEARNING_RATE * slots[touched]
        dense -= LEARNING_RATE * gradients.sum(axis=(0, 1))
    return (rows + dense).astype(np.float32)


def hashed(keys):
    """Keys as the table gets them."""
    return keys * 1000003 - 5


def estimator(folder, saved_by, ranks, **config):
    """The tf.estimator.Estimator; saved_by: its 'own' hook, sok's 'hook', or sok's 'listener' of TensorFlow's hook."""
    import tensorflow.compat.v1 as tf

    import sok1x as sok

    def model_fn(features, labels, mode):
        train = mode == tf.estimator.ModeKeys.TRAIN
        layer = sok.All2AllDenseEmbedding(ROWS, DIM, SLOTS, 1, embedding_initializer="zeros")
        direct = sok.All2AllDenseEmbedding(ROWS // ranks, DIM, SLOTS, 1, embedding_initializer="zeros",
                                           use_hashtable=False)
        keys = tf.expand_dims(features, -1)
        dense = tf.get_variable("dense", [DIM], initializer=tf.zeros_initializer(), use_resource=True)
        both = [layer(hashed(keys), training=train)[:, :, 0], direct(keys, training=train)[:, :, 0]]
        rows = tf.add_n(both) / 2 + dense
        scaffold = sok.Scaffold(global_batch_size=BATCH)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=rows, scaffold=scaffold)
        if not train:
            metrics = {"rows": tf.metrics.mean(rows), "error": tf.metrics.mean_absolute_error(labels, rows)}
            return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(rows), eval_metric_ops=metrics,
                                              scaffold=scaffold)
        loss = tf.reduce_sum((tf.add_n(both) + dense) * labels)
        tables = [layer.embedding_variable, direct.embedding_variable]
        made = tf.gradients(loss, tables + [dense])
        for_dense = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(LEARNING_RATE), average=False)
        steps = [tf.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM).apply_gradients(zip(made, tables)),
                 for_dense.apply_gradients([(made[2], dense)])]
        with tf.control_dependencies(steps):
            step = tf.train.get_global_step().assign_add(1, read_value=False)
        hooks = {"own": lambda: [], "hook": lambda: [sok.CheckpointSaverHook(folder, save_steps=4)],
                 "listener": lambda: [tf.train.CheckpointSaverHook(
                     folder, save_steps=4, listeners=[sok.CheckpointSaverListener()])]}
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, scaffold=scaffold,
                                          training_hooks=hooks[saved_by]())

    return tf.estimator.Estimator(model_fn, folder, config=tf.estimator.RunConfig(
        session_config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2), **config))


def train_input(first, rank, ranks):
    """An input_fn of the batches from a step on: this rank's samples."""
    def input_fn():
        import tensorflow.compat.v1 as tf

        def samples():
            step = first
            while True:
                yield tuple(part[rank::ranks] for part in batch(step))
                step += 1
        return tf.data.Dataset.from_generator(samples, (tf.int64, tf.float32), ([None, SLOTS], [None, SLOTS, DIM]))
    return input_fn


def all_keys(steps=None):
    """An input_fn of all keys, the same on all ranks; with labels, what `expected` gives after so many steps."""
    def input_fn():
        import tensorflow.compat.v1 as tf
        keys = np.stack([np.arange(KEYS)] * SLOTS, 1)
        if steps is None:
            return tf.data.Dataset.from_tensors(keys)
        return tf.data.Dataset.from_tensors((keys, np.stack([expected(steps)] * SLOTS, 1)))
    return input_fn
