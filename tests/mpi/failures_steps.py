"""Cases of program_failures.py that take steps and say what is left of them: bits and memory."""
import hashlib
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from failures_model import Model, session
from held_memory import held

import sok1x as sok
from sok1x.launch import batches

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def checksum():
    """Prints a digest of every variable of this rank after some steps: the same run ends with the same bits."""
    init = sok.Init(global_batch_size=4, seed=7)  # as where another case has run before
    model = Model(rows=300, count=2)
    more = tf.train.AdamOptimizer(0.01).minimize(
        model.loss * model.loss, var_list=[layer.embedding_variable for layer in model.layers])
    model.init = tf.global_variables_initializer()
    with session(model, init) as sess:
        random = np.random.RandomState(RANK)
        for _ in range(30):
            sess.run(more, model.feed(random.randint(-200, 200, random.randint(0, 20))))
        values = sess.run(tf.global_variables())
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in values)).hexdigest()
    print("digest of rank {} {}".format(RANK, digest))


def memory(first=200, last=700):
    """What this process holds after the first of these steps, after each quarter of the others, and after the last,
    all garbage collected."""
    batches._REMEMBERED = 100  # what is remembered of past steps is full long before the first look
    init = sok.Init(global_batch_size=4)
    model = Model(rows=500)
    combined = sok.DistributedEmbedding("sum", 500, 4, 1, 3)
    keys = tf.placeholder(tf.int64, [None])
    count = tf.size(keys, out_type=tf.int64)
    rows = tf.stack([tf.range(count), tf.zeros([count], tf.int64)], 1)
    out = combined(tf.SparseTensor(rows, keys, tf.stack([count, 3])))
    more = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(out), var_list=[combined.embedding_variable])
    model.init = tf.global_variables_initializer()
    with session(model, init) as sess:
        run = sess.make_callable([model.train, more], [model.keys, keys])
        random = np.random.RandomState(RANK)
        for step in range(last):
            size = random.randint(0, 5)
            run(random.randint(0, 400, [size, 1, 1]), random.randint(0, 400, size))
            if step + 1 in range(first, last + 1, (last - first) // 4):
                sys.stdout.write("rank {} after {} holds {} {} {}\n".format(RANK, step + 1, *held()))


def memory_of_many_steps():
    memory(500, 2500)
