"""Samples of different number on the ranks, the model that is trained on them, and stock TensorFlow's training of it.

Used by program_even_steps.py on every rank and by the test that compares.
"""
import numpy as np
import tensorflow.compat.v1 as tf

SLOTS, MOST_KEYS, DIM, BATCH, VOCABULARY = 2, 3, 4, 8, 30
SIZES = {2: (50, 37), 4: (50, 0, 19, 8)}  # samples of each rank
RATE = 0.4


def samples(seed, rank, count):
    """This rank's samples: ids [n, SLOTS], words of ids [n, SLOTS, MOST_KEYS] (-1: none), names and labels [n]."""
    random = np.random.RandomState([seed, rank])
    ids = random.randint(0, VOCABULARY, [count, SLOTS])
    bags = random.randint(-1, VOCABULARY, [count, SLOTS, MOST_KEYS])
    names = np.array(["name {}".format(i) for i in random.randint(0, 5, count)], object).reshape(count)
    return ids, bags, names, random.randint(0, 2, count).astype(np.float32)


def logits(single, summed, names):
    """From rows [n, SLOTS, DIM], sums of rows [n, SLOTS, DIM] and strings [n]; with dense variables of its own."""
    random = np.random.RandomState(5)
    hidden = tf.layers.dense(
        tf.concat([tf.reshape(single, [-1, SLOTS * DIM]), tf.reshape(summed, [-1, SLOTS * DIM])], axis=1), 6, tf.tanh,
        kernel_initializer=tf.constant_initializer(random.normal(size=[2 * SLOTS * DIM, 6])), name="hidden")
    words = tf.get_variable("words", initializer=random.normal(size=[5, 6]).astype(np.float32))
    hidden += tf.nn.embedding_lookup(words, tf.strings.to_number(tf.strings.substr(names, 5, 1), tf.int32))
    return tf.layers.dense(hidden, 1, kernel_initializer=tf.constant_initializer(random.normal(size=[6, 1])),
                           name="logit")[:, 0]


def loss(values, labels, count):
    """This rank's part: a sum over its samples, divided by those of all ranks."""
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=values)
    return tf.reduce_sum(losses) / tf.cast(count, tf.float32)


def train_stock(seed, ranks, epochs, tables):
    """One process that sees all ranks' samples: for each epoch (losses, tables, dense variables by name)."""
    parts = [samples(seed, rank, count) for rank, count in enumerate(SIZES[ranks])]
    with tf.Graph().as_default(), tf.Session() as session:
        single, summed = (tf.get_variable(name, initializer=value) for name, value in zip(("single", "summed"), tables))
        ids, bags = tf.placeholder(tf.int64, [None, SLOTS]), tf.placeholder(tf.int64, [None, SLOTS, MOST_KEYS])
        names, labels = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
        there = tf.cast(bags >= 0, tf.float32)[..., None]
        sums = tf.reduce_sum(tf.nn.embedding_lookup(summed, tf.maximum(bags, 0)) * there, axis=2)
        value = loss(logits(tf.nn.embedding_lookup(single, ids), sums, names), labels, tf.size(labels))
        step = tf.train.GradientDescentOptimizer(RATE).minimize(value)
        session.run(tf.global_variables_initializer())
        results = []
        for _ in range(epochs):
            losses = []
            for start in range(0, max(SIZES[ranks]), BATCH):
                batch = [np.concatenate([part[i][start:start + BATCH] for part in parts]) for i in range(4)]
                losses.append(session.run([value, step], dict(zip((ids, bags, names, labels), batch)))[0])
            dense = {variable.op.name: session.run(variable) for variable in tf.trainable_variables()[2:]}
            results.append((losses, session.run([single, summed]), dense))
        return results
