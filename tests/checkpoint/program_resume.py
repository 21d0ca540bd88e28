"""Trains two tables and dense weights up to a step, with checkpoints; prints and saves what came out.

    mpiexec -np N python program_resume.py DIR LAST_STEP OUT.npz SAVE_STEPS OPTIMIZER:MODE... [/ DIR ...]

A job after a / is one more, in the same processes. Each optimizer trains a model of its own, with checkpoints in
DIR/OPTIMIZER. MODE: hook (sok.CheckpointSaverHook), listener (TensorFlow's hook with sok.CheckpointSaverListener),
alone (the hook, and the session is not told the folder), or stock (the session's own hook and Saver, as TensorFlow
makes them).

A step's keys and gradients are functions of the step alone, spread over the ranks; gradients are sums of eighths, so
exact: any number of ranks trains alike.
"""
import hashlib
import itertools
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

KEYS, SLOTS, DIM, BATCH, ROWS = 300, 3, 4, 12, 400
OPTIMIZERS = {
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "lazy": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.05),
    "plugin": lambda: sok.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.05, 50, 0.8)),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
}


def batch(step):
    """Keys of all ranks, [B, S], few at first, so that new ones come all along; and gradients [B, 2 S D + 1]."""
    random = np.random.RandomState(step)
    keys = random.randint(0, min(KEYS, 20 + 3 * step), [BATCH, SLOTS]) * 1000003 - 5
    return keys, random.randint(-16, 16, [BATCH, 2 * SLOTS * DIM + 1]).astype(np.float32) / 8


class Model:
    """The graph: a table with a hash index, one by row numbers, dense weights."""

    def __init__(self, optimizer, ranks):
        self.keys = tf.placeholder(tf.int64, [None, SLOTS])
        self.gradients = tf.placeholder(tf.float32, [None, 2 * SLOTS * DIM + 1])
        self.hashed = sok.All2AllDenseEmbedding(ROWS, DIM, SLOTS, 1)
        self.direct = sok.DistributedEmbedding("sum", ROWS // ranks, DIM, SLOTS, 1, use_hashtable=False)
        places = tf.where(tf.ones_like(self.keys, tf.bool))
        bags = tf.SparseTensor(tf.stack([places[:, 0] * SLOTS + places[:, 1], tf.zeros_like(places[:, 0])], 1),
                               tf.reshape(tf.floormod(self.keys, ROWS // ranks * ranks), [-1]),
                               [tf.shape(self.keys, out_type=tf.int64)[0] * SLOTS, 1])
        vectors = tf.concat([tf.reshape(self.hashed(tf.expand_dims(self.keys, -1)), [-1, SLOTS * DIM]),
                             tf.reshape(self.direct(bags), [-1, SLOTS * DIM])], axis=1)
        weights = tf.get_variable("weights", [DIM], initializer=tf.ones_initializer())
        self.loss = (tf.reduce_sum(vectors * self.gradients[:, :-1]) +
                     tf.reduce_sum(weights) * tf.reduce_sum(self.gradients[:, -1]))
        number = tf.train.get_or_create_global_step()
        tables = [self.hashed.embedding_variable, self.direct.embedding_variable]
        gradients = tf.gradients(self.loss, tables + [weights])
        with tf.control_dependencies(gradients[2:]):
            for_dense = sok.DistributedOptimizer(tf.train.AdamOptimizer(0.05), average=False)
            steps = [OPTIMIZERS[optimizer]().apply_gradients(zip(gradients[:2], tables)),
                     for_dense.apply_gradients([(gradients[2], weights)])]
        with tf.control_dependencies(steps):
            self.step = tf.group(number.assign_add(1))
        every = np.arange(KEYS).reshape(-1, 1) * np.ones([1, SLOTS], np.int64) * 1000003 - 5
        self.every = [self.hashed(tf.constant(every[..., None]), training=False), weights]


def session(folder, save_steps, mode, last_step):
    """A MonitoredTrainingSession with checkpoints in `folder`."""
    hooks = [sok.InitHook(global_batch_size=BATCH), tf.train.StopAtStepHook(last_step=last_step)]
    if mode == "stock":
        return tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, save_checkpoint_steps=save_steps, save_summaries_steps=None,
            log_step_count_steps=None, hooks=hooks)
    if mode == "listener":
        hooks.append(tf.train.CheckpointSaverHook(folder, save_steps=save_steps,
                                                  listeners=[sok.CheckpointSaverListener(folder)]))
    else:
        hooks.append(sok.CheckpointSaverHook(folder, save_steps=save_steps))
    return tf.train.MonitoredTrainingSession(
        checkpoint_dir=None if mode == "alone" else folder, save_checkpoint_secs=None, save_summaries_steps=None,
        log_step_count_steps=None, hooks=hooks)


def digest(values):
    """Of all variables, bit for bit."""
    made = hashlib.sha256()
    for name in sorted(values):
        made.update(name.encode() + np.ascontiguousarray(values[name]).tobytes())
    return made.hexdigest()


def train(folder, last_step, save_steps, optimizer, mode, rank, ranks):
    """(first step, digest of all variables at the end, values at the end)."""
    model = Model(optimizer, ranks)
    variables = {variable.name: variable for variable in tf.global_variables()}
    number = tf.train.get_global_step()
    values, state = None, {}
    with session(folder, save_steps, mode, last_step) as run:
        first = step = int(run.run_step_fn(lambda step_context: step_context.session.run(number)))
        while not run.should_stop():
            keys, gradients = batch(step)
            run.run(model.step, {model.keys: keys[rank::ranks], model.gradients: gradients[rank::ranks]})
            step += 1
            if step == last_step:
                values, state = run.run_step_fn(
                    lambda step_context: step_context.session.run([model.every, variables]))
    return first, digest(state), values


def job(number, folder, last_step, out, save_steps, *optimizers):
    from mpi4py import MPI
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    results = {}
    for optimizer, mode in (argument.split(":") for argument in optimizers):
        with tf.Graph().as_default():
            first, made, values = train(os.path.join(folder, optimizer), int(last_step), int(save_steps), optimizer,
                                        mode, rank, ranks)
        # In one piece, for lines of several ranks come together.
        sys.stdout.write("job {} rank {} {} from {} digest {}\n".format(number, rank, optimizer, first, made))
        results[optimizer + "/rows"], results[optimizer + "/weights"] = values
    if rank == 0:
        np.savez(out, **results)


def main():
    jobs = [list(words) for is_end, words in itertools.groupby(sys.argv[1:], "/".__eq__) if not is_end]
    for number, arguments in enumerate(jobs):
        job(number, *arguments)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()
